//! Which files of a folder may define agents. What is passed over is named: a folder that cannot be looked into, one that
//! lies too deep, too many files, or a file that is written like an agent and is none.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use domain::agent::{Format, Layer};
use domain::diagnostic::Diagnostic;

use super::file_state::observe;
use super::folders::Folder;
use super::text::{LEAVES, NOWHERE, beginning, leaves_folder};

/// The most agent files that are read from one folder.
const FILES_MAX: usize = 1_000;
/// The most files and folders that are looked at in one folder and those below it.
const ENTRIES_MAX: usize = 20_000;
/// How many folders below the one that a program looks into may hold agents, where they may at all.
const DEPTH_MAX: usize = 8;
/// The most folders of one that are named for what lies in them.
const NAMED_MAX: usize = 20;
/// How much of a file that is passed over is looked at.
const HEAD_BYTES: u64 = 4 << 10;
pub(super) const LEAVES_PROJECT: &str = "the folder leaves the project by a symbolic link, so it is not read";
/// The agent of Jarvis that is the caller.
const JARVIS_MAIN: &str = "main";

/// Returns the files of a folder that may define agents, in the order of their names.
pub(super) fn files(folder: &Folder, diagnostics: &mut Vec<Diagnostic>) -> Vec<PathBuf> {
    if !can_be_read(folder, diagnostics) {
        return Vec::new();
    }
    let format = folder.format;
    // The programs of these formats read the folders below, too.
    let sorted = [Format::Claude, Format::Codex, Format::Directive, Format::Opencode];
    // opencode reads folders below those of agents, and not below those of modes.
    let is_flat =
        format == Format::Opencode && ["mode", "modes"].iter().any(|name| folder.path.ends_with(name));
    let depth = if sorted.contains(&format) && !is_flat { DEPTH_MAX } else { 0 };
    let mut search = Search::new(format, &folder.path, diagnostics);
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
        | Format::Qwen
        | Format::Opencode
        | Format::Copilot => search.collect_all(depth),
    }
    search.too_deep.sort();
    for deep in search.too_deep.iter().take(NAMED_MAX) {
        let message = match depth {
            0 => "agents in a folder below are not read; move its files up".to_owned(),
            _ => format!("only {DEPTH_MAX} folders below each other are read; move its agents up"),
        };
        search.diagnostics.push(Diagnostic::warning(&deep.display().to_string(), message));
    }
    let mut paths = search.found;
    paths.sort();
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
    observe(path);
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
    /// The folders with agents that lie too deep.
    too_deep: Vec<PathBuf>,
    /// Where the folders really are that were looked into: a link may lead to one of them.
    visited: BTreeSet<PathBuf>,
    /// Links to folders, with how deep it may go from there.
    links: Vec<(PathBuf, usize)>,
    diagnostics: &'a mut Vec<Diagnostic>,
}

impl<'a> Search<'a> {
    fn new(format: Format, top: &'a Path, diagnostics: &'a mut Vec<Diagnostic>) -> Self {
        Self {
            format,
            top,
            found: Vec::new(),
            seen: 0,
            too_deep: Vec::new(),
            visited: BTreeSet::new(),
            links: Vec::new(),
            diagnostics,
        }
    }
}

