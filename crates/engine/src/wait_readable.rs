//! Waits until a descriptor can be read, such as the pidfd of a process that ends.

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Returns once the descriptor can be read, or fails if it never can be.
pub(crate) async fn wait_readable(descriptor: OwnedFd) -> io::Result<()> {
    #[expect(
        deprecated,
        reason = "unsound only for types that may close or change their descriptor; this one owns it"
    )]
    let waiting = AsyncFd::with_interest(descriptor, Interest::READABLE)?;
    waiting.readable().await.map(|_| ())
}
