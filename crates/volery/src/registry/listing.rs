//! Which files of a folder may define agents. What is passed over is named: a folder that cannot be looked into, one that
//! lies too deep, or too many files.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use domain::agent::{Format, Layer};
use domain::diagnostic::Diagnostic;

use super::folders::Folder;
use super::text::{LEAVES, NOWHERE, leaves_folder};

/// The most agent files that are read from one folder.
const FILES_MAX: usize = 1_000;
/// The most files and folders that are looked at in one folder and those below it.
const ENTRIES_MAX: usize = 20_000;
/// How many folders below the one that a program looks into may hold agents, where they may at all.
const DEPTH_MAX: usize = 3;
pub(super) const LEAVES_PROJECT: &str = "the folder leaves the project by a symbolic link, so it is not read";
/// The agent of Jarvis that is the caller.
const JARVIS_MAIN: &str = "main";

/// Returns the files of a folder that may define agents, in the order of their names.
pub(super) fn files(folder: &Folder, diagnostics: &mut Vec<Diagnostic>) -> Vec<PathBuf> {
    if !can_be_read(folder, diagnostics) {
        return Vec::new();
    }
    let format = folder.format;
    // These sort their files into folders; the name stands in the file.
    let depth = if matches!(format, Format::Claude | Format::Directive) { DEPTH_MAX } else { 0 };
    let mut search =
        Search { format, top: &folder.path, found: Vec::new(), seen: 0, too_deep: None, diagnostics };
    match format {
        Format::Jarvis => search.jarvis(),
        Format::Volery
        | Format::Plain
        | Format::DotAgents
        | Format::Kiro
        | Format::Directive
        | Format::Claude
        | Format::Cursor
        | Format::Codex
        | Format::Gemini
        | Format::Opencode
        | Format::Copilot => search.collect(&folder.path, depth),
    }
    if let Some(deep) = search.too_deep.take().filter(|_| depth > 0) {
        let message = format!("only {DEPTH_MAX} folders below each other are read; move its agents up");
        search.diagnostics.push(Diagnostic::warning(&deep.display().to_string(), message));
    }
    let mut paths = search.found;
    paths.sort();
    if format == Format::Opencode {
        name_deeper(&folder.path, diagnostics);
    }
    if matches!(format, Format::Plain | Format::DotAgents) {
        drop_hidden_texts(&mut paths, diagnostics);
    }
    if paths.len() > FILES_MAX {
        let message = format!("only the first {FILES_MAX} of {} agent files are read", paths.len());
        diagnostics.push(Diagnostic::warning(&folder.path.display().to_string(), message));
        paths.truncate(FILES_MAX);
    }
    paths
}

/// Tells whether there is such a folder to be read, and says why not where that is not plain.
fn can_be_read(folder: &Folder, diagnostics: &mut Vec<Diagnostic>) -> bool {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    let path = &folder.path;
    let warning = |message: String| Diagnostic::warning(&path.display().to_string(), message);
    let named = folder.layer == Layer::Environment;
    let problem = match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => match &folder.within {
            Some(within) if leaves_folder(path, within) => {
                Some(Diagnostic::error(&path.display().to_string(), LEAVES_PROJECT))
            }
            Some(_) | None => return true,
        },
        Ok(_) => named.then(|| warning("it is no folder, so no agents are read from it".to_owned())),
        Err(error) if matches!(error.kind(), NotFound | NotADirectory) => match path.is_symlink() {
            true => Some(warning(NOWHERE.to_owned())),
            false => {
                named.then(|| warning("there is no such folder, so no agents are read from it".to_owned()))
            }
        },
        Err(error) => Some(warning(format!("could not look into it: {error}"))),
    };
    diagnostics.extend(problem);
    false
}

/// A search for the files of one folder.
struct Search<'a> {
    format: Format,
    top: &'a Path,
    found: Vec<PathBuf>,
    seen: usize,
    /// The first folder with agents that lies too deep.
    too_deep: Option<PathBuf>,
    diagnostics: &'a mut Vec<Diagnostic>,
}

