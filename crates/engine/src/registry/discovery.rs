//! Finds the files of a folder that may define agents. Warns about skipped ones: a folder that cannot be read, a
//! folder that is nested too deep, too many files, or a file that looks like an agent and is not one.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use domain::agent::{AgentFormat, Layer};
use domain::diagnostic::Diagnostic;

use super::agent_folders::AgentFolder;
use super::file_state::observe;
use super::guarded_read::{DANGLING_LINK, ESCAPES_FOLDER, escapes_folder, read_head};

/// The most agent files that are read from one folder.
const FILES_MAX: usize = 1_000;
/// The most files and folders that are examined in one folder and those below it.
const ENTRIES_MAX: usize = 20_000;
/// How deep folders with agents may be nested, for formats that read nested folders.
const DEPTH_MAX: usize = 8;
/// The most nested folders of one folder that are named in warnings.
const NAMED_MAX: usize = 20;
/// How much of a skipped file is read.
const HEAD_BYTES: u64 = 4 << 10;
pub(super) const ESCAPES_PROJECT: &str =
    "the folder leaves the project by a symbolic link, so it is not read";
/// The agent of Jarvis that is the caller itself.
const JARVIS_MAIN: &str = "main";

/// Returns the files of a folder that may define agents, sorted by name.
pub(super) fn agent_files(folder: &AgentFolder, diagnostics: &mut Vec<Diagnostic>) -> Vec<PathBuf> {
    if !can_be_read(folder, diagnostics) {
        return Vec::new();
    }
    let format = folder.format;
    // The programs of these formats read nested folders too.
    let nested_formats =
        [AgentFormat::Claude, AgentFormat::Codex, AgentFormat::Directive, AgentFormat::Opencode];
    // opencode reads folders below those of agents, but not below those of modes.
    let is_flat =
        format == AgentFormat::Opencode && ["mode", "modes"].iter().any(|name| folder.path.ends_with(name));
    let depth = if nested_formats.contains(&format) && !is_flat { DEPTH_MAX } else { 0 };
    let mut search = Search::new(format, &folder.path, diagnostics);
    match format {
        AgentFormat::Jarvis => search.jarvis(),
        AgentFormat::Volery
        | AgentFormat::Plain
        | AgentFormat::DotAgents
        | AgentFormat::Kiro
        | AgentFormat::Directive
        | AgentFormat::Claude
        | AgentFormat::Cursor
        | AgentFormat::Codex
        | AgentFormat::Gemini
        | AgentFormat::Qwen
        | AgentFormat::Opencode
        | AgentFormat::Copilot => search.collect_all(depth),
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
    let below = folder.path.as_os_str().len();
    paths.sort_by(|one, other| compare_paths(below, one, other));
    if matches!(format, AgentFormat::Plain | AgentFormat::DotAgents) {
        drop_shadowed_texts(&mut paths, diagnostics);
    }
    if paths.len() > FILES_MAX {
        let message = format!("only the first {FILES_MAX} of {} agent files are read", paths.len());
        diagnostics.push(Diagnostic::warning(&folder.path.display().to_string(), message));
        paths.truncate(FILES_MAX);
    }
    paths
}

/// Compares the parts of two paths below the same folder, whose path has this many bytes. The order is that of `Path::cmp`,
/// which splits both paths for each comparison: with hundreds of files that took longer than the search itself.
fn compare_paths(below: usize, one: &Path, other: &Path) -> Ordering {
    let [one, other] = [one, other].map(|path| path.as_os_str().as_bytes().get(below..).unwrap_or_default());
    let common = one.iter().zip(other).take_while(|(one, other)| one == other).count();
    // A separator ends a part, so it comes before every other byte. No path contains a zero.
    let next = |path: &[u8]| path.get(common).map(|byte| if *byte == b'/' { 0 } else { *byte });
    next(one).cmp(&next(other))
}

/// Returns whether the folder exists and can be read, and reports why not if that is not obvious.
fn can_be_read(folder: &AgentFolder, diagnostics: &mut Vec<Diagnostic>) -> bool {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    let path = &folder.path;
    observe(path);
    let warning = |message: String| Diagnostic::warning(&path.display().to_string(), message);
    let is_explicit = folder.layer == Layer::Environment;
    let problem = match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => match &folder.boundary {
            Some(within) if escapes_folder(path, within) => {
                Some(Diagnostic::error(&path.display().to_string(), ESCAPES_PROJECT))
            }
            Some(_) | None => return true,
        },
        Ok(_) => is_explicit.then(|| warning("it is no folder, so no agents are read from it".to_owned())),
        Err(error) if matches!(error.kind(), NotFound | NotADirectory) => match path.is_symlink() {
            true => Some(warning(DANGLING_LINK.to_owned())),
            false => is_explicit
                .then(|| warning("there is no such folder, so no agents are read from it".to_owned())),
        },
        Err(error) => Some(warning(format!("could not look into it: {error}"))),
    };
    diagnostics.extend(problem);
    false
}

