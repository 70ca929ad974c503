//! Which projects' programs may be executed: one record per content, so that a change asks again.

use std::borrow::Cow;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use domain::Timestamp;
use domain::agent::{Agent, Layer};
use domain::secret::lines_without_secrets;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::files::Catalogue;

/// What could not be done with the records of trust.
#[derive(Debug, thiserror::Error)]
#[error("could not {action} {path:?}")]
pub struct TrustError {
    action: &'static str,
    path: PathBuf,
    #[source]
    source: std::io::Error,
}

/// A trust that was given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrustRecord {
    pub project: String,
    pub fingerprint: String,
    pub trusted_at: Timestamp,
    /// What would be executed, for who reads the record: the fingerprint decides, so secrets are left out.
    pub executables: String,
}

/// The records, a file each.
#[derive(Debug, Clone)]
pub struct Trust {
    folder: PathBuf,
}

impl Trust {
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Returns what the project's own files would execute; empty if nothing.
    pub fn executables(catalogue: &Catalogue) -> String {
        Self::all(catalogue, definition::agent::executables)
    }

    /// Returns the same for a record, or for who does not give trust.
    pub fn executables_without_secrets(catalogue: &Catalogue) -> String {
        let all = Self::all(catalogue, definition::agent::executables_without_secrets);
        lines_without_secrets(&all, "[redacted]")
    }

    fn all(catalogue: &Catalogue, of_agent: fn(&Agent) -> String) -> String {
        let own = Self::own_files(catalogue, of_agent).into_iter().map(|(_, executables)| executables);
        own.chain(catalogue.programs().iter().map(|program| format!("{}\n", program.says))).collect()
    }

    /// Returns what files of our own formats would execute, each part with the file that says it.
    pub fn by_own_file(catalogue: &Catalogue) -> Vec<(Cow<'_, str>, String)> {
        Self::own_files(catalogue, definition::agent::executables)
    }

    fn own_files(catalogue: &Catalogue, of_agent: fn(&Agent) -> String) -> Vec<(Cow<'_, str>, String)> {
        let own = catalogue.config_files.iter().filter(|found| found.layer == Layer::Project);
        let of_config = own.map(|found| (Cow::from(&found.file), found.executables.clone()));
        let agents = catalogue.agents.values().chain(catalogue.shadowed.values());
        let agents = agents.filter(|agent| agent.source.layer == Layer::Project);
        let of_agents = agents.map(|agent| {
            let mut text = of_agent(agent);
            let beyond = catalogue.beyond_built_in(agent);
            if !beyond.is_empty() {
                text.push_str(&format!(
                    "agent {}, name of a built-in agent: {}\n",
                    agent.name,
                    beyond.join("; ")
                ));
            }
            (Cow::from(&agent.source.file), text)
        });
        of_config.chain(of_agents).filter(|(_, executables)| !executables.is_empty()).collect()
    }

    /// Returns the digest of a project and what it would execute.
    pub fn fingerprint(catalogue: &Catalogue) -> String {
        let mut digest = Sha256::new();
        digest.update(catalogue.project.as_bytes());
        digest.update([0]);
        digest.update(Self::executables(catalogue).as_bytes());
        hex(&digest.finalize())
    }

    pub fn is_trusted(&self, catalogue: &Catalogue) -> bool {
        if Self::executables(catalogue).is_empty() {
            return true;
        }
        let fingerprint = Self::fingerprint(catalogue);
        // A record that cannot be read is no word of the user's.
        let record = read(&self.path(&fingerprint));
        record.is_some_and(|record| record.project == catalogue.project && record.fingerprint == fingerprint)
    }

    /// Records that the user trusts what the project would execute.
    pub fn give(&self, catalogue: &Catalogue, now: Timestamp) -> Result<TrustRecord, TrustError> {
        let record = TrustRecord {
            project: catalogue.project.clone(),
            fingerprint: Self::fingerprint(catalogue),
            trusted_at: now,
            executables: Self::executables_without_secrets(catalogue),
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

    /// Takes back every trust that was given to a project; returns how many there were.
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

fn read(path: &Path) -> Option<TrustRecord> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

/// Writes a record whole or not at all.
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

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
