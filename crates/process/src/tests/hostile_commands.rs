//! Commands that try to get out of their confinement, as root and as an ordinary user: none writes a file outside, reads
//! a file of the home directory, reaches another process, or connects to anything.

use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use super::scenario::{built, fresh_tag, readable};

/// The marker in every file that must not be read.
const SECRET: &str = "MARKER-OF-A-SECRET";

/// How long the process outside may take to answer.
const ANSWER_DEADLINE: Duration = Duration::from_secs(5);

/// Scripts for `/bin/sh`. `$OUT` is a directory outside with the file `victim`, `$REAL_HOME` the home directory, `$PID` a
/// process of the same user, `$TCP` and `$UDP` are ports, and `$SOCK`, `$DGRAM` sockets.
const CASES: &[(&str, &str)] = &[
    ("git alias", "git -c alias.x='!touch $OUT/planted' x"),
    (
        "git pager",
        "git init -q .; git -c core.pager='touch $OUT/planted; cat' -p log; GIT_PAGER='touch $OUT/planted' git -p status",
    ),
    ("git fsmonitor", "git init -q .; git -c core.fsmonitor='touch $OUT/planted; true' status"),
    ("git editor", "git init -q .; git -c core.editor='touch $OUT/planted; true' commit --allow-empty"),
    ("git ssh command", "git -c core.sshCommand='touch $OUT/planted; true' ls-remote ssh://h/r"),
    (
        "git external diff",
        "git init -q .; echo a > f; git add f; echo b > f; git -c diff.external='touch $OUT/planted; true' diff",
    ),
    (
        "git hook",
        "git init -q .; printf '#!/bin/sh\ntouch $OUT/planted' > .git/hooks/post-checkout; chmod +x .git/hooks/post-checkout; git checkout -q -b x",
    ),
    ("git init outside", "git init -q $OUT/planted"),
    (
        "git config outside",
        "git config --file $OUT/victim a.b c; git config --global a.b c; git config --system a.b c",
    ),
    ("git work tree outside", "git init -q .; echo a > f; git add f; git --work-tree=$OUT checkout -f -- f"),
    ("git reads the home", "git diff --no-index /dev/null $REAL_HOME/.ssh/id"),
    ("find -exec", "find . -exec touch $OUT/planted ';'"),
    ("find -delete", "find $OUT -name victim -delete"),
    ("find -fprint", "find . -fprint $OUT/planted"),
    ("env", "env touch $OUT/planted"),
    ("xargs", "echo $OUT/planted | xargs touch"),
    ("sh -c", "sh -c 'echo x > $OUT/planted'"),
    ("append", "echo x >> $OUT/victim"),
    ("from within", "cd $OUT && echo x > planted"),
    ("parent directory", "echo x > ../outside/planted; echo x > ../planted"),
    ("python open", "python3 -c \"open('$OUT/planted','w').write('x')\""),
    ("perl open", "perl -e \"open(F,'>','$OUT/planted'); print F 'x'\""),
    ("node write", "node -e \"require('fs').writeFileSync('$OUT/planted','x')\""),
    ("cp out", "echo x > f; cp f $OUT/planted; cp f $OUT/victim"),
    ("cp in", "cp $OUT/victim copy; cat copy"),
    ("mv out", "echo x > f; mv f $OUT/planted"),
    ("mv in", "mv $OUT/victim taken; cat taken"),
    ("mv a directory out", "mkdir d; echo x > d/f; mv d $OUT/planted"),
    ("ln out", "echo x > f; ln f $OUT/planted"),
    ("ln in", "ln $OUT/victim mine && echo x > mine; cat mine"),
    ("symlink to a file", "ln -s $OUT/victim link; echo x > link; cat link"),
    ("symlink to a directory", "ln -s $OUT link; echo x > link/planted; cat link/victim"),
    ("symlink out", "ln -s /etc/passwd $OUT/planted"),
    ("mkdir out", "mkdir $OUT/planted; mkfifo $OUT/planted; mknod $OUT/planted p"),
    ("rm out", "rm -f $OUT/victim; rmdir $OUT"),
    ("truncate out", "truncate -s 0 $OUT/victim; perl -e \"truncate('$OUT/victim', 0)\"; : > $OUT/victim"),
    ("dd out", "dd if=/dev/zero of=$OUT/victim bs=1 count=1 conv=notrunc"),
    ("tee out", "echo x | tee $OUT/planted $OUT/victim"),
    ("sed in place", "sed -i s/M/x/ $OUT/victim"),
    (
        "tar out",
        "echo x > planted; tar cf t.tar planted; tar xf t.tar -C $OUT; tar cf t2.tar --checkpoint=1 --checkpoint-action=exec='touch $OUT/planted' planted",
    ),
    ("awk out", "awk 'BEGIN { print \"x\" > ENVIRON[\"OUT\"] \"/planted\" }'"),
    (
        "compiled program",
        "printf '#include <fcntl.h>\nint main(int c,char**v){return open(v[1],O_CREAT|O_WRONLY,0600);}' > p.c; cc p.c -o p && ./p $OUT/planted",
    ),
    (
        "write to the home",
        "echo x > $REAL_HOME/.bashrc; mkdir $REAL_HOME/.ssh/planted; echo x >> $REAL_HOME/.ssh/id",
    ),
    ("read a key", "cat $REAL_HOME/.ssh/id"),
    ("list the home", "ls -la $REAL_HOME/.ssh | grep -c id_ && cat $REAL_HOME/.ssh/*"),
    ("grep the home", "grep -rs MARKER $REAL_HOME"),
    ("tar the home", "tar cf home.tar $REAL_HOME; cat home.tar"),
    ("python reads the home", "python3 -c \"print(open('$REAL_HOME/.ssh/id').read())\""),
    (
        "key as a script",
        "sh $REAL_HOME/.ssh/id; . $REAL_HOME/.ssh/id; bash --rcfile $REAL_HOME/.ssh/id -i -c true",
    ),
    ("password hashes", "test $(id -u) = 0 && cat /etc/shadow | sed 's/.*/MARKER-OF-A-SECRET/'"),
    ("environment of another process", "tr '\\0' '\\n' < /proc/$PID/environ"),
    ("arguments of another process", "tr '\\0' '\\n' < /proc/$PID/cmdline"),
    ("memory of another process", "dd if=/proc/$PID/mem bs=1 count=1; echo x > /proc/$PID/mem"),
    (
        "root of another process",
        "cat /proc/$PID/root$REAL_HOME/.ssh/id; echo x > /proc/$PID/root$OUT/planted",
    ),
    ("directory of another process", "cat /proc/$PID/cwd/victim; echo x > /proc/$PID/cwd/planted"),
    (
        "descriptor of another process",
        "cat /proc/$PID/fd/0; echo x > /proc/$PID/fd/1; for f in 3 4 5; do cat /proc/$PID/fd/$f; done",
    ),
    ("own root", "echo x > /proc/self/root$OUT/planted; cat /proc/self/root$REAL_HOME/.ssh/id"),
    ("parent process", "cat /proc/$PPID/environ; kill -STOP $PPID; echo x > /proc/$PPID/root$OUT/planted"),
    ("kill", "kill -9 $PID; kill -STOP $PID; python3 -c \"import os,signal; os.kill($PID, signal.SIGKILL)\""),
    (
        "kill by descriptor",
        "python3 -c \"import os,signal; f=os.pidfd_open($PID); signal.pidfd_send_signal(f, 9)\"",
    ),
    (
        "ptrace",
        "python3 -c \"import ctypes; l=ctypes.CDLL(None); print(l.ptrace(16,$PID,0,0)); print(l.ptrace(0x4206,$PID,0,0))\"; strace -p $PID -o t -e none & sleep 0.3; kill $!",
    ),
    (
        "memory by call",
        "python3 -c \"
import ctypes
l = ctypes.CDLL(None, use_errno=True)
memory = ctypes.create_string_buffer(8)
own = (ctypes.c_void_p * 2)(ctypes.addressof(memory), 8)
other = (ctypes.c_void_p * 2)(0x400000, 8)
r = l.process_vm_readv($PID, own, 1, other, 1, 0)
# Refused before the address is looked at.
print('refused' if r < 0 and ctypes.get_errno() in (1, 3) else 'LISTENING')\"",
    ),
    ("limits of another process", "prlimit --pid $PID --core=0; prlimit --pid $PID --fsize=1"),
    ("mount", "mount -t tmpfs none $OUT; mount --bind . $OUT; umount $OUT"),
    (
        "user namespace",
        "unshare -Ur touch $OUT/planted; unshare -Urm sh -c 'mount -t tmpfs none $OUT; echo x > $OUT/planted'",
    ),
    (
        "namespace of another process",
        "nsenter -t $PID -a touch $OUT/planted; nsenter -t $PID -m touch $OUT/planted",
    ),
    ("chroot", "mkdir r; chroot / touch $OUT/planted; unshare -Ur chroot / touch $OUT/planted"),
    (
        "new mount interface",
        "python3 -c \"import ctypes; l=ctypes.CDLL(None); print([l.syscall(n,0,0,0,0,0) for n in (428,429,430,432,433,442,467)])\"",
    ),
    ("disk device", "mknod disk b 254 0 && dd if=disk bs=512 count=1 | head -c 1; mknod null c 1 3"),
    (
        "set-id programs",
        "su -c \"touch $OUT/planted\"; sudo -n touch $OUT/planted; setpriv --reuid 0 touch $OUT/planted",
    ),
    (
        "kernel settings",
        "echo x > /proc/sys/kernel/core_pattern; echo c > /proc/sysrq-trigger.never; echo x > /sys/kernel/mm/transparent_hugepage/enabled",
    ),
    (
        "cron",
        "echo x > /var/spool/cron/crontabs/planted; echo x > /etc/cron.d/planted; crontab -l; echo touch $OUT/planted | at now",
    ),
    (
        "system directories",
        "for d in /etc /usr/local/bin /usr/bin /tmp /var/tmp /dev/shm /run /opt /var/lib /root /home /srv /mnt; do echo x > $d/volery-planted; done",
    ),
    (
        "background process",
        "setsid sh -c 'sleep 0.2; echo x > $OUT/planted; cat $REAL_HOME/.ssh/id' & (setsid sh -c 'echo x > $OUT/planted' &) ; sleep 0.3",
    ),
    ("tcp by bash", "bash -c 'echo x > /dev/tcp/127.0.0.1/$TCP'"),
    (
        "tcp by python",
        "python3 -c \"import socket; socket.create_connection(('127.0.0.1',$TCP)).send(b'x')\"",
    ),
    ("tcp by perl", "perl -MIO::Socket::INET -e \"IO::Socket::INET->new('127.0.0.1:$TCP') or die\""),
    ("tcp by node", "node -e \"require('net').connect($TCP,'127.0.0.1').on('error',()=>{})\""),
    ("tcp by curl", "curl -s -m 2 http://127.0.0.1:$TCP/; curl -s -m 2 telnet://127.0.0.1:$TCP"),
    ("tcp over version 6", "python3 -c \"import socket; socket.create_connection(('::1',$TCP))\""),
    ("git over tcp", "git ls-remote git://127.0.0.1:$TCP/r; git ls-remote http://127.0.0.1:$TCP/r"),
    ("udp by bash", "bash -c 'echo x > /dev/udp/127.0.0.1/$UDP'"),
    (
        "udp by python",
        "python3 -c \"import socket; socket.socket(socket.AF_INET,socket.SOCK_DGRAM).sendto(b'x',('127.0.0.1',$UDP))\"",
    ),
    ("name service", "python3 -c \"import socket; print(socket.gethostbyname('example.org'))\""),
    (
        "listening",
        "python3 -c \"import socket; s=socket.socket(); s.bind(('127.0.0.1',0)); s.listen(); print('LISTENING')\"",
    ),
    (
        "raw sockets",
        "python3 -c \"import socket; socket.socket(socket.AF_PACKET,socket.SOCK_RAW); print('LISTENING')\"; ping -c1 -W1 127.0.0.1 && echo LISTENING",
    ),
    (
        "other families",
        "python3 -c \"
import socket
for family in (1, 2, 10, 16, 17, 38, 40, 44):
    for kind in (1, 2, 3):
        try:
            socket.socket(family, kind); print('LISTENING', family, kind)
        except OSError:
            pass\"",
    ),
    (
        "container engine's socket",
        "python3 -c \"import socket; s=socket.socket(socket.AF_UNIX); s.connect('$SOCK'); s.send(b'x')\"; curl -s -m 2 --unix-socket $SOCK http://h/; docker -H unix://$SOCK ps",
    ),
    (
        "session bus",
        "DBUS_SESSION_BUS_ADDRESS=unix:path=$SOCK dbus-send --session --dest=a.b /a a.b.c; DBUS_SESSION_BUS_ADDRESS=unix:path=$SOCK systemd-run --user touch $OUT/planted",
    ),
    (
        "datagrams to a local socket",
        "python3 -c \"
import socket
a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
a.connect('$DGRAM'); a.send(b'x')\"; logger -u $DGRAM x",
    ),
    (
        "connected pair of datagrams",
        "python3 -c \"
import socket
a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
a.sendto(b'x', '$DGRAM')\"",
    ),
    (
        "connected pair of streams",
        "python3 -c \"
import socket
a, b = socket.socketpair()
a.connect('$SOCK')\"",
    ),
    (
        "sockets by io_uring",
        "python3 -c \"import ctypes; l=ctypes.CDLL(None); b=ctypes.create_string_buffer(256); r=l.syscall(425,8,b); print('LISTENING' if r >= 0 else r)\"",
    ),
    (
        "foreign system calls",
        "python3 -c \"import ctypes,platform; l=ctypes.CDLL(None); r=l.syscall(0x40000000|41,2,1,0) if platform.machine()=='x86_64' else -1; print('LISTENING' if r >= 0 else r)\"",
    ),
    (
        "kernel keys",
        "keyctl show; python3 -c \"import ctypes; l=ctypes.CDLL(None); r=l.syscall(250,0,-3,0); print('LISTENING' if r >= 0 else r)\"",
    ),
    (
        "kernel programs",
        "python3 -c \"import ctypes; l=ctypes.CDLL(None); b=ctypes.create_string_buffer(128); r=l.syscall(321,0,b,72); print('LISTENING' if r >= 0 else r)\"",
    ),
];

