//! A confinement as the kernel takes it, made before the fork.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use domain::run::NetworkRestriction;
use rustix::fs::{FileType, Mode, OFlags};

use super::request::{Confinement, Grant, IfMissing, NetworkAccess};
use crate::error::SpawnError;
use crate::os::file_right::{
    ALL_OF_VERSION_1, EXECUTE, IOCTL_DEVICE, MAKE_BLOCK, MAKE_CHAR, OF_A_FILE, READ_DIR, READ_FILE, REFER,
    TRUNCATE, WRITE_FILE,
};
use crate::os::{
    ALL_SCOPES, ChildConfinement, RulesetAttributes, SocketFilter, SyscallFilter, TCP_RIGHTS, allow_beneath,
    build_syscall_filter, create_ruleset, has_syscall_filters, landlock_version,
};

/// Devices that hold nothing. There is no terminal: a program that asks for a password must fail at once.
const WRITABLE_DEVICES: [&str; 3] = ["/dev/null", "/dev/zero", "/dev/full"];
const READABLE_DEVICES: [&str; 2] = ["/dev/random", "/dev/urandom"];

/// The rules and the filter for one start.
pub(crate) struct PreparedConfinement {
    /// The version of Landlock, and the rules.
    ruleset: Option<(u32, OwnedFd)>,
    filter: Option<SyscallFilter>,
    network: NetworkAccess,
    /// The granted paths, to explain why a program cannot be executed.
    granted: Vec<PathBuf>,
    missing: Vec<String>,
}

impl PreparedConfinement {
    pub(crate) fn new(request: &Confinement) -> Result<Self, SpawnError> {
        let granted = request.resolved()?;
        let mut missing = Vec::new();
        let ruleset = match landlock_version() {
            Ok(version) => {
                missing.extend(gaps(version));
                Some((version, ruleset(version, request.network, &granted)?))
            }
            Err(error) => {
                require(request, &mut missing, format!("landlock: {error}"))?;
                None
            }
        };
        let sockets = match request.network {
            NetworkAccess::Denied => SocketFilter::None,
            NetworkAccess::Unrestricted => SocketFilter::Hosts,
        };
        let filter = build_syscall_filter(sockets).filter(|_| has_syscall_filters());
        if filter.is_none() {
            let reason = "filter of system calls: not available on this machine";
            require(request, &mut missing, reason.to_owned())?;
        }
        let granted = granted.into_iter().map(|(path, _)| path).collect();
        Ok(Self { ruleset, filter, network: request.network, granted, missing })
    }

    /// Returns whether a program or a library can be executed.
    pub(crate) fn grants(&self, program: &Path) -> bool {
        self.ruleset.is_none()
            || program
                .canonicalize()
                .is_ok_and(|program| self.granted.iter().any(|granted| program.starts_with(granted)))
    }

    pub(crate) fn landlock(&self) -> Option<u32> {
        self.ruleset.as_ref().map(|(version, _)| *version)
    }

    pub(crate) fn network(&self) -> NetworkRestriction {
        match (self.network, &self.filter, self.landlock()) {
            (NetworkAccess::Denied, Some(_), _) => NetworkRestriction::Closed,
            (NetworkAccess::Denied, None, Some(4..)) => NetworkRestriction::TcpClosed,
            (NetworkAccess::Unrestricted, Some(_), _) => NetworkRestriction::HostsOnly,
            (NetworkAccess::Denied | NetworkAccess::Unrestricted, None, _) => NetworkRestriction::Open,
        }
    }

    pub(crate) fn missing(&self) -> &[String] {
        &self.missing
    }

    pub(crate) fn for_child(&self) -> ChildConfinement<'_> {
        ChildConfinement {
            ruleset: self.ruleset.as_ref().map(|(_, ruleset)| ruleset.as_fd()),
            filter: self.filter.as_ref(),
        }
    }
}

