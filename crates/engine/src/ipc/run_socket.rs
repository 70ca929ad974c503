//! The socket of a run: named by the run's tag, so that a process of the run finds it even with no environment.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use journal::Home;

use crate::ipc::wire::{self, DoorMessage};

/// Addresses of sockets hold 108 bytes, the last one 0.
const ADDRESS_MAX: usize = 107;

pub(crate) fn path(home: &Home, tag: u64) -> PathBuf {
    path_in(home.path(), tag)
}

/// Returns the path of a run's socket below a state directory that this process may not be able to read.
pub(crate) fn path_in(home: &Path, tag: u64) -> PathBuf {
    home.join("sockets").join(format!("{tag:x}"))
}

/// Opens the socket of a run for its keeper and worker.
pub(crate) fn bind(home: &Home, tag: u64) -> io::Result<(UnixListener, PathBuf)> {
    let path = path(home, tag);
    let listener = with_short_path(&path, |short| UnixListener::bind(short))?;
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    Ok((listener, path))
}

pub(crate) fn connect(path: &Path) -> io::Result<UnixStream> {
    with_short_path(path, |short| UnixStream::connect(short))
}

/// Makes the worker behind a socket check its inbox now. It also polls the inbox by itself, only later.
pub(crate) fn wake_worker(path: &Path) {
    use std::io::Write;
    let Ok(mut stream) = connect(path) else { return };
    // Waiting does not help with a worker that does not read its socket.
    let _ = stream.set_write_timeout(Some(std::time::Duration::from_millis(100)));
    let _ = stream.write_all(&wire::encode_line(&DoorMessage::CheckInbox));
}

/// Calls `action` with the path, or with a short path through the open directory if the path is too long for an
/// address.
fn with_short_path<T>(path: &Path, action: impl Fn(&Path) -> io::Result<T>) -> io::Result<T> {
    if path.as_os_str().len() <= ADDRESS_MAX {
        return action(path);
    }
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return action(path) };
    let directory = std::fs::File::open(parent)?;
    let short = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd())).join(name);
    action(&short)
}