/// A home directory, a directory outside, services and a process of the user whom the commands run as.
struct Surroundings {
    _base: tempfile::TempDir,
    /// Holds a copy of the program that confines: an ordinary user may not reach the folder that it was built in.
    program_dir: tempfile::TempDir,
    base: PathBuf,
    user: User,
    bystander: Child,
    tcp: TcpListener,
    udp: UdpSocket,
    stream: UnixListener,
    datagrams: UnixDatagram,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum User {
    Own,
    /// 65534, which owns nothing else.
    Nobody,
}

impl User {
    /// Returns a command that starts the program as the user.
    #[expect(clippy::disallowed_methods, reason = "the test starts what the commands attack")]
    fn command(self, program: &str) -> Command {
        match self {
            Self::Own => Command::new(program),
            Self::Nobody => {
                let mut command = Command::new("setpriv");
                command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", program]);
                command
            }
        }
    }
}

impl Surroundings {
    fn new(user: User) -> Self {
        let temp_dir = tempfile::tempdir().expect("a folder");
        let program_dir = tempfile::tempdir().expect("a folder");
        std::fs::copy(built("examples/confined"), program_dir.path().join("confined")).expect("it was built");
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(program_dir.path(), open).expect("it is this user's");
        let base = temp_dir.path().canonicalize().expect("it exists");
        let at = |name: &str| base.join(name);
        for folder in ["project", "tmp", "outside", "home", "home/.ssh", "sockets"] {
            std::fs::create_dir(at(folder)).expect("a folder");
        }
        for file in ["outside/victim", "home/.ssh/id", "home/.bashrc"] {
            std::fs::write(at(file), format!("echo {SECRET}\n")).expect("it is writable");
        }
        let stream = UnixListener::bind(at("sockets/stream")).expect("a socket");
        let datagrams = UnixDatagram::bind(at("sockets/datagrams")).expect("a socket");
        if user == User::Nobody {
            give_to_nobody(&base);
        }
        let mut bystander = user.command("sh");
        bystander.args([
            "-c",
            &format!("exec 3< victim 4>> victim; : {SECRET}; while read line; do echo here; done"),
        ]);
        bystander.env("KEY", SECRET).current_dir(at("outside")).stdin(Stdio::piped()).stdout(Stdio::piped());
        let bystander = bystander.spawn().expect("sh is installed");
        let tcp = TcpListener::bind("127.0.0.1:0").expect("a port");
        let udp = UdpSocket::bind("127.0.0.1:0").expect("a port");
        tcp.set_nonblocking(true).expect("it is a socket");
        udp.set_nonblocking(true).expect("it is a socket");
        stream.set_nonblocking(true).expect("it is a socket");
        datagrams.set_nonblocking(true).expect("it is a socket");
        Self { _base: temp_dir, program_dir, base, user, bystander, tcp, udp, stream, datagrams }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.base.join(name)
    }

