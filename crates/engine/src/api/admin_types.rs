//! Requests and answers that are only for the owner of the machine: trust, clean, reindex, state report. Never from
//! inside a run.

use domain::diagnostic::Diagnostic;
use domain::id::RunId;
use serde::{Deserialize, Serialize};

/// Whether the user trusts what a project's files would execute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrustState {
    /// The project's files execute nothing.
    NothingToTrust,
    Trusted,
    Untrusted,
    /// An earlier content was trusted.
    Changed,
}

/// What a project's files would execute.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TrustView {
    pub project: String,
    pub state: TrustState,
    /// A digest of everything that would be trusted: `App::trust` takes it, so that exactly what was shown is
    /// trusted.
    pub fingerprint: String,
    pub items: Vec<TrustItem>,
}

/// What trust in an item would do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrustEffect {
    /// A program is executed, or gets more than it would without the project's files.
    #[default]
    Execute,
    /// An agent may do more than its own file allows.
    Allow,
}

/// Something that would be executed or allowed. Its texts contain nothing invisible.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TrustItem {
    #[serde(default)]
    pub effect: TrustEffect,
    /// The name of the item: `backend upper`.
    #[serde(rename = "what")]
    pub name: String,
    /// What would be executed, or the part of the file that allows more.
    pub command: String,
    pub file: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// Why it would be executed, or what would be allowed.
    #[serde(default)]
    #[serde(rename = "why")]
    pub reason: String,
}

/// Every trusted project.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TrustList {
    pub projects: Vec<TrustedProject>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TrustedProject {
    pub project: String,
    pub state: TrustState,
    pub trusted_at: String,
}

/// Removes old runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CleanRequest {
    /// Runs that ended longer ago than this are deleted entirely; absent: the configured retention applies.
    pub older_than_ms: Option<u64>,
    pub dry_run: bool,
}

/// What was removed, or would be.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CleanReport {
    pub dry_run: bool,
    /// Runs that were deleted entirely.
    pub deleted: u64,
    /// Runs that lost their spooled output and work files only.
    pub outputs_dropped: u64,
    pub bytes: u64,
    /// The first of the deleted runs.
    pub runs: Vec<RunId>,
    /// Errors while removing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

/// The result of rebuilding the index.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReindexReport {
    pub runs: u64,
    pub open: u64,
    pub damaged: u64,
    pub duration_ms: u64,
}

/// The engine's report about its own state.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StateReport {
    pub home: String,
    pub index: IndexView,
    pub slots: SlotsView,
    pub config: Vec<ConfigFileView>,
    pub trust: TrustView,
    /// This door is inside a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inside_run: Option<RunId>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct IndexView {
    pub path: String,
    pub runs: u64,
    /// What is wrong with the index; absent when it works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SlotsView {
    pub total: u64,
    #[serde(rename = "taken")]
    pub used: u64,
    pub queued: u64,
}

/// A configuration file that was found and read.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ConfigFileView {
    pub path: String,
    pub layer: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub diagnostics: Vec<Diagnostic>,
}
