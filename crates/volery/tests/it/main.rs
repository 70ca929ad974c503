//! The one integration binary: the real program, real processes, a real file system. One file per awkward
//! behaviour, named for it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(
    clippy::disallowed_methods,
    reason = "tests start processes and read the environment by themselves"
)]

mod stage;

mod bounds_what_an_agent_writes;
mod ends_in_time;
mod enforces_limits;
mod leaves_no_process_behind;
mod runs_an_agent;
mod tells_how_an_agent_ended;
