//! Idempotency keys: within one project, agent and token, a key identifies one run until that run is deleted. A key
//! is a file, and the first process to link it owns it.

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

/// The scope within which a key identifies one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyScope {
    pub project: String,
    pub agent: AgentName,
    pub key: IdempotencyKey,
    /// The token of the request: the key of one token reveals nothing about the runs of another.
    pub token: Option<String>,
}

/// The owner of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// This run has claimed the key.
    New,
    /// An earlier request owns the key.
    Owned { run: RunId, fingerprint: String },
}

#[derive(Serialize, Deserialize)]
struct Holder {
    run: RunId,
    fingerprint: String,
}

impl KeyScope {
    /// Returns the key of the request that started a run.
    pub fn from_spec(spec: &RunSpec) -> Option<Self> {
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
            // Each part is hashed with its length, so that no two scopes concatenate to the same bytes.
            digest.update((part.len() as u64).to_le_bytes());
            digest.update(part);
        }
        home.keys_dir().join(domain::hex::hex(&digest.finalize()))
    }
}

/// Returns the run that owns a key, if there is one, and the fingerprint of its request.
pub fn find_owner(home: &Home, scope: &KeyScope) -> Result<Option<(RunId, String)>, StoreError> {
    let holder = read_claim(&scope.path(home))?;
    Ok(holder.and_then(|claim| match claim {
        Claim::Owned { run, fingerprint } => Some((run, fingerprint)),
        Claim::New => None,
    }))
}

/// Claims a key for a run, durably, or returns its owner.
pub fn claim(home: &Home, scope: &KeyScope, run: RunId, fingerprint: &str) -> Result<Claim, StoreError> {
    let path = scope.path(home);
    let holder = Holder { run, fingerprint: fingerprint.to_owned() };
    let bytes =
        serde_json::to_vec(&holder).map_err(|source| StoreError::Malformed { path: path.clone(), source })?;
    // Most requests with a claimed key are repeated ones and need no write.
    if let Some(claim) = read_claim(&path)? {
        return Ok(claim);
    }
    let temporary = fresh_path(&home.keys_dir(), "key");
    let claimed = home.disk().create_durable(&temporary, &bytes).and_then(|()| link(&temporary, &path));
    // After a failure it may not exist.
    let _ = fs::remove_file(&temporary);
    let claim = claimed?;
    home.disk().sync_dir(&home.keys_dir())?;
    Ok(claim)
}

/// Releases a key when its run is deleted; a key that belongs to another run stays.
pub fn release(home: &Home, scope: &KeyScope, run: RunId) -> Result<(), StoreError> {
    // Between reading and removing, no other process may remove the key and let a third one claim it.
    let lock_path = home.keys_dir().join(".release");
    let lock = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(&lock_path)
        .map_err(failed("open", &lock_path))?;
    flock(&lock, FlockOperation::LockExclusive).map_err(|error| failed("lock", &lock_path)(error.into()))?;
    let path = scope.path(home);
    match read_claim(&path)? {
        Some(Claim::Owned { run: holder, .. }) if holder == run => {
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
                if let Some(claim) = read_claim(path)? {
                    return Ok(claim);
                }
            }
            Err(error) => return Err(failed("claim the key", path)(error)),
        }
    }
}

fn read_claim(path: &Path) -> Result<Option<Claim>, StoreError> {
    let bytes = match read_bounded(path, KEY_BYTES_MAX) {
        Ok(bytes) => bytes,
        Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let Holder { run, fingerprint } = serde_json::from_slice(&bytes)
        .map_err(|source| StoreError::Malformed { path: path.to_owned(), source })?;
    Ok(Some(Claim::Owned { run, fingerprint }))
}

#[cfg(test)]
mod tests;
