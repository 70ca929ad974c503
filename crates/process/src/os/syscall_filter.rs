//! A filter of system calls (seccomp) for what Landlock does not cover: sockets of every kind, namespaces, mounts, and
//! interfaces of the kernel that bypass other checks.
//!
//! Written by hand: it is a table and two dozen lines. Every check ends with a return, so there are no long jumps.

use libc::{c_long, sock_filter};
use rustix::io::Errno;

/// The value of `arch` in the kernel's data for calls of this program's own kind. Other kinds of calls have other
/// numbers, so a process could use them to bypass the table.
const OWN_ARCHITECTURE: Option<u32> = if cfg!(all(target_arch = "x86_64", target_pointer_width = "64")) {
    Some(0xC000_003E)
} else if cfg!(target_arch = "aarch64") {
    Some(0xC000_00B7)
} else if cfg!(target_arch = "riscv64") {
    Some(0xC000_00F3)
} else {
    None
};

/// On x86-64, calls of the x32 interface have this bit, and the same `arch`.
const X32_BIT: u32 = 0x4000_0000;

/// Where the kernel's data has the number of the call, the kind, and the lower half of an argument.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const fn argument(index: u32) -> u32 {
    16 + 8 * index + if cfg!(target_endian = "big") { 4 } else { 0 }
}

/// `open_tree_attr`, which the library does not name. Calls from 424 on have one number on all architectures.
const SYS_OPEN_TREE_ATTR: c_long = 467;

/// Calls that fail with `EPERM`.
const REFUSED: [c_long; 24] = [
    // Makes sockets and opens files without the calls that this filter sees.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // A namespace of its own gives a process rights over the system in it.
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_open_tree,
    SYS_OPEN_TREE_ATTR,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    // Opens files by a number instead of a path.
    libc::SYS_open_by_handle_at,
    // The user's keyrings hold keys of file systems and of services.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // Large parts of the kernel that no command of a project needs.
    libc::SYS_bpf,
    libc::SYS_userfaultfd,
    libc::SYS_perf_event_open,
    libc::SYS_quotactl,
];

/// The flags of `clone` that make namespaces.
const NAMESPACE_FLAGS: u32 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET)
    .cast_unsigned();

/// The sockets that a process may make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SocketFilter {
    /// None, except for connected pairs.
    None,
    /// To reach hosts: IP, and the kernel's information about addresses. Not local ones, with which a service of the user
    /// or of the system could be commanded.
    Hosts,
}

/// A program for the kernel.
pub(crate) struct SyscallFilter(Vec<sock_filter>);

/// Returns whether the kernel runs such filters.
pub(crate) fn has_syscall_filters() -> bool {
    let action = libc::SECCOMP_RET_ERRNO;
    // SAFETY: the kernel reads one number.
    let answer = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_ACTION_AVAIL, 0, std::ptr::from_ref(&action))
    };
    answer == 0
}

/// Returns the program, or `None` on an architecture that the table does not know.
pub(crate) fn build_syscall_filter(sockets: SocketFilter) -> Option<SyscallFilter> {
    let mut program = vec![
        load(ARCHITECTURE),
        skip_if(Test::Equal, OWN_ARCHITECTURE?, 1),
        refuse(Errno::PERM),
        load(NUMBER),
    ];
    if cfg!(target_arch = "x86_64") {
        program.extend([skip_unless(Test::AnyBit, X32_BIT, 1), refuse(Errno::PERM)]);
    }
    for number in REFUSED {
        program.extend([skip_unless(Test::Equal, call(number), 1), refuse(Errno::PERM)]);
    }
    // Its flags are in memory, which a filter cannot read. Libraries then use `clone`.
    program.extend([skip_unless(Test::Equal, call(libc::SYS_clone3), 1), refuse(Errno::NOSYS)]);
    when_called(
        &mut program,
        libc::SYS_clone,
        &[load(argument(0)), skip_unless(Test::AnyBit, NAMESPACE_FLAGS, 1), refuse(Errno::PERM)],
    );
    // The limits of other processes; the mark of a run is one of them.
    when_called(
        &mut program,
        libc::SYS_prlimit64,
        &[load(argument(0)), skip_if(Test::Equal, 0, 1), refuse(Errno::PERM)],
    );
    // One end of a pair of datagram sockets can be connected anew, to any local socket.
    when_called(
        &mut program,
        libc::SYS_socketpair,
        &[
            load(argument(1)),
            mask(0xf),
            skip_unless(Test::Equal, libc::SOCK_DGRAM.cast_unsigned(), 1),
            refuse(Errno::ACCESS),
        ],
    );
    when_called(&mut program, libc::SYS_socket, &socket_check(sockets));
    program.push(answer(libc::SECCOMP_RET_ALLOW));
    Some(SyscallFilter(program))
}

