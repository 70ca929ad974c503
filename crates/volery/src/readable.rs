//! Waits until a descriptor can be read: the end of a process, for one.

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Returns once the descriptor can be read, or can never be.
pub async fn readable(descriptor: OwnedFd) -> io::Result<()> {
    #[expect(
        deprecated,
        reason = "unsound only for types that may close or change their descriptor; this one owns it"
    )]
    let waiting = AsyncFd::with_interest(descriptor, Interest::READABLE)?;
    waiting.readable().await.map(|_| ())
}