impl Search<'_> {
    /// Returns what a folder holds, unless there has been too much already.
    fn entries(&mut self, folder: &Path) -> Vec<PathBuf> {
        let shown = |path: &Path| path.display().to_string();
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) => {
                let message = format!("could not look into it: {error}");
                self.diagnostics.push(Diagnostic::warning(&shown(folder), message));
                return Vec::new();
            }
        };
        let mut paths = Vec::new();
        for entry in entries.filter_map(Result::ok) {
            self.seen += 1;
            if self.seen > ENTRIES_MAX {
                // Once is enough: whoever comes later finds it passed.
                if self.seen == ENTRIES_MAX + 1 {
                    let message =
                        format!("it holds more than {ENTRIES_MAX} files and folders; the rest is not read");
                    self.diagnostics.push(Diagnostic::warning(&shown(self.top), message));
                }
                break;
            }
            paths.push(entry.path());
        }
        paths
    }

    fn collect(&mut self, folder: &Path, depth: usize) {
        for path in self.entries(folder) {
            match path.is_dir() {
                true if depth > 0 && path.is_symlink() && leaves_folder(&path, self.top) => {
                    self.diagnostics.push(Diagnostic::error(&path.display().to_string(), LEAVES));
                }
                true if depth > 0 => self.collect(&path, depth - 1),
                true => self.note_depth(path),
                false if is_definition(self.format, &path) => self.found.push(path),
                false => {}
            }
        }
    }

    fn note_depth(&mut self, folder: PathBuf) {
        let Ok(entries) = std::fs::read_dir(&folder) else { return };
        let mut files = entries.filter_map(Result::ok).take(FILES_MAX).map(|entry| entry.path());
        if self.too_deep.is_none() && files.any(|path| is_definition(self.format, &path)) {
            self.too_deep = Some(folder);
        }
    }

    /// Finds `NAME/agent.md` in a folder whose name many projects use for something else.
    fn jarvis(&mut self) {
        let folders = self.entries(self.top).into_iter().filter(|path| !path.ends_with(JARVIS_MAIN));
        let files = folders.map(|path| path.join("agent.md"));
        self.found = files.filter(|path| path.symlink_metadata().is_ok()).collect();
    }
}

/// opencode calls an agent in a folder below `FOLDER/NAME`, which is no name of an agent here.
fn name_deeper(folder: &Path, diagnostics: &mut Vec<Diagnostic>) {
    let unread = &mut Vec::new();
    let format = Format::Opencode;
    let mut search =
        Search { format, top: folder, found: Vec::new(), seen: 0, too_deep: None, diagnostics: unread };
    search.collect(folder, DEPTH_MAX);
    let mut found = search.found;
    found.retain(|path| path.parent() != Some(folder));
    found.sort();
    for path in found.into_iter().take(FILES_MAX) {
        let message = "an agent in a folder below is not read; move the file up";
        diagnostics.push(Diagnostic::warning(&path.display().to_string(), message));
    }
}

fn is_definition(format: Format, path: &Path) -> bool {
    let part =
        |part: Option<&std::ffi::OsStr>| part.and_then(|part| part.to_str()).unwrap_or_default().to_owned();
    let (stem, extension) = (part(path.file_stem()), part(path.extension()));
    let wanted: &[&str] = match format {
        Format::Volery
        | Format::Claude
        | Format::Cursor
        | Format::Gemini
        | Format::Opencode
        | Format::Copilot
        | Format::Jarvis
        | Format::Directive => &["md"],
        Format::Plain | Format::DotAgents => &["md", "txt"],
        Format::Codex => &["toml"],
        Format::Kiro => &["json"],
    };
    // A folder's own explanation is no agent; sub-agents-mcp alone takes every file for one.
    let explains = stem.eq_ignore_ascii_case("readme") && format != Format::Plain;
    wanted.contains(&extension.as_str()) && !explains
}

/// Of two files with one name, the markdown counts.
fn drop_hidden_texts(paths: &mut Vec<PathBuf>, diagnostics: &mut Vec<Diagnostic>) {
    let all: BTreeSet<PathBuf> = paths.iter().cloned().collect();
    paths.retain(|path| {
        let markdown = path.with_extension("md");
        let hidden = path.extension().is_some_and(|extension| extension == "txt") && all.contains(&markdown);
        if hidden {
            let message = format!("{} is used instead of this file", markdown.display());
            diagnostics.push(Diagnostic::warning(&path.display().to_string(), message));
        }
        !hidden
    });
}
