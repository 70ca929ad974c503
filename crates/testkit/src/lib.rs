//! What tests of several crates need: fake programs (`src/bin/`), and real agents of vendors without a network.
//!
//! * `fake-agent` is a scripted child process.
//! * `fake-cli` imitates vendors' programs that no package registry offers.
//! * `fake-llm` serves a script as a model; the server itself is the crate of that name.

mod cli_runner;
mod cli_setup;
mod installed_clis;
mod offline;

pub use cli_runner::{CliLaunch, CliOutput, run_cli};
pub use cli_setup::{CliRequest, cli_environment, cli_launch};
pub use installed_clis::{InstalledCli, InstalledCliError};
pub use offline::{HOLD_NAMESPACE_ARGUMENT, NetworkIsolation, OfflineSandbox, hold_namespace};
