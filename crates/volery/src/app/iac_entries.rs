//! The runs that a project shows in `IAC.md`, for the door that speaks PowerSpawn.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use backend::work_tree::Git;

use super::engine::{Engine, store_error};
use super::{AppError, Entry, ErrorKind};
use crate::{clock, env, iac, key_file, registry};

/// The most of an answer that is given in one piece.
const RESULT_BYTES_MAX: usize = 1 << 20;
/// How long git may take to say whether it knows a file.
const GIT_MAX: Duration = Duration::from_secs(2);

impl Engine {
    pub(super) async fn iac_entries(self: &Arc<Self>) -> Result<Vec<Entry>, AppError> {
        self.off_loop(|engine| {
            let project = registry::find_project(&engine.directory.to_string_lossy());
            let entries = iac::entries(&engine.home, &project).map_err(store_error)?;
            Ok(entries.into_iter().map(|entry| engine.looked_at(entry)).collect())
        })
        .await
    }

    pub(super) async fn iac_entry(self: &Arc<Self>, id: String) -> Result<Option<(Entry, String)>, AppError> {
        self.off_loop(move |engine| {
            let project = registry::find_project(&engine.directory.to_string_lossy());
            let dir = match engine.find(&id) {
                Ok(dir) => dir,
                Err(error) if matches!(error.kind, ErrorKind::NotFound | ErrorKind::Usage) => {
                    return Ok(None);
                }
                Err(error) => return Err(error),
            };
            let entry = iac::entry(&engine.home, dir.id()).filter(|entry| entry.spec.project == project);
            Ok(entry.map(|entry| {
                let entry = engine.looked_at(entry);
                let output = entry.output(&engine.home, RESULT_BYTES_MAX);
                (entry, output)
            }))
        })
        .await
    }

    /// Ends a run that everybody has left, and returns it as it is then.
    fn looked_at(&self, entry: Entry) -> Entry {
        if !entry.is_lost {
            return entry;
        }
        let dir = self.home.run_dir(entry.spec.id);
        match self.look(&dir) {
            Ok(_) => iac::entry(&self.home, entry.spec.id).unwrap_or(entry),
            Err(_) => entry,
        }
    }

    pub(super) async fn doubts_about_keys(self: &Arc<Self>, file: PathBuf) -> Vec<String> {
        let doubts = self.off_loop(move |_| Ok(doubts(&file))).await;
        doubts.unwrap_or_default()
    }
}

fn doubts(file: &Path) -> Vec<String> {
    let shown = file.display();
    match key_file::read(file) {
        Ok(None) => return Vec::new(),
        Ok(Some(_)) => {}
        Err(reason) => return vec![format!("{shown} is not used: {reason}")],
    }
    let mut doubts = Vec::new();
    if std::fs::metadata(file).is_ok_and(|found| found.mode() & 0o077 != 0) {
        doubts.push(format!("others can read the keys in {shown}: chmod 600 it"));
    }
    if is_tracked(file) {
        doubts.push(format!(
            "git tracks {shown}, so whoever has the repository has its keys: git rm --cached it"
        ));
    }
    doubts
}

fn is_tracked(file: &Path) -> bool {
    let (Some(folder), Some(name)) = (file.parent(), file.file_name().and_then(|name| name.to_str())) else {
        return false;
    };
    let git = env::get("PATH").and_then(|path| Git::find(&path, env::for_agent(&[]), clock::new_tag()));
    let words = ["ls-files", "--error-unmatch", "--", name];
    git.is_some_and(|git| git.ask(folder, &words, Instant::now() + GIT_MAX).is_ok())
}
