//! What one configuration file says. Everything is optional: what a file leaves out, a farther layer decides.

use std::collections::{BTreeMap, BTreeSet};

use domain::budget::AskedLimits;
use domain::dialect::DialectName;
use domain::id::{AgentName, BackendName};
use domain::inherit::Inherited;
use domain::overlay::Overlay;
use domain::permission::Level;
use domain::price::Price;
use domain::run::{ContainmentDemand, UnattendedChoice};

use super::Backend;

/// The settings of one layer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ConfigLayer {
    /// A nearer layer replaces a backend as a whole.
    pub backends: BTreeMap<BackendName, Backend>,
    pub limits: AskedLimits,
    pub slots: Slots,
    pub retention: Retention,
    pub serve: Serve,
    pub clients: BTreeMap<String, Client>,
    pub dialects: BTreeMap<DialectName, Dialect>,
    pub run: Run,
    /// What holds for the agent of a name, whatever its file says.
    pub agents: BTreeMap<AgentName, Overlay>,
    /// What holds for agents of a backend whose files do not say it.
    pub defaults: BTreeMap<BackendName, Overlay>,
    /// By the model's name; a nearer layer replaces a price as a whole.
    pub prices: BTreeMap<String, Price>,
    /// A setting could not be read and is missing here; backends do not count, they are missed when they are used.
    pub unsound: bool,
}

/// `[slots]`: how many runs at once, and how many may wait.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Slots {
    pub count: Option<u32>,
    pub queue: Option<u32>,
}

/// `[retention]`: how long after its end a run is kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Retention {
    pub output_ms: Option<u64>,
    pub record_ms: Option<u64>,
}

/// `[serve]`: how the MCP door behaves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Serve {
    pub wait_ms: Option<u64>,
    pub on_disconnect: Option<DisconnectChoice>,
    pub disconnect_grace_ms: Option<u64>,
    pub dialects: Option<Vec<DialectName>>,
    pub calls_per_minute: Option<u32>,
    /// Names of this machine, beside those of loopback, that clients over HTTP may know it by.
    pub allowed_hosts: Option<Vec<String>>,
    /// Origins of pages, beside those of loopback, that may speak to it.
    pub allowed_origins: Option<Vec<String>>,
    pub powerspawn_permission: Option<Level>,
    pub powerspawn_agents_context: Option<bool>,
    /// Whether callers over MCP may allow an agent more than its own permission does.
    pub callers_may_widen: Option<bool>,
}

/// What happens to runs when their door goes away in good order; the grace is a setting of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DisconnectChoice {
    Cancel,
    Continue,
}

/// `[clients.NAME]`: what is different for one client.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Client {
    pub wait_ms: Option<u64>,
}

/// `[dialects.NAME]`: what is different for one dialect.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dialect {
    /// The only things that its agents get from their user, of those that its system gives them.
    pub inherit: Option<BTreeSet<Inherited>>,
}

/// `[run]`: how runs are carried out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Run {
    pub containment: Option<ContainmentDemand>,
    pub unattended: Option<UnattendedChoice>,
}
