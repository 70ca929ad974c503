//! Messages between a door and a run: over the channel to the door that started it, or over the run's socket.

mod cancel_order;
pub(crate) mod relay;
pub(crate) mod run_channels;
pub(crate) mod run_socket;
pub(crate) mod wire;

pub(crate) use cancel_order::order_cancel;
