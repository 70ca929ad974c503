//! Orders that cancel a run: on disk first, then over the run's socket.

use domain::id::RunId;
use domain::run::CancelRequest;
use journal::{Home, inbox};

use super::run_socket;

/// Cancels a run: writes the order to disk, then wakes its worker.
pub(crate) fn order_cancel(home: &Home, run: RunId, by: &str) {
    let dir = home.run_dir(run);
    let order = CancelRequest { by: by.to_owned(), reason: String::new(), now: false };
    // A run that is gone or has ended needs no order.
    if inbox::post_cancel(&dir, &order).is_ok()
        && let Ok(spec) = dir.read_spec()
    {
        run_socket::wake_worker(&run_socket::path(home, spec.tag));
    }
}
