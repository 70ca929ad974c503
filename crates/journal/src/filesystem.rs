//! Decides which filesystems may hold the journal, from magic numbers and names that `home` looks up.
//!
//! The journal needs `flock` between processes, hard links, atomic renames and a reliable fsync. Network filesystems
//! provide only some of these, and sometimes only within one machine. A lock that does not lock would let two writers
//! into one run.

/// The magic number of every FUSE filesystem, local or not.
pub(crate) const FUSE: u64 = 0x6573_5546;

/// ext2, ext3 and ext4, which have one magic number.
pub(crate) const EXT: u64 = 0xef53;
pub(crate) const XFS: u64 = 0x5846_5342;

/// Network and cluster filesystems by magic number, from `linux/magic.h` and the filesystems' own sources.
const REMOTE: [(u64, &str); 18] = [
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB2"),
    (0x0102_1997, "9p"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0x00c3_6400, "Ceph"),
    (0x0bd0_0bd0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0x0116_1970, "GFS2"),
    (0x7461_636f, "OCFS2"),
    (0x7375_7245, "Coda"),
    (0x564c, "NCP"),
    (0x1983_0326, "BeeGFS"),
    (0xaad7_aaea, "PanFS"),
    (0x786f_4256, "a VirtualBox shared folder"),
    (0x5346_5446, "a VMware shared folder"),
];

/// FUSE filesystems that store their files on a local disk and pass locks and links through to it. `sshfs` has the
/// same magic number, so the name in the mount table decides, and an unknown name is refused.
const LOCAL_FUSE: [&str; 6] =
    ["fuseblk", "fuse.fuse-overlayfs", "fuse.gocryptfs", "fuse.encfs", "fuse.mergerfs", "fuse.bindfs"];

/// Returns the name of the filesystem if it must not hold the journal.
///
/// `mount_type` is the type in the mount table and matters only for FUSE.
pub(crate) fn unsupported_filesystem(magic: u64, mount_type: Option<&str>) -> Option<String> {
    if magic == FUSE {
        return match mount_type {
            Some(name) if LOCAL_FUSE.contains(&name) => None,
            Some(name) => Some(format!("FUSE ({name})")),
            None => Some("FUSE".to_owned()),
        };
    }
    REMOTE.iter().find(|(remote, _)| *remote == magic).map(|(_, name)| (*name).to_owned())
}

/// Returns the filesystem type of a device in the text of `/proc/self/mountinfo`.
pub(crate) fn mount_type(mountinfo: &str, device: (u32, u32)) -> Option<&str> {
    let device_number = format!("{}:{}", device.0, device.1);
    mountinfo
        .lines()
        .filter(|line| line.split(' ').nth(2) == Some(device_number.as_str()))
        .find_map(|line| line.split_once(" - ")?.1.split(' ').next())
}

#[cfg(test)]
mod tests;