/// An entry of a folder.
struct FolderEntry {
    path: PathBuf,
    is_link: bool,
    /// It is a folder, or a link to one.
    is_folder: bool,
}

/// A search for the files of one folder.
struct Search<'a> {
    format: AgentFormat,
    top: &'a Path,
    found: Vec<PathBuf>,
    entry_count: usize,
    /// The folders with agents that are nested too deep.
    too_deep: Vec<PathBuf>,
    /// The resolved paths of visited folders: a link may lead to one of them.
    visited: BTreeSet<PathBuf>,
    /// Links to folders, with the remaining depth.
    links: Vec<(PathBuf, usize)>,
    diagnostics: &'a mut Vec<Diagnostic>,
}

impl<'a> Search<'a> {
    fn new(format: AgentFormat, top: &'a Path, diagnostics: &'a mut Vec<Diagnostic>) -> Self {
        Self {
            format,
            top,
            found: Vec::new(),
            entry_count: 0,
            too_deep: Vec::new(),
            visited: BTreeSet::new(),
            links: Vec::new(),
            diagnostics,
        }
    }
}

impl Search<'_> {
    /// Returns the entries of a folder, unless the limit is exceeded. Their types come from the folder itself, which
    /// saves two system calls for each of hundreds of files.
    fn entries(&mut self, folder: &Path) -> Vec<FolderEntry> {
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
        let mut found = Vec::new();
        for entry in entries.filter_map(Result::ok) {
            self.entry_count += 1;
            if self.entry_count > ENTRIES_MAX {
                // Warn once: later folders find the limit exceeded.
                if self.entry_count == ENTRIES_MAX + 1 {
                    let message =
                        format!("it holds more than {ENTRIES_MAX} files and folders; the rest is not read");
                    self.diagnostics.push(Diagnostic::warning(&shown(self.top), message));
                }
                break;
            }
            let file_type = entry.file_type().ok();
            let is_link = file_type.is_some_and(|found| found.is_symlink());
            let path = entry.path();
            let is_folder =
                if is_link { path.is_dir() } else { file_type.is_some_and(|found| found.is_dir()) };
            found.push(FolderEntry { path, is_link, is_folder });
        }
        found
    }

    /// Collects the files of the folder and of nested folders. Real files come before those behind links, so that
    /// each file is found once and under its own path.
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
        for FolderEntry { path, is_link, is_folder } in self.entries(folder) {
            if is_link {
                observe(&path);
            }
            match is_folder {
                true if depth > 0 && is_link => match escapes_folder(&path, self.top) {
                    true => {
                        self.diagnostics.push(Diagnostic::error(&path.display().to_string(), ESCAPES_FOLDER))
                    }
                    false => self.links.push((path, depth - 1)),
                },
                true if depth > 0 => self.collect(&path, depth - 1),
                true => self.note_too_deep(path),
                false if is_definition(self.format, &path) => self.found.push(path),
                false => self.warn_skipped(&path),
            }
        }
    }

    fn note_too_deep(&mut self, folder: PathBuf) {
        if self.too_deep.len() >= NAMED_MAX || folder.is_symlink() {
            return;
        }
        observe(&folder);
        let Ok(entries) = std::fs::read_dir(&folder) else { return };
        let mut paths = entries.filter_map(Result::ok).take(FILES_MAX).map(|entry| entry.path());
        if paths.any(|path| is_definition(self.format, &path) && looks_like_agent(self.format, &path)) {
            self.too_deep.push(folder);
        }
    }

    /// Warns about a file that somebody may take for an agent.
    fn warn_skipped(&mut self, path: &Path) {
        let has_extension = |expected: &str| path.extension().is_some_and(|extension| extension == expected);
        let message = match self.format {
            AgentFormat::Volery | AgentFormat::Cursor | AgentFormat::Gemini | AgentFormat::Qwen
                if is_readme(path) && has_extension("md") =>
            {
                "a file of this name explains its folder and is no agent; give it another name"
            }
            AgentFormat::Volery
            | AgentFormat::Plain
            | AgentFormat::DotAgents
            | AgentFormat::Jarvis
            | AgentFormat::Kiro
            | AgentFormat::Directive
            | AgentFormat::Claude
            | AgentFormat::Cursor
            | AgentFormat::Codex
            | AgentFormat::Gemini
            | AgentFormat::Qwen
            | AgentFormat::Opencode
            | AgentFormat::Copilot => return,
        };
        if has_key(path, &["name"]) {
            self.diagnostics.push(Diagnostic::warning(&path.display().to_string(), message));
        }
    }

    /// Finds `NAME/agent.md` in a folder whose name many projects use for something else.
    fn jarvis(&mut self) {
        let folders = self.entries(self.top).into_iter().map(|entry| entry.path);
        let folders = folders.filter(|path| !path.ends_with(JARVIS_MAIN));
        let paths = folders.map(|path| path.join("agent.md"));
        self.found =
            paths.inspect(|path| observe(path)).filter(|path| path.symlink_metadata().is_ok()).collect();
    }
}

