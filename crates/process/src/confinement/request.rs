//! What a caller requests: directories, and whether the network is open.

use std::io;
use std::path::PathBuf;

use crate::error::SpawnError;

/// What a program may reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confinement {
    /// Files, and directories with everything beneath them, to read and execute. Those that do not exist are skipped.
    /// [`super::system_read_paths`] has those that ordinary programs need.
    pub read_only: Vec<PathBuf>,
    /// Files, and directories with everything beneath them, to read, write and execute. All must exist.
    pub read_write: Vec<PathBuf>,
    pub network: NetworkAccess,
    /// Paths that must stay out of reach, such as the home directory: a directory above that contains one is an error.
    /// A directory within a hidden one can be granted.
    pub hidden: Vec<PathBuf>,
    pub if_missing: IfMissing,
}

/// Whether a program may use the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkAccess {
    /// It cannot make sockets of any kind, except for connected pairs.
    Denied,
    /// It can reach every host, and listen. It cannot reach local sockets of other programs: a container engine or a
    /// session bus would start programs for it that are not confined.
    Unrestricted,
}

/// What happens where the kernel has no Landlock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfMissing {
    Refuse,
    /// The program starts with what else there is, and its containment says what is missing.
    Allow,
}

impl Confinement {
    /// Returns the granted directories and files as the kernel resolves them, those to write first.
    pub(super) fn resolved(&self) -> Result<Vec<(PathBuf, Grant)>, SpawnError> {
        let mut granted = Vec::new();
        for path in &self.read_write {
            let resolved = path
                .canonicalize()
                .map_err(|source| SpawnError::ConfinementPath { path: path.clone(), source })?;
            granted.push((resolved, Grant::Write));
        }
        for path in &self.read_only {
            match path.canonicalize() {
                Ok(resolved) => granted.push((resolved, Grant::Read)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(source) => return Err(SpawnError::ConfinementPath { path: path.clone(), source }),
            }
        }
        for hidden in &self.hidden {
            let resolved = hidden.canonicalize().unwrap_or_else(|_| hidden.clone());
            if let Some((directory, _)) = granted.iter().find(|(path, _)| resolved.starts_with(path)) {
                return Err(SpawnError::ConfinementExposes {
                    directory: directory.clone(),
                    hidden: hidden.clone(),
                });
            }
        }
        Ok(granted)
    }
}

/// What a path is granted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Grant {
    Read,
    Write,
}
