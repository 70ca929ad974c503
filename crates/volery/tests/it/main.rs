//! The one integration binary: the real program, real processes, a real file system. One file per awkward
//! behaviour, named for it.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(
    clippy::disallowed_methods,
    reason = "tests start processes and read the environment by themselves"
)]

mod stage;

mod a_wait_is_not_a_run;
mod clients_we_did_not_write;
mod hides_secrets_while_it_runs;
mod rehearses_a_huge_prompt;
mod runs_an_agent;
