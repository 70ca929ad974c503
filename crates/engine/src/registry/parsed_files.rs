//! Caches each agent file after it was parsed. While one file of a project is too young for the cache of the whole
//! project, only that file is read and parsed again.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use config::agent_formats::plain::PlainDefaults;
use domain::agent::Agent;
use domain::diagnostic::Diagnostic;
use domain::id::AgentName;

use super::agent_folders::AgentFolder;
use super::file_state::{FileState, are_unchanged, observe_again, read_observed};
use crate::clock;

/// How many files are cached.
const FILES_MAX: usize = 2_000;
/// The largest file that is cached. Agent files are small; this bounds the memory that a project can make us use.
const FILE_BYTES_MAX: u64 = 16 << 10;

/// By the bytes of their paths: comparing paths part by part took a fifth of the time of a call.
static PARSED_FILES: Mutex<BTreeMap<OsString, ParsedFile>> = Mutex::new(BTreeMap::new());

/// The definitions in one agent file.
#[derive(Debug, Clone, Default)]
pub(super) struct AgentFileContent {
    pub(super) agent: Option<Arc<Agent>>,
    pub(super) diagnostics: Vec<Diagnostic>,
    /// The name that a file with errors would define, and the first error.
    pub(super) broken: Option<(AgentName, Diagnostic)>,
    /// The readable parts of a file with errors.
    pub(super) draft: Option<Agent>,
}

struct ParsedFile {
    folder: AgentFolder,
    defaults: PlainDefaults,
    content: AgentFileContent,
    observed: Vec<FileState>,
}

/// Returns the content of an agent file, from the cache if nothing that it depends on has changed.
pub(super) fn content(
    folder: &AgentFolder,
    path: &Path,
    defaults: &PlainDefaults,
    parse: impl FnOnce() -> AgentFileContent,
) -> AgentFileContent {
    let is_current = |file: &&ParsedFile| {
        file.folder == *folder && file.defaults == *defaults && are_unchanged(&file.observed)
    };
    let mut cache = PARSED_FILES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(file) = cache.get(path.as_os_str()).filter(is_current) {
        observe_again(&file.observed);
        return file.content.clone();
    }
    let (content, mut observed) = read_observed(parse);
    observed.sort();
    observed.dedup();
    let now_ms = clock::now().as_millisecond();
    let is_small = observed.iter().map(FileState::bytes).sum::<u64>() <= FILE_BYTES_MAX;
    if is_small && observed.iter().all(|state| state.is_settled(now_ms)) {
        if cache.len() >= FILES_MAX {
            cache.clear();
        }
        let (folder, defaults, cached) = (folder.clone(), defaults.clone(), content.clone());
        cache.insert(path.as_os_str().to_owned(), ParsedFile { folder, defaults, content: cached, observed });
    } else {
        cache.remove(path.as_os_str());
    }
    content
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use domain::agent::{AgentFormat, Layer};

    use super::super::agent_folders::KiroPrompts;
    use super::super::file_state::observe;
    use super::*;

    /// Waits until a file is old enough for the cache. The change time of a file cannot be set.
    fn wait_until_settled(path: &Path) {
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        loop {
            let ((), observed) = read_observed(|| observe(path));
            if observed.iter().all(|state| state.is_settled(clock::now().as_millisecond())) {
                return;
            }
            assert!(std::time::Instant::now() < deadline, "the file does not settle");
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }

    #[test]
    fn only_changed_and_young_files_are_parsed_again() {
        let dir = tempfile::tempdir().unwrap();
        let folder = AgentFolder {
            path: dir.path().to_owned(),
            format: AgentFormat::Volery,
            layer: Layer::Project,
            boundary: None,
            prompts: KiroPrompts::default(),
        };
        let (old, young) = (dir.path().join("old.md"), dir.path().join("young.md"));
        std::fs::write(&old, "old").unwrap();
        wait_until_settled(&old);
        std::fs::write(&young, "young").unwrap();
        let parses = Cell::new(0);
        let read = |path: &Path, defaults: &PlainDefaults| {
            content(&folder, path, defaults, || {
                parses.set(parses.get() + 1);
                observe(path);
                let text = std::fs::read_to_string(path).unwrap();
                AgentFileContent {
                    diagnostics: vec![Diagnostic::warning("a.md", text)],
                    ..AgentFileContent::default()
                }
            })
        };
        let defaults = PlainDefaults::default();
        for _ in 0..3 {
            let (_, observed) = read_observed(|| read(&old, &defaults));
            assert_eq!(observed.len(), 1, "the reader of the whole project observes a cached file too");
        }
        assert_eq!(parses.replace(0), 1);
        for _ in 0..3 {
            read(&young, &defaults);
        }
        assert_eq!(parses.replace(0), 3, "a second change in the same moment would leave no trace");
        std::fs::write(&old, "new").unwrap();
        assert_eq!(read(&old, &defaults).diagnostics[0].message, "new");
        assert_eq!(parses.replace(0), 1);
        let other = PlainDefaults { model: Some("opus".to_owned()), ..PlainDefaults::default() };
        wait_until_settled(&old);
        read(&old, &defaults);
        read(&old, &other);
        assert_eq!(parses.replace(0), 2, "other defaults may give another agent");
    }
}