fn is_definition(format: AgentFormat, path: &Path) -> bool {
    let extension = path.extension().and_then(|part| part.to_str()).unwrap_or_default();
    let extensions: &[&str] = match format {
        AgentFormat::Volery
        | AgentFormat::Claude
        | AgentFormat::Cursor
        | AgentFormat::Gemini
        | AgentFormat::Qwen
        | AgentFormat::Opencode
        | AgentFormat::Copilot
        | AgentFormat::Jarvis
        | AgentFormat::Directive => &["md"],
        AgentFormat::Plain | AgentFormat::DotAgents => &["md", "txt"],
        AgentFormat::Codex => &["toml"],
        AgentFormat::Kiro => &["json"],
    };
    if !extensions.contains(&extension) {
        return false;
    }
    // A readme is not an agent. sub-agents-mcp and opencode take every file for an agent, and Claude Code a readme
    // that has the keys of one.
    let is_explanation = is_readme(path)
        && match format {
            AgentFormat::Plain | AgentFormat::Opencode => false,
            AgentFormat::Claude => !has_key(path, &["name"]) || !has_key(path, &["description"]),
            AgentFormat::Volery
            | AgentFormat::DotAgents
            | AgentFormat::Jarvis
            | AgentFormat::Kiro
            | AgentFormat::Directive
            | AgentFormat::Cursor
            | AgentFormat::Codex
            | AgentFormat::Gemini
            | AgentFormat::Qwen
            | AgentFormat::Copilot => true,
        };
    // Gemini skips these too.
    let starts_with_underscore = || path.file_name().is_some_and(|name| name.as_bytes().starts_with(b"_"));
    let is_draft = format == AgentFormat::Gemini && starts_with_underscore();
    !is_explanation && !is_draft
}

fn is_readme(path: &Path) -> bool {
    path.file_stem().is_some_and(|stem| stem.eq_ignore_ascii_case("readme"))
}

/// Returns whether a file that is nested too deep is worth a warning: folders of agents also hold notes, prompts and
/// skills.
fn looks_like_agent(format: AgentFormat, path: &Path) -> bool {
    match format {
        AgentFormat::Codex | AgentFormat::Kiro | AgentFormat::Directive | AgentFormat::Claude => true,
        // Commands and rules have a description too.
        AgentFormat::DotAgents => has_key(path, &["name", "run-agent"]),
        AgentFormat::Volery
        | AgentFormat::Cursor
        | AgentFormat::Gemini
        | AgentFormat::Qwen
        | AgentFormat::Opencode
        | AgentFormat::Copilot => has_key(path, &["name", "description"]),
        AgentFormat::Plain | AgentFormat::Jarvis => false,
    }
}

/// Returns whether the frontmatter of a file has one of these keys.
fn has_key(path: &Path, keys: &[&str]) -> bool {
    let text = read_head(path, HEAD_BYTES);
    let mut lines = text.trim_start_matches('\u{feff}').lines().skip_while(|line| line.trim().is_empty());
    if lines.next().is_none_or(|line| line.trim_end() != "---") {
        return false;
    }
    let mut lines = lines.take_while(|line| line.trim_end() != "---");
    lines.any(|line| line.split_once(':').is_some_and(|(key, _)| keys.contains(&key.trim_end())))
}

/// Drops a text file if there is a markdown file with the same name.
fn drop_shadowed_texts(paths: &mut Vec<PathBuf>, diagnostics: &mut Vec<Diagnostic>) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_the_order_of_their_parts() {
        let names =
            ["a.md", "a", "a/b.md", "a-b/c.md", "a-b.md", "a/b/c.md", "b/a.md", "a/b", "\u{e9}.md", "Z.md"];
        let mut paths: Vec<PathBuf> = names.map(|name| Path::new("/top").join(name)).to_vec();
        let mut expected = paths.clone();
        paths.sort_by(|one, other| compare_paths("/top".len(), one, other));
        expected.sort();
        assert_eq!(paths, expected);
    }
}
