//! The options of the MCP server, and how they follow from the configuration.

use std::sync::Arc;
use std::time::Duration;

use config::settings::Config;

use super::call_rate::CallRate;
use super::client_profiles::Waits;
use super::dialect::ToolRegistry;

/// The options of the MCP server.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) tool_registry: ToolRegistry,
    pub(crate) waits: Waits,
    /// How long a run continues after its client has left, if the caller wants it cancelled then.
    pub(crate) disconnect_grace_ms: u64,
    /// How long the result of a run is stored, which is the lifetime of a task.
    pub(crate) retention_ms: u64,
    pub(crate) timing: Timing,
    /// Shared by all connections of a server.
    pub(crate) rate: Arc<CallRate>,
    /// The caller's name, if a token determines it instead of the client.
    pub(crate) caller: Option<String>,
}

/// The intervals and timeouts of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Timing {
    /// The time between two progress notifications.
    pub(crate) progress: Duration,
    /// How long a call waits for the run before it is answered with a task.
    pub(crate) task_after: Duration,
    /// On shutdown: how long calls may take to finish,
    pub(crate) leave_ready: Duration,
    /// then to answer with their results so far,
    pub(crate) leave_answer: Duration,
    /// and then for the answers to be written.
    pub(crate) leave_write: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            progress: Duration::from_secs(3),
            task_after: Duration::from_secs(1),
            leave_ready: Duration::from_millis(120),
            leave_answer: Duration::from_millis(80),
            leave_write: Duration::from_millis(100),
        }
    }
}

impl Options {
    pub(crate) fn new(config: &Config, tool_registry: ToolRegistry) -> Self {
        let wait = |ms: u64| Duration::from_millis(ms);
        let by_client = config.client_wait_ms.iter();
        Self {
            tool_registry,
            waits: Waits {
                unknown: wait(config.wait_ms.value),
                by_client: by_client.map(|(name, setting)| (name.clone(), wait(setting.value))).collect(),
                codex_limit: None,
            },
            disconnect_grace_ms: config.disconnect_grace_ms.value,
            retention_ms: config.retention_record_ms.value,
            timing: Timing::default(),
            rate: Arc::new(CallRate::new(config.calls_per_minute.value)),
            caller: None,
        }
    }
}