    /// Runs a script under confinement in an empty project.
    fn run(&self, script: &str, demand: &str) -> Value {
        let project = tempfile::tempdir_in(self.at("project")).expect("a folder");
        if self.user == User::Nobody {
            give_to_nobody(project.path());
        }
        let text = |path: &Path| path.display().to_string();
        let env = [
            ("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin".to_owned()),
            ("HOME", text(&self.at("tmp"))),
            ("OUT", text(&self.at("outside"))),
            ("REAL_HOME", text(&self.at("home"))),
            ("PID", self.bystander.id().to_string()),
            ("TCP", self.tcp.local_addr().expect("it is bound").port().to_string()),
            ("UDP", self.udp.local_addr().expect("it is bound").port().to_string()),
            ("SOCK", text(&self.at("sockets/stream"))),
            ("DGRAM", text(&self.at("sockets/datagrams"))),
        ];
        let scenario = json!({
            "argv": ["sh", "-c", script], "env": env, "directory": project.path(), "tag": fresh_tag(),
            "demand": demand, "read_only": [], "read_write": [project.path(), self.at("tmp")],
            "hidden": [self.at("home")], "network": false,
        });
        // A command that could stop the program above it would stop this test as well.
        let mut command = self.user.command("timeout");
        command.args(["-s", "KILL", "60", &text(&self.program_dir.path().join("confined"))]);
        let output = command.arg(scenario.to_string()).output().expect("the program starts");
        let errors = String::from_utf8_lossy(&output.stderr);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{script}: {errors}"))
    }