/// Notes that a mechanism is missing, or refuses to start without it.
fn require(request: &Confinement, missing: &mut Vec<String>, reason: String) -> Result<(), SpawnError> {
    match request.if_missing {
        IfMissing::Refuse => Err(SpawnError::ConfinementUnavailable { reason }),
        IfMissing::Allow => {
            missing.push(reason);
            Ok(())
        }
    }
}

/// Returns what an old version of Landlock leaves open.
fn gaps(version: u32) -> Vec<String> {
    let gaps = [
        (3, "files that the process must not write can be emptied"),
        (5, "device files can be commanded"),
        (6, "processes outside can be signalled"),
    ];
    let open = gaps.into_iter().filter(|(since, _)| version < *since);
    open.map(|(_, gap)| format!("landlock {version}: {gap}")).collect()
}

fn ruleset(
    version: u32,
    network: NetworkAccess,
    granted: &[(PathBuf, Grant)],
) -> Result<OwnedFd, SpawnError> {
    let attributes = restricted(version, network);
    let ruleset = create_ruleset(&attributes)?;
    for (path, grant) in granted {
        let allowed = match grant {
            // Nobody needs a device of his own: root could read a disk by it.
            Grant::Write => attributes.files & !(MAKE_CHAR | MAKE_BLOCK | IOCTL_DEVICE),
            Grant::Read => EXECUTE | READ_FILE | READ_DIR,
        };
        allow(&ruleset, path, allowed)
            .map_err(|source| SpawnError::ConfinementPath { path: path.clone(), source })?;
    }
    let writable = READ_FILE | WRITE_FILE | (attributes.files & TRUNCATE);
    let devices = WRITABLE_DEVICES.map(|path| (path, writable)).into_iter();
    for (path, allowed) in devices.chain(READABLE_DEVICES.map(|path| (path, READ_FILE))) {
        match allow(&ruleset, Path::new(path), allowed) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(SpawnError::ConfinementPath { path: path.into(), source: error });
            }
            Ok(()) | Err(_) => {}
        }
    }
    Ok(ruleset)
}

/// Returns everything that this version can restrict.
fn restricted(version: u32, network: NetworkAccess) -> RulesetAttributes {
    let since = |first: u32, rights: u64| if version >= first { rights } else { 0 };
    RulesetAttributes {
        files: ALL_OF_VERSION_1 | since(2, REFER) | since(3, TRUNCATE) | since(5, IOCTL_DEVICE),
        network: match network {
            NetworkAccess::Denied => since(4, TCP_RIGHTS),
            NetworkAccess::Unrestricted => 0,
        },
        scopes: since(6, ALL_SCOPES),
    }
}

/// Allows these rights on a path that was resolved before: a link in its last part would lead elsewhere now.
fn allow(ruleset: &OwnedFd, path: &Path, rights: u64) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty())?;
    let is_directory = FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) == FileType::Directory;
    let rights = if is_directory { rights } else { rights & OF_A_FILE };
    Ok(allow_beneath(ruleset.as_fd(), file.as_fd(), rights)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_restricts_everything_that_it_knows() {
        let expected = [
            (1, 0x1fff, 0, 0),
            (2, 0x3fff, 0, 0),
            (3, 0x7fff, 0, 0),
            (4, 0x7fff, 3, 0),
            (5, 0xffff, 3, 0),
            (6, 0xffff, 3, 3),
            (9, 0xffff, 3, 3),
        ];
        for (version, files, network, scopes) in expected {
            let attributes = RulesetAttributes { files, network, scopes };
            assert_eq!(restricted(version, NetworkAccess::Denied), attributes, "version {version}");
            let open = RulesetAttributes { network: 0, ..attributes };
            assert_eq!(restricted(version, NetworkAccess::Unrestricted), open, "version {version}");
        }
        assert_eq!((gaps(1).len(), gaps(3).len(), gaps(6).len()), (3, 2, 0));
    }
}
