//! The content of one configuration file. Everything is optional: a farther layer supplies missing settings.

use std::collections::{BTreeMap, BTreeSet};

use domain::budget::RequestedLimits;
use domain::dialect::DialectName;
use domain::id::{AgentName, BackendName};
use domain::inherit::Inherited;
use domain::overlay::Overlay;
use domain::permission::Level;
use domain::price::Price;
use domain::run::agent_loop::TierTarget;
use domain::run::{ContainmentDemand, UnattendedChoice};

use super::Backend;

/// The settings of one layer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ConfigLayer {
    /// A nearer layer replaces a backend as a whole.
    pub backends: BTreeMap<BackendName, Backend>,
    pub limits: RequestedLimits,
    pub slots: SlotSettings,
    pub retention: RetentionSettings,
    pub serve: ServeSettings,
    pub clients: BTreeMap<String, ClientSettings>,
    pub dialects: BTreeMap<DialectName, DialectSettings>,
    pub run: RunSettings,
    /// Overrides for an agent by name.
    pub agents: BTreeMap<AgentName, Overlay>,
    /// Defaults for agents of a backend.
    pub defaults: BTreeMap<BackendName, Overlay>,
    /// By the model's name; a nearer layer replaces a price as a whole.
    pub prices: BTreeMap<String, Price>,
    /// By the word for it; a nearer layer replaces a tier as a whole.
    pub tiers: BTreeMap<String, Vec<TierTarget>>,
    /// A setting could not be read and is missing here. Backends do not count, because a missing one is reported when
    /// it is used.
    pub has_errors: bool,
}

/// `[slots]`: how many runs at once, and how many may wait.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SlotSettings {
    pub count: Option<u32>,
    pub queue: Option<u32>,
}

/// `[retention]`: how long a run is stored after its end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RetentionSettings {
    pub output_ms: Option<u64>,
    pub record_ms: Option<u64>,
}

/// `[serve]`: the MCP server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServeSettings {
    pub wait_ms: Option<u64>,
    pub on_disconnect: Option<DisconnectChoice>,
    pub disconnect_grace_ms: Option<u64>,
    pub dialects: Option<Vec<DialectName>>,
    pub calls_per_minute: Option<u32>,
    /// Host names of this machine for clients over HTTP, in addition to those of loopback.
    pub allowed_hosts: Option<Vec<String>>,
    /// Origins of web pages that may connect, in addition to those of loopback.
    pub allowed_origins: Option<Vec<String>>,
    pub powerspawn_permission: Option<Level>,
    pub powerspawn_agents_context: Option<bool>,
    /// Whether callers over MCP may allow an agent more than its own permission does.
    pub callers_may_widen: Option<bool>,
}

/// The action for runs when their client disconnects in good order; the grace is a separate setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DisconnectChoice {
    Cancel,
    Continue,
}

/// `[clients.NAME]`: settings for one client.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientSettings {
    pub wait_ms: Option<u64>,
}

/// `[dialects.NAME]`: settings for one dialect.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DialectSettings {
    /// The only items that its agents inherit from their user, out of those of its system.
    pub inherit: Option<BTreeSet<Inherited>>,
}

/// `[run]`: how runs are carried out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunSettings {
    pub containment: Option<ContainmentDemand>,
    pub unattended: Option<UnattendedChoice>,
}