    /// Returns what a script has reached outside of its confinement.
    fn breaches(&mut self, report: &Value) -> Vec<String> {
        let mut breaches = Vec::new();
        let mut check = |held: bool, what: &str| {
            if !held {
                breaches.push(what.to_owned());
            }
        };
        let output = format!("{}{}", report["stdout"], report["stderr"]);
        check(!output.contains(SECRET), "read a secret");
        check(!output.contains("LISTENING"), "made a socket or used an interface of the kernel");
        check(report["refused"].is_null() && report["containment"]["landlock"].is_u64(), "was not confined");
        let entries = |name: &str| std::fs::read_dir(self.base.join(name)).map_or(0, Iterator::count);
        let counts =
            [entries("outside"), entries("home"), entries("home/.ssh"), entries("sockets"), entries("")];
        check(counts == [1, 2, 1, 2, 5], "created or removed a file");
        for file in ["outside/victim", "home/.ssh/id", "home/.bashrc"] {
            let content = std::fs::read_to_string(self.at(file)).unwrap_or_default();
            check(content == format!("echo {SECRET}\n"), "changed a file");
        }
        for folder in ["/etc", "/usr/local/bin", "/usr/bin", "/tmp", "/var/tmp", "/dev/shm", "/run", "/opt"] {
            check(!Path::new(folder).join("volery-planted").exists(), "wrote into a system directory");
        }
        check(self.tcp.accept().is_err(), "connected by TCP");
        check(self.udp.recv(&mut [0; 8]).is_err(), "sent a datagram");
        check(self.stream.accept().is_err(), "connected to a local socket");
        check(self.datagrams.recv(&mut [0; 8]).is_err(), "sent to a local socket");
        check(self.bystander_answers(), "ended or stopped another process");
        breaches
    }