impl Search<'_> {
    /// Returns what a folder holds, unless there has been too much already.
    fn entries(&mut self, folder: &Path) -> Vec<PathBuf> {
        let shown = |path: &Path| path.display().to_string();
        observe(folder);
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

    /// Collects the files of the folder and of those below it. What is there by itself comes before what links lead to, so
    /// that each file is found once and under its own path.
    fn collect_all(&mut self, depth: usize) {
        self.collect(self.top, depth);
        while let Some((link, depth)) = self.links.pop() {
            self.collect(&link, depth);
        }
    }

    fn collect(&mut self, folder: &Path, depth: usize) {
        if !folder.canonicalize().is_ok_and(|real| self.visited.insert(real)) {
            return;
        }
        for path in self.entries(folder) {
            if path.is_symlink() {
                observe(&path);
            }
            match path.is_dir() {
                true if depth > 0 && path.is_symlink() => match leaves_folder(&path, self.top) {
                    true => self.diagnostics.push(Diagnostic::error(&path.display().to_string(), LEAVES)),
                    false => self.links.push((path, depth - 1)),
                },
                true if depth > 0 => self.collect(&path, depth - 1),
                true => self.note_depth(path),
                false if is_definition(self.format, &path) => self.found.push(path),
                false => self.note_passed_over(&path),
            }
        }
    }

    fn note_depth(&mut self, folder: PathBuf) {
        if self.too_deep.len() >= NAMED_MAX || folder.is_symlink() {
            return;
        }
        observe(&folder);
        let Ok(entries) = std::fs::read_dir(&folder) else { return };
        let mut files = entries.filter_map(Result::ok).take(FILES_MAX).map(|entry| entry.path());
        if files.any(|path| is_definition(self.format, &path) && is_written_like_one(self.format, &path)) {
            self.too_deep.push(folder);
        }
    }

    /// Names a file that somebody may take for an agent.
    fn note_passed_over(&mut self, path: &Path) {
        let is = |wanted: &str| path.extension().is_some_and(|extension| extension == wanted);
        let message = match self.format {
            Format::Volery | Format::Cursor | Format::Gemini | Format::Qwen
                if is_readme(path) && is("md") =>
            {
                "a file of this name explains its folder and is no agent; give it another name"
            }
            Format::Volery
            | Format::Plain
            | Format::DotAgents
            | Format::Jarvis
            | Format::Kiro
            | Format::Directive
            | Format::Claude
            | Format::Cursor
            | Format::Codex
            | Format::Gemini
            | Format::Qwen
            | Format::Opencode
            | Format::Copilot => return,
        };
        if has_key(path, &["name"]) {
            self.diagnostics.push(Diagnostic::warning(&path.display().to_string(), message));
        }
    }

    /// Finds `NAME/agent.md` in a folder whose name many projects use for something else.
    fn jarvis(&mut self) {
        let folders = self.entries(self.top).into_iter().filter(|path| !path.ends_with(JARVIS_MAIN));
        let files = folders.map(|path| path.join("agent.md"));
        self.found =
            files.inspect(|path| observe(path)).filter(|path| path.symlink_metadata().is_ok()).collect();
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
        | Format::Qwen
        | Format::Opencode
        | Format::Copilot
        | Format::Jarvis
        | Format::Directive => &["md"],
        Format::Plain | Format::DotAgents => &["md", "txt"],
        Format::Codex => &["toml"],
        Format::Kiro => &["json"],
    };
    // A folder's own explanation is no agent. sub-agents-mcp and opencode take every file for one, and Claude Code takes
    // one that is written like an agent.
    let explains = is_readme(path)
        && match format {
            Format::Plain | Format::Opencode => false,
            Format::Claude => !has_key(path, &["name"]) || !has_key(path, &["description"]),
            Format::Volery
            | Format::DotAgents
            | Format::Jarvis
            | Format::Kiro
            | Format::Directive
            | Format::Cursor
            | Format::Codex
            | Format::Gemini
            | Format::Qwen
            | Format::Copilot => true,
        };
    // Gemini leaves these out too.
    let is_draft = stem.starts_with('_') && format == Format::Gemini;
    wanted.contains(&extension.as_str()) && !explains && !is_draft
}

fn is_readme(path: &Path) -> bool {
    path.file_stem().is_some_and(|stem| stem.eq_ignore_ascii_case("readme"))
}

/// Tells whether a file that lies too deep is worth a word: folders of agents also hold notes, prompts and skills.
fn is_written_like_one(format: Format, path: &Path) -> bool {
    match format {
        Format::Codex | Format::Kiro | Format::Directive | Format::Claude => true,
        // Commands and rules have a description too.
        Format::DotAgents => has_key(path, &["name", "run-agent"]),
        Format::Volery
        | Format::Cursor
        | Format::Gemini
        | Format::Qwen
        | Format::Opencode
        | Format::Copilot => has_key(path, &["name", "description"]),
        Format::Plain | Format::Jarvis => false,
    }
}

/// Tells whether one of these keys stands in the frontmatter of a file.
fn has_key(path: &Path, keys: &[&str]) -> bool {
    let text = beginning(path, HEAD_BYTES);
    let mut lines = text.trim_start_matches('\u{feff}').lines().skip_while(|line| line.trim().is_empty());
    if lines.next().is_none_or(|line| line.trim_end() != "---") {
        return false;
    }
    let mut lines = lines.take_while(|line| line.trim_end() != "---");
    lines.any(|line| line.split_once(':').is_some_and(|(key, _)| keys.contains(&key.trim_end())))
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
