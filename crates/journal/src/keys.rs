//! Idempotency: the same key of the same caller's project and agent means the same run, for ever or until the
//! run is deleted. A key is a file, and who links it first has it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use domain::id::{AgentName, IdempotencyKey, RunId};
use domain::run::RunSpec;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::durable::fresh_path;
use crate::home::Home;
use crate::run_dir::read_bounded;
use crate::store_error::{StoreError, failed};

const KEY_BYTES_MAX: u64 = 64 << 10;

/// Within what a key means one thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyScope {
    pub project: String,
    pub agent: AgentName,
    pub key: IdempotencyKey,
    /// The token that the request came with: a key of one says nothing about the runs of another.
    pub token: Option<String>,
}

/// Whose a key is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// It is this run's from here on.
    New,
    /// An earlier request has it.
    Known { run: RunId, fingerprint: String },
}

#[derive(Serialize, Deserialize)]
struct Holder {
    run: RunId,
    fingerprint: String,
}

impl KeyScope {
    /// Returns the key that a run was asked for with.
    pub fn of(spec: &RunSpec) -> Option<Self> {
        let idempotency = spec.idempotency.as_ref()?;
        Some(Self {
            project: spec.project.clone(),
            agent: spec.agent.clone(),
            key: idempotency.key.clone(),
            token: spec.caller.token.clone(),
        })
    }

    fn path(&self, home: &Home) -> PathBuf {
        let mut digest = Sha256::new();
        let parts = [self.project.as_str(), self.agent.as_str(), self.key.as_str()];
        for part in parts.into_iter().chain(self.token.as_deref()) {
            // With its length, so that no two scopes run together into the same bytes.
            digest.update((part.len() as u64).to_le_bytes());
            digest.update(part);
        }
        let hex: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        home.keys_dir().join(hex)
    }
}

/// Returns whose a key is, if it is anybody's.
pub fn known(home: &Home, scope: &KeyScope) -> Result<Option<(RunId, String)>, StoreError> {
    let holder = look(&scope.path(home))?;
    Ok(holder.and_then(|claim| match claim {
        Claim::Known { run, fingerprint } => Some((run, fingerprint)),
        Claim::New => None,
    }))
}

/// Claims a key for a run, durably, or tells whose it is.
pub fn claim(home: &Home, scope: &KeyScope, run: RunId, fingerprint: &str) -> Result<Claim, StoreError> {
    let path = scope.path(home);
    let holder = Holder { run, fingerprint: fingerprint.to_owned() };
    let bytes =
        serde_json::to_vec(&holder).map_err(|source| StoreError::Malformed { path: path.clone(), source })?;
    // Most requests with a key that is taken are repeated ones, and need no write.
    if let Some(claim) = look(&path)? {
        return Ok(claim);
    }
    let temporary = fresh_path(&home.keys_dir(), "key");
    let claimed = home.disk().create_durable(&temporary, &bytes).and_then(|()| link(&temporary, &path));
    // After a failure it may not be there.
    let _ = fs::remove_file(&temporary);
    let claim = claimed?;
    home.disk().sync_dir(&home.keys_dir())?;
    Ok(claim)
}

/// Forgets a key when its run is deleted; a key that is another run's stays.
pub fn release(home: &Home, scope: &KeyScope, run: RunId) -> Result<(), StoreError> {
    // Between reading and removing, nobody else may remove the key and a third claim it.
    let lock_path = home.keys_dir().join(".release");
    let lock = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(&lock_path)
        .map_err(failed("open", &lock_path))?;
    flock(&lock, FlockOperation::LockExclusive).map_err(|error| failed("lock", &lock_path)(error.into()))?;
    let path = scope.path(home);
    match look(&path)? {
        Some(Claim::Known { run: holder, .. }) if holder == run => {
            fs::remove_file(&path).map_err(failed("remove", &path))
        }
        Some(_) | None => Ok(()),
    }
}

fn link(temporary: &Path, path: &Path) -> Result<Claim, StoreError> {
    loop {
        match fs::hard_link(temporary, path) {
            Ok(()) => return Ok(Claim::New),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                // It may have been released in between; then it is free again.
                if let Some(claim) = look(path)? {
                    return Ok(claim);
                }
            }
            Err(error) => return Err(failed("claim the key", path)(error)),
        }
    }
}

fn look(path: &Path) -> Result<Option<Claim>, StoreError> {
    let bytes = match read_bounded(path, KEY_BYTES_MAX) {
        Ok(bytes) => bytes,
        Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let Holder { run, fingerprint } = serde_json::from_slice(&bytes)
        .map_err(|source| StoreError::Malformed { path: path.to_owned(), source })?;
    Ok(Some(Claim::Known { run, fingerprint }))
}

#[cfg(test)]
mod tests;