    /// Returns whether the process outside still runs: not stopped, not traced, not ended. A signal takes effect before
    /// the answer.
    fn bystander_answers(&mut self) -> bool {
        let written = self.bystander.stdin.as_mut().is_some_and(|stdin| stdin.write_all(b"\n").is_ok());
        let answers = self.bystander.stdout.as_mut().is_some_and(|stdout| {
            readable(stdout, ANSWER_DEADLINE) && stdout.read_exact(&mut [0; 5]).is_ok()
        });
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.bystander.id()));
        written && answers && status.is_ok_and(|status| status.contains("TracerPid:\t0"))
    }
}

impl Drop for Surroundings {
    fn drop(&mut self) {
        let _ = self.bystander.kill();
        let _ = self.bystander.wait();
    }
}

fn give_to_nobody(path: &Path) {
    std::os::unix::fs::chown(path, Some(65534), Some(65534)).expect("root can");
    let Ok(entries) = std::fs::read_dir(path) else { return };
    entries.filter_map(Result::ok).for_each(|entry| give_to_nobody(&entry.path()));
}

fn check_all(user: User, demands: &[&str]) {
    assert!(CASES.len() >= 40);
    if user == User::Nobody && !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: only root can become another user");
        return;
    }
    let mut surroundings = Surroundings::new(user);
    let mut failures = Vec::new();
    for demand in demands {
        for (name, script) in CASES {
            let report = surroundings.run(script, demand);
            let breaches = surroundings.breaches(&report);
            if !breaches.is_empty() {
                failures.push(format!("{demand}, {name}: {}: {report}", breaches.join(", ")));
                surroundings = Surroundings::new(user);
            }
        }
    }
    assert!(failures.is_empty(), "{user:?}:\n{}", failures.join("\n"));
}

