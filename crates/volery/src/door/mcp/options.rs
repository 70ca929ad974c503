//! What can be set about the door, and how it follows from the configuration.

use std::sync::Arc;
use std::time::Duration;

use definition::config::Config;

use super::call_rate::CallRate;
use super::clients::Waits;
use super::dialect::Surface;

/// The settings of the door.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) surface: Surface,
    pub(crate) waits: Waits,
    /// How long a run goes on after its client has left, when the caller wants it cancelled then.
    pub(crate) disconnect_grace_ms: u64,
    /// How long the result of a run is kept, which is how long a task lives.
    pub(crate) retention_ms: u64,
    pub(crate) pace: Pace,
    /// Shared by all connections of a server.
    pub(crate) rate: Arc<CallRate>,
    /// Who calls, where a token says so and not the client itself.
    pub(crate) caller: Option<String>,
}

/// The rhythm of the door.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pace {
    /// Between two progress notifications.
    pub(crate) progress: Duration,
    /// How long a call that can be answered with a task first waits for the run itself.
    pub(crate) task_after: Duration,
    /// When the door leaves: how long calls may go on to be ready,
    pub(crate) leave_ready: Duration,
    /// then to answer what they have,
    pub(crate) leave_answer: Duration,
    /// and then for the answers to be written.
    pub(crate) leave_write: Duration,
}

impl Default for Pace {
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
    pub(crate) fn new(config: &Config, surface: Surface) -> Self {
        let wait = |ms: u64| Duration::from_millis(ms);
        let by_client = config.client_wait_ms.iter();
        Self {
            surface,
            waits: Waits {
                unknown: wait(config.wait_ms.value),
                by_client: by_client.map(|(name, setting)| (name.clone(), wait(setting.value))).collect(),
                codex_limit: None,
            },
            disconnect_grace_ms: config.disconnect_grace_ms.value,
            retention_ms: config.retention_record_ms.value,
            pace: Pace::default(),
            rate: Arc::new(CallRate::new(config.calls_per_minute.value)),
            caller: None,
        }
    }
}
