//! Kimi Code.

use crate::program::Program;

pub(crate) static PROGRAM: Program = Program { names: &["kimi"], natives: &[], tried: ("2.1.0", "2.1.0") };

/// Variables that Kimi Code needs to know its user, its service and its place.
pub(crate) const VARIABLES: &[&str] = &[
    "KIMI_API_KEY",
    "KIMI_BASE_URL",
    "KIMI_CODE_HOME",
    "KIMI_CODE_NO_AUTO_UPDATE",
    "KIMI_DISABLE_TELEMETRY",
    "KIMI_MODEL_API_KEY",
    "KIMI_MODEL_BASE_URL",
    "KIMI_MODEL_NAME",
    "KIMI_MODEL_PROVIDER_TYPE",
];
