//! Which filesystems are refused, by number and name.

use super::{FUSE, mount_type, unsupported_filesystem};

#[test]
fn network_filesystems_are_refused_by_name() {
    assert_eq!(unsupported_filesystem(0x6969, None).as_deref(), Some("NFS"));
    assert_eq!(unsupported_filesystem(0xff53_4d42, None).as_deref(), Some("CIFS"));
    assert_eq!(unsupported_filesystem(0xfe53_4d42, None).as_deref(), Some("SMB2"));
    assert_eq!(unsupported_filesystem(0x0102_1997, None).as_deref(), Some("9p"));
    assert_eq!(unsupported_filesystem(0x0bd0_0bd0, None).as_deref(), Some("Lustre"));
    assert_eq!(unsupported_filesystem(0x00c3_6400, None).as_deref(), Some("Ceph"));
}

#[test]
fn local_filesystems_are_taken() {
    let ext4 = 0xef53;
    let btrfs = 0x9123_683e;
    let xfs = 0x5846_5342;
    let tmpfs = 0x0102_1994;
    let overlay = 0x794c_7630;
    let zfs = 0x2fc1_2fc1;
    for magic in [ext4, btrfs, xfs, tmpfs, overlay, zfs] {
        assert_eq!(unsupported_filesystem(magic, None), None, "{magic:x}");
    }
}

#[test]
fn fuse_is_taken_only_when_the_mount_table_names_a_local_one() {
    assert_eq!(unsupported_filesystem(FUSE, Some("fuse.fuse-overlayfs")), None);
    assert_eq!(unsupported_filesystem(FUSE, Some("fuse.sshfs")).as_deref(), Some("FUSE (fuse.sshfs)"));
    assert_eq!(
        unsupported_filesystem(FUSE, Some("fuse.glusterfs")).as_deref(),
        Some("FUSE (fuse.glusterfs)")
    );
    assert_eq!(unsupported_filesystem(FUSE, None).as_deref(), Some("FUSE"));
}

#[test]
fn mount_type_is_found_by_device() {
    let table = "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
                 31 22 0:47 / /mnt/far rw - fuse.sshfs me@far:/ rw,user_id=1000\n\
                 short line\n";
    assert_eq!(mount_type(table, (0, 47)), Some("fuse.sshfs"));
    assert_eq!(mount_type(table, (254, 0)), Some("ext4"));
    assert_eq!(mount_type(table, (9, 9)), None);
    assert_eq!(mount_type("", (0, 0)), None);
}
