//! Work for the owner of the machine: trust, tokens, configuration, retention, new agents, and probes of the machine.

mod administration;
mod configuration;
mod housekeeping;
mod live_probe;
mod machine_probe;
mod new_agent;
mod prices;
mod tokens;

pub use administration::{
    GetStateReport, ListTrust, PrepareResume, Reindex, RevokeTrust, ShowTrust, TrustProject,
};
pub use configuration::{ConfigView, SettingView, read_configuration};
pub use live_probe::{ProbeResult, run_live_probes};
pub use machine_probe::*;
pub use prices::{PricesView, read_prices};
pub use tokens::*;