fn socket_check(sockets: SocketFilter) -> Vec<sock_filter> {
    match sockets {
        SocketFilter::None => vec![refuse(Errno::ACCESS)],
        SocketFilter::Hosts => {
            let family = |family: libc::c_int| family.cast_unsigned();
            vec![
                load(argument(0)),
                skip_unless(Test::Equal, family(libc::AF_INET), 1),
                answer(libc::SECCOMP_RET_ALLOW),
                skip_unless(Test::Equal, family(libc::AF_INET6), 1),
                answer(libc::SECCOMP_RET_ALLOW),
                skip_if(Test::Equal, family(libc::AF_NETLINK), 1),
                refuse(Errno::ACCESS),
                load(argument(2)),
                skip_if(Test::Equal, family(libc::NETLINK_ROUTE), 1),
                refuse(Errno::ACCESS),
            ]
        }
    }
}

/// Lays the filter on this thread. `no_new_privs` must be set. Safe after fork.
pub(super) fn install(filter: &SyscallFilter) -> Result<(), Errno> {
    let SyscallFilter(program) = filter;
    let Ok(len) = u16::try_from(program.len()) else { return Err(Errno::INVAL) };
    let filter = libc::sock_fprog { len, filter: program.as_ptr().cast_mut() };
    // SAFETY: the kernel copies the program, and does not write to it.
    let answer = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, std::ptr::from_ref(&filter))
    };
    if answer == 0 { Ok(()) } else { Err(super::child::last_errno()) }
}

/// Appends checks for one call. A call that passes them is allowed.
fn when_called(program: &mut Vec<sock_filter>, number: c_long, checks: &[sock_filter]) {
    let count = u8::try_from(checks.len() + 1).expect("a check has a dozen instructions");
    program.push(skip_unless(Test::Equal, call(number), count));
    program.extend_from_slice(checks);
    program.push(answer(libc::SECCOMP_RET_ALLOW));
}

fn call(number: c_long) -> u32 {
    u32::try_from(number).expect("the numbers of calls are small")
}

#[derive(Clone, Copy)]
enum Test {
    Equal,
    AnyBit,
}

impl Test {
    fn code(self) -> u32 {
        match self {
            Self::Equal => libc::BPF_JEQ,
            Self::AnyBit => libc::BPF_JSET,
        }
    }
}

fn load(offset: u32) -> sock_filter {
    instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, [0, 0], offset)
}

fn mask(bits: u32) -> sock_filter {
    instruction(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, [0, 0], bits)
}

fn skip_if(test: Test, value: u32, count: u8) -> sock_filter {
    instruction(libc::BPF_JMP | test.code() | libc::BPF_K, [count, 0], value)
}

fn skip_unless(test: Test, value: u32, count: u8) -> sock_filter {
    instruction(libc::BPF_JMP | test.code() | libc::BPF_K, [0, count], value)
}

fn refuse(errno: Errno) -> sock_filter {
    answer(libc::SECCOMP_RET_ERRNO | errno.raw_os_error().cast_unsigned())
}

fn answer(value: u32) -> sock_filter {
    instruction(libc::BPF_RET | libc::BPF_K, [0, 0], value)
}

fn instruction(code: u32, [jt, jf]: [u8; 2], k: u32) -> sock_filter {
    sock_filter { code: u16::try_from(code).expect("an operation has 16 bits"), jt, jf, k }
}
