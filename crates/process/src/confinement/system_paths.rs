//! The parts of a system that ordinary programs read.

use std::path::{Path, PathBuf};

/// Directories and files of the system that ordinary programs read: programs, libraries, settings, time zones,
/// certificates, and facts about the machine.
///
/// Not among them: home directories, `/var`, `/run`, `/srv`, `/mnt`, `/tmp`, devices other than the harmless ones, and
/// the entries of other processes in `/proc`. For root, only those parts of `/etc` are listed that everybody may read:
/// password hashes and private keys stay out of reach.
pub fn system_read_paths() -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = SYSTEM.iter().map(PathBuf::from).collect();
    if rustix::process::geteuid().is_root() {
        paths.extend_from_slice(public_settings());
    } else {
        paths.push(PathBuf::from(SETTINGS));
    }
    // Settings of the name service are often a link to a file that changes with the network.
    paths.extend(std::fs::canonicalize("/etc/resolv.conf"));
    paths
}

const SETTINGS: &str = "/etc";

const SYSTEM: [&str; 29] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/opt",
    "/nix",
    "/gnu",
    "/snap",
    "/run/current-system",
    "/proc/cpuinfo",
    "/proc/filesystems",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/sys/kernel/cap_last_cap",
    "/proc/sys/kernel/osrelease",
    "/proc/sys/kernel/ngroups_max",
    "/proc/sys/kernel/pid_max",
    "/proc/sys/kernel/random",
    "/proc/sys/kernel/threads-max",
    "/proc/sys/vm/overcommit_memory",
    "/proc/uptime",
    "/proc/version",
    "/sys/devices/system/cpu",
    "/sys/fs/cgroup",
    "/sys/kernel/mm/transparent_hugepage",
];

/// Returns the largest parts of `/etc` that everybody may read, found once.
fn public_settings() -> &'static [PathBuf] {
    static PUBLIC: std::sync::OnceLock<Vec<PathBuf>> = std::sync::OnceLock::new();
    PUBLIC.get_or_init(|| {
        let mut found = Vec::new();
        if add_public(Path::new(SETTINGS), 0, &mut found) {
            found = vec![PathBuf::from(SETTINGS)];
        }
        found
    })
}

const SETTINGS_DEPTH_MAX: usize = 12;

/// Returns whether everybody may read everything in this directory. If not, appends the parts for which that is true.
fn add_public(directory: &Path, depth: usize, found: &mut Vec<PathBuf>) -> bool {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = std::fs::read_dir(directory) else { return false };
    if depth > SETTINGS_DEPTH_MAX {
        return false;
    }
    let mut is_public = true;
    let mut public_parts = Vec::new();
    for entry in entries {
        let Ok(entry) = entry else { return false };
        let Ok(metadata) = entry.metadata() else { continue };
        let mode = metadata.mode();
        let readable = match (metadata.is_symlink(), metadata.is_dir()) {
            // The target decides, and needs a rule of its own.
            (true, _) => continue,
            (_, true) => mode & 0o5 == 0o5 && add_public(&entry.path(), depth + 1, &mut public_parts),
            (_, false) => mode & 0o4 != 0,
        };
        if readable {
            public_parts.push(entry.path());
        }
        is_public &= readable;
    }
    if !is_public {
        found.append(&mut public_parts);
    }
    is_public
}