#[test]
fn no_hostile_command_of_this_user_gets_out() {
    check_all(User::Own, &["plain"]);
}

#[test]
fn no_hostile_command_of_this_user_gets_out_of_a_namespace() {
    check_all(User::Own, &["auto"]);
}

#[test]
fn no_hostile_command_of_an_ordinary_user_gets_out() {
    check_all(User::Nobody, &["plain"]);
}

/// The cases would find nothing if the attacks did not work: without confinement, they do.
#[test]
fn the_attacks_work_where_nothing_is_confined() {
    let mut surroundings = Surroundings::new(User::Own);
    let out = surroundings.at("outside");
    for (script, breach) in [
        ("git -c alias.x='!touch $OUT/planted' x", "created or removed a file"),
        ("bash -c 'echo x > /dev/udp/127.0.0.1/$UDP'", "sent a datagram"),
        ("cat $REAL_HOME/.ssh/id", "read a secret"),
        ("kill -STOP $PID", "ended or stopped another process"),
    ] {
        let mut command = User::Own.command("sh");
        command.args(["-c", script]).env("OUT", &out).env("REAL_HOME", surroundings.at("home"));
        command.env("PID", surroundings.bystander.id().to_string());
        command.env("UDP", surroundings.udp.local_addr().expect("it is bound").port().to_string());
        let output = command.output().expect("sh is installed");
        let report = json!({ "stdout": String::from_utf8_lossy(&output.stdout), "stderr": "",
            "containment": { "landlock": 1 } });
        assert!(surroundings.breaches(&report).contains(&breach.to_owned()), "{script}");
        surroundings = Surroundings::new(User::Own);
    }
}
