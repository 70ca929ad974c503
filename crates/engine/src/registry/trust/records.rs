//! The records of trusted projects: one record per content, so that a change needs trust again.

use std::borrow::Cow;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::Timestamp;
use domain::agent::{Agent, Layer};
use domain::secret::lines_without_secrets;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::super::catalog::Catalog;
use super::agent_grants::{AgentGrant, agent_grants};

/// An error with the records of trust.
#[derive(Debug, thiserror::Error)]
#[error("could not {action} {path:?}")]
pub struct TrustError {
    action: &'static str,
    path: PathBuf,
    #[source]
    source: std::io::Error,
}

/// The record of a trusted project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrustRecord {
    pub project: String,
    pub fingerprint: String,
    pub trusted_at: Timestamp,
    /// What would be executed, for people who read the record. Secrets are left out: the fingerprint decides.
    pub executables: String,
}

/// The records, one file each.
#[derive(Debug, Clone)]
pub struct TrustStore {
    folder: PathBuf,
}

impl TrustStore {
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Returns what the project's own files would execute and grant; empty if nothing.
    pub fn executables(catalog: &Catalog) -> String {
        Self::all(catalog, config::agent_formats::executables)
    }

    /// Returns the same without secrets, for a record or for a reader who does not decide about trust.
    pub fn executables_without_secrets(catalog: &Catalog) -> String {
        let all = Self::all(catalog, config::agent_formats::executables_without_secrets);
        lines_without_secrets(&all, "[redacted]")
    }

    /// Returns what files of Volery's own formats would execute, without secrets: a caller may be a model, and literal
    /// values are only for the person who decides about trust.
    pub fn own_executables_without_secrets(catalog: &Catalog) -> String {
        let own = Self::own_files(catalog, config::agent_formats::executables_without_secrets);
        let own: String = own.into_iter().map(|(_, executables)| executables).collect();
        lines_without_secrets(&own, "[redacted]")
    }

    fn all(catalog: &Catalog, agent_executables: fn(&Agent) -> String) -> String {
        let own = Self::own_files(catalog, agent_executables).into_iter().map(|(_, executables)| executables);
        let grants = Self::grants(catalog).into_iter();
        let grants = grants.map(|(agent, grant)| format!("agent {}, grant: {}\n", agent.name, grant.setting));
        let programs = catalog.project_executables().iter();
        own.chain(grants).chain(programs.map(|program| format!("{}\n", program.description))).collect()
    }

    /// Returns what the agent files of the project grant beyond the defaults.
    pub fn grants(catalog: &Catalog) -> Vec<(&Agent, AgentGrant)> {
        let grants =
            |agent| agent_grants(agent, &catalog.project).into_iter().map(move |grant| (agent, grant));
        project_agents(catalog).flat_map(grants).collect()
    }

    /// Returns what files of Volery's own formats would execute, each part with its file.
    pub fn by_own_file(catalog: &Catalog) -> Vec<(Cow<'_, str>, String)> {
        Self::own_files(catalog, config::agent_formats::executables)
    }

    fn own_files(catalog: &Catalog, agent_executables: fn(&Agent) -> String) -> Vec<(Cow<'_, str>, String)> {
        let own = catalog.config_files.iter().filter(|found| found.layer == Layer::Project);
        let config_parts = own.map(|found| (Cow::from(&found.file), found.executables.clone()));
        let agent_parts =
            project_agents(catalog).map(|agent| (Cow::from(&agent.source.file), agent_executables(agent)));
        config_parts.chain(agent_parts).filter(|(_, executables)| !executables.is_empty()).collect()
    }

    /// Returns the digest of a project and what it would execute.
    pub fn fingerprint(catalog: &Catalog) -> String {
        let mut digest = Sha256::new();
        digest.update(catalog.project.as_bytes());
        digest.update([0]);
        digest.update(Self::executables(catalog).as_bytes());
        domain::hex::hex(&digest.finalize())
    }

    pub fn is_trusted(&self, catalog: &Catalog) -> bool {
        if Self::executables(catalog).is_empty() {
            return true;
        }
        let fingerprint = Self::fingerprint(catalog);
        // A record that cannot be read does not count.
        let record = read(&self.path(&fingerprint));
        record.is_some_and(|record| record.project == catalog.project && record.fingerprint == fingerprint)
    }

    /// Records that the user trusts what the project would execute.
    pub fn record(&self, catalog: &Catalog, now: Timestamp) -> Result<TrustRecord, TrustError> {
        let record = TrustRecord {
            project: catalog.project.clone(),
            fingerprint: Self::fingerprint(catalog),
            trusted_at: now,
            executables: Self::executables_without_secrets(catalog),
        };
        let path = self.path(&record.fingerprint);
        let text = serde_json::to_vec_pretty(&record).expect("a plain value");
        write(&path, &text).map_err(|source| failed("write", &path, source))?;
        Ok(record)
    }

    /// Returns every record, by project.
    pub fn list(&self) -> Result<Vec<TrustRecord>, TrustError> {
        let entries =
            std::fs::read_dir(&self.folder).map_err(|source| failed("read", &self.folder, source))?;
        let mut records: Vec<TrustRecord> =
            entries.filter_map(Result::ok).filter_map(|entry| read(&entry.path())).collect();
        records.sort_by(|one, two| (&one.project, one.trusted_at).cmp(&(&two.project, two.trusted_at)));
        Ok(records)
    }

    /// Removes every record of a project; returns how many there were.
    pub fn revoke(&self, project: &str) -> Result<usize, TrustError> {
        let mut revoked = 0;
        for record in self.list()?.into_iter().filter(|record| record.project == project) {
            let path = self.path(&record.fingerprint);
            std::fs::remove_file(&path).map_err(|source| failed("remove", &path, source))?;
            revoked += 1;
        }
        Ok(revoked)
    }

    fn path(&self, fingerprint: &str) -> PathBuf {
        self.folder.join(format!("{fingerprint}.json"))
    }
}

/// Returns every agent that a file of the project defines, also under a name that a stronger file has.
fn project_agents(catalog: &Catalog) -> impl Iterator<Item = &Agent> {
    let agents = catalog.agents.values().chain(catalog.shadowed.values()).map(Arc::as_ref);
    agents.filter(|agent| agent.source.layer == Layer::Project)
}

fn read(path: &Path) -> Option<TrustRecord> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

/// Writes a record atomically.
fn write(path: &Path, text: &[u8]) -> std::io::Result<()> {
    let temporary = path.with_extension("new");
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    file.write_all(text)?;
    file.sync_all()?;
    std::fs::rename(&temporary, path)
}

fn failed(action: &'static str, path: &Path, source: std::io::Error) -> TrustError {
    TrustError { action, path: path.to_owned(), source }
}
