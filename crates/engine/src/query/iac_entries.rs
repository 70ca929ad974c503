//! The runs that a project shows in `IAC.md`, for the dialect of PowerSpawn.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use process::work_tree::Git;

use crate::api::{EngineError, ErrorKind};
use crate::ask::{Ask, OnProgress};
use crate::clock;
use crate::engine::{Engine, store_error};
use crate::env;
use crate::iac;
use crate::iac::{Excerpt, IacEntry};
use crate::ipc::relay::Relay;
use crate::key_file;
use crate::registry;

/// How long git may take to report whether it tracks a file.
const GIT_MAX: Duration = Duration::from_secs(2);

/// Returns the runs that the project of this door shows in `IAC.md`, the newest first.
#[derive(Debug, Clone)]
pub struct ListIacEntries;

/// Returns one of them, with its answer or both ends of it; `None` if the project has no run with this id.
#[derive(Debug, Clone)]
pub struct GetIacEntry {
    pub id: String,
    pub bytes_max: usize,
}

/// Returns warnings about a file with keys: who else can read them.
#[derive(Debug, Clone)]
pub struct CheckKeyFile {
    pub file: PathBuf,
}

impl Ask for ListIacEntries {
    type Answer = Vec<IacEntry>;

    async fn answer(
        self,
        engine: &Arc<Engine>,
        _progress: OnProgress<'_>,
    ) -> Result<Vec<IacEntry>, EngineError> {
        let list = |engine: &Engine| {
            let project = registry::find_project(&engine.directory.to_string_lossy());
            let entries = iac::entries(&engine.home, &project).map_err(store_error)?;
            let visible = entries.into_iter().filter(|entry| engine.may_see_spec(&entry.spec));
            Ok(visible.map(|entry| engine.reconciled(entry)).collect())
        };
        engine.run_blocking(list).await
    }

    async fn relay(self, _relay: &Relay, _progress: OnProgress<'_>) -> Result<Vec<IacEntry>, EngineError> {
        Err(not_inside())
    }
}

impl Ask for GetIacEntry {
    type Answer = Option<(IacEntry, Excerpt)>;

    async fn answer(
        self,
        engine: &Arc<Engine>,
        _progress: OnProgress<'_>,
    ) -> Result<Self::Answer, EngineError> {
        let get = move |engine: &Engine| {
            let project = registry::find_project(&engine.directory.to_string_lossy());
            let dir = match engine.find(&self.id) {
                Ok(dir) => dir,
                Err(error) if matches!(error.kind, ErrorKind::NotFound | ErrorKind::Usage) => {
                    return Ok(None);
                }
                Err(error) => return Err(error),
            };
            let entry = iac::entry(&engine.home, dir.id()).filter(|entry| entry.spec.project == project);
            Ok(entry.map(|entry| {
                let entry = engine.reconciled(entry);
                let answer = entry.answer(&engine.home, self.bytes_max);
                (entry, answer)
            }))
        };
        engine.run_blocking(get).await
    }

    async fn relay(self, _relay: &Relay, _progress: OnProgress<'_>) -> Result<Self::Answer, EngineError> {
        Err(not_inside())
    }
}

impl Ask for CheckKeyFile {
    type Answer = Vec<String>;

    async fn answer(
        self,
        engine: &Arc<Engine>,
        _progress: OnProgress<'_>,
    ) -> Result<Vec<String>, EngineError> {
        engine.run_blocking(move |_| Ok(check_key_file(&self.file))).await
    }

    async fn relay(self, _relay: &Relay, _progress: OnProgress<'_>) -> Result<Vec<String>, EngineError> {
        Ok(Vec::new())
    }
}

fn not_inside() -> EngineError {
    EngineError::denied("inside a run, only its own runs can be asked about")
}

impl Engine {
    /// Ends a run whose keeper and worker are gone, and returns its new state.
    fn reconciled(&self, entry: IacEntry) -> IacEntry {
        if !entry.is_lost {
            return entry;
        }
        let dir = self.home.run_dir(entry.spec.id);
        match self.reconcile(&dir) {
            Ok(_) => iac::entry(&self.home, entry.spec.id).unwrap_or(entry),
            Err(_) => entry,
        }
    }
}

fn check_key_file(file: &Path) -> Vec<String> {
    let shown = file.display();
    match key_file::read(file) {
        Ok(None) => return Vec::new(),
        Ok(Some(_)) => {}
        Err(reason) => return vec![format!("{shown} is not used: {reason}")],
    }
    let mut warnings = Vec::new();
    if std::fs::metadata(file).is_ok_and(|found| found.mode() & 0o077 != 0) {
        warnings.push(format!("others can read the keys in {shown}: chmod 600 it"));
    }
    if is_tracked(file) {
        warnings.push(format!(
            "git tracks {shown}, so whoever has the repository has its keys: git rm --cached it"
        ));
    }
    warnings
}

fn is_tracked(file: &Path) -> bool {
    let Some(folder) = file.parent().and_then(|folder| folder.canonicalize().ok()) else { return false };
    // The nearest repository counts, wherever the project begins: git runs only in its work tree.
    let root = folder.ancestors().find(|folder| folder.join(".git").exists());
    let name = file.file_name().map(|name| folder.join(name));
    let within = root.and_then(|root| Some((root, name?.strip_prefix(root).ok()?.to_str()?.to_owned())));
    let Some((root, within)) = within else { return false };
    let git = env::get("PATH").and_then(|path| Git::find(&path, env::for_agent(&[]), clock::new_tag()));
    let arguments = ["--literal-pathspecs", "ls-files", "--error-unmatch", "--", &within];
    git.is_some_and(|git| git.run(root, &arguments, Instant::now() + GIT_MAX).is_ok())
}
