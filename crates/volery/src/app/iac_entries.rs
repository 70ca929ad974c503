//! The runs that a project shows in `IAC.md`, for the door that speaks PowerSpawn.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use backend::work_tree::Git;

use super::engine::{Engine, store_error};
use super::{AppError, Entry, ErrorKind, Excerpt};
use crate::{clock, env, iac, key_file, registry};

/// How long git may take to say whether it knows a file.
const GIT_MAX: Duration = Duration::from_secs(2);

impl Engine {
    pub(super) async fn iac_entries(self: &Arc<Self>) -> Result<Vec<Entry>, AppError> {
        self.off_loop(|engine| {
            let project = registry::find_project(&engine.directory.to_string_lossy());
            let entries = iac::entries(&engine.home, &project).map_err(store_error)?;
            let seen = entries.into_iter().filter(|entry| engine.may_see_spec(&entry.spec));
            Ok(seen.map(|entry| engine.looked_at(entry)).collect())
        })
        .await
    }

    pub(super) async fn iac_entry(
        self: &Arc<Self>,
        id: String,
        bytes_max: usize,
    ) -> Result<Option<(Entry, Excerpt)>, AppError> {
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
                let answer = entry.answer(&engine.home, bytes_max);
                (entry, answer)
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
    let Some(folder) = file.parent().and_then(|folder| folder.canonicalize().ok()) else { return false };
    // The nearest repository counts, wherever the project begins: git is asked in its work tree only.
    let root = folder.ancestors().find(|folder| folder.join(".git").exists());
    let name = file.file_name().map(|name| folder.join(name));
    let within = root.and_then(|root| Some((root, name?.strip_prefix(root).ok()?.to_str()?.to_owned())));
    let Some((root, within)) = within else { return false };
    let git = env::get("PATH").and_then(|path| Git::find(&path, env::for_agent(&[]), clock::new_tag()));
    let words = ["--literal-pathspecs", "ls-files", "--error-unmatch", "--", &within];
    git.is_some_and(|git| git.ask(root, &words, Instant::now() + GIT_MAX).is_ok())
}
