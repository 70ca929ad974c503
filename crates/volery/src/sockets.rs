//! The socket of a run: named by the run's tag, so that a process of the run finds it even with no environment.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use journal::Home;

use crate::wire::{self, Word};

/// Addresses of sockets hold 108 bytes, the last one 0.
const ADDRESS_MAX: usize = 107;

/// Returns where the socket of a run is.
pub fn path(home: &Home, tag: u64) -> PathBuf {
    path_in(home.path(), tag)
}

/// Returns where the socket of a run is, below a state directory that may not be readable from here.
pub fn path_in(home: &Path, tag: u64) -> PathBuf {
    home.join("sockets").join(format!("{tag:x}"))
}

/// Opens the socket of a run for its keeper and worker.
pub fn bind(home: &Home, tag: u64) -> io::Result<(UnixListener, PathBuf)> {
    let path = path(home, tag);
    let listener = with_short_path(&path, |short| UnixListener::bind(short))?;
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    Ok((listener, path))
}

/// Connects to the socket of a run.
pub fn connect(path: &Path) -> io::Result<UnixStream> {
    with_short_path(path, |short| UnixStream::connect(short))
}

/// Makes the worker behind a socket look into its inbox. It looks by itself too, only later.
pub fn nudge(path: &Path) {
    use std::io::Write;
    let Ok(mut stream) = connect(path) else { return };
    // A worker that does not read its socket is not helped by waiting for it.
    let _ = stream.set_write_timeout(Some(std::time::Duration::from_millis(100)));
    let _ = stream.write_all(&wire::line(&Word::Look));
}

/// Uses the path, or a short way to it through the open directory where it is too long for an address.
fn with_short_path<T>(path: &Path, action: impl Fn(&Path) -> io::Result<T>) -> io::Result<T> {
    if path.as_os_str().len() <= ADDRESS_MAX {
        return action(path);
    }
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return action(path) };
    let directory = std::fs::File::open(parent)?;
    let short = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd())).join(name);
    action(&short)
}
