//! Reads what a vendor's program would find by itself at its user's or in a project: settings, servers, logins. Never
//! changes anything.

use std::cell::LazyCell;
use std::ffi::{OsStr, OsString};
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use config::jsonc::{self, JsonSyntax};
use serde_json::{Map, Value};

use system_files::regular_file;

/// The longest settings file that is read.
const SETTINGS_BYTES_MAX: u64 = 1 << 20;

/// A user, by home and environment.
#[derive(Clone, Copy)]
pub struct UserEnvironment<'a> {
    pub home: Option<&'a Path>,
    /// Looks up a variable that the program gets.
    pub variable: &'a dyn Fn(&str) -> Option<OsString>,
}

impl UserEnvironment<'_> {
    /// Returns the folder that a variable names, otherwise this one below the home.
    pub fn folder(&self, variable: &str, below_home: &str) -> Option<PathBuf> {
        let named_path = (self.variable)(variable).filter(|path| !path.is_empty()).map(PathBuf::from);
        named_path.or_else(|| Some(self.home?.join(below_home)))
    }
}

/// Reads settings; `None` if they do not exist or cannot be read.
pub fn read_settings(path: &Path) -> Option<Value> {
    try_read_settings(path).ok().flatten()
}

/// Reads settings; an error if they exist and cannot be read. Comments and trailing commas are accepted, as most
/// vendors do.
pub fn try_read_settings(path: &Path) -> Result<Option<Value>, String> {
    let Some(text) = try_read_text(path)? else { return Ok(None) };
    let text = text.trim_start_matches('\u{feff}');
    if text.trim().is_empty() {
        return Ok(None);
    }
    let tree = jsonc::parse(text, JsonSyntax::Commented).map_err(|error| {
        let (line, column) = error.location(text);
        format!("it is no JSON (line {line}, column {column})")
    })?;
    Ok(Some(tree.value(text)))
}

/// Reads settings in TOML; `None` if they do not exist or cannot be read.
pub fn read_toml(path: &Path) -> Option<Value> {
    toml::from_str(&read_text(path)?).ok()
}

/// Reads a settings file as text; `None` if it does not exist or cannot be read.
pub fn read_text(path: &Path) -> Option<String> {
    try_read_text(path).ok().flatten()
}

/// Reads a settings file as text; an error if it exists and cannot be read.
pub fn try_read_text(path: &Path) -> Result<Option<String>, String> {
    match regular_file::read_text(path, SETTINGS_BYTES_MAX) {
        Ok(text) => Ok(Some(text)),
        // A project may use the name of a vendor's folder for a file.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(error.to_string()),
    }
}

/// Reads a text as vendors' programs do, which replace bytes that are not UTF-8 instead of refusing the file.
pub fn try_read_text_lossy(path: &Path) -> Result<Option<String>, String> {
    match regular_file::read_bytes(path, SETTINGS_BYTES_MAX) {
        Ok(read_bytes) => Ok(Some(String::from_utf8_lossy(&read_bytes).into_owned())),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(error.to_string()),
    }
}

/// Returns the entries of a folder whose extension matches, sorted.
pub fn files_with_extension(folder: &Path, has_ending: impl Fn(&OsStr) -> bool) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let mut all: Vec<PathBuf> =
        entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(&has_ending)).collect();
    all.sort();
    all
}

/// Returns a section of settings. A value that is not an object is replaced by an empty section.
pub(crate) fn section<'a>(settings: &'a mut Map<String, Value>, name: &str) -> &'a mut Map<String, Value> {
    let section = settings.entry(name).or_insert_with(|| Value::Object(Map::new()));
    if !section.is_object() {
        *section = Value::Object(Map::new());
    }
    section.as_object_mut().expect("it was made an object")
}

/// Returns the names of the entries of an object in settings.
pub fn entry_names(settings: &Value, key: &str) -> Vec<String> {
    settings[key].as_object().map(|entries| entries.keys().cloned().collect()).unwrap_or_default()
}

/// The folders whose files a vendor's program may follow. They are searched when they are needed for the first time: a
/// backend whose program follows no files of a project costs no search for its git work tree.
pub struct ProjectFolders<'a>(LazyCell<Vec<&'a Path>, Box<dyn FnOnce() -> Vec<&'a Path> + 'a>>);

impl<'a> ProjectFolders<'a> {
    pub fn new(search: impl FnOnce() -> Vec<&'a Path> + 'a) -> Self {
        Self(LazyCell::new(Box::new(search)))
    }

    /// Returns those of a run in this directory.
    pub fn of_run(directory: &'a str, project: &'a str) -> Self {
        Self::new(move || directories_up_to_root(directory, project))
    }
}

impl<'a> Deref for ProjectFolders<'a> {
    type Target = [&'a Path];

    fn deref(&self) -> &[&'a Path] {
        &self.0
    }
}

/// Returns the directory and its ancestors up to the root of its git work tree, since programs know no other
/// boundary; without a work tree, up to the project.
pub fn directories_up_to_root<'a>(directory: &'a str, project: &str) -> Vec<&'a Path> {
    let mut all: Vec<&Path> = Path::new(directory).ancestors().collect();
    let root = all.iter().position(|folder| is_work_tree(folder));
    let bound = root.or_else(|| all.iter().position(|folder| *folder == Path::new(project)));
    all.truncate(bound.map_or(all.len(), |bound| bound + 1));
    all
}

/// Returns whether git treats a folder as the root of a work tree.
fn is_work_tree(folder: &Path) -> bool {
    git_repository(folder).is_some()
}

/// Returns the repository of a folder that git treats as the root of a work tree. Git ignores a folder that only
/// looks like one, and so do programs that ask git.
pub(crate) fn git_repository(folder: &Path) -> Option<PathBuf> {
    let named_path = folder.join(".git");
    let repository = match read_text(&named_path) {
        Some(text) => folder.join(text.strip_prefix("gitdir:")?.trim()),
        None => named_path,
    };
    let head = read_text(&repository.join("HEAD")).unwrap_or_default();
    let head = head.trim();
    let is_commit = head.len() >= 40 && head.bytes().all(|character| character.is_ascii_hexdigit());
    let is_whole = ["objects", "refs"].iter().all(|part| repository.join(part).is_dir());
    let is_one =
        (head.starts_with("ref: refs/") || is_commit) && (is_whole || repository.join("commondir").is_file());
    is_one.then_some(repository)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_with_comments_and_commas_are_read() {
        let temp_dir = tempfile::tempdir().unwrap();
        let path = temp_dir.path().join("settings.jsonc");
        let text = "\u{feff}{ // one\n \"a\": \"x // no, \\\" /* y */\", /* two\n */ \"mcp\": {\"s\": [1, 2,], }, }\n";
        std::fs::write(&path, text).unwrap();
        let read = read_settings(&path).unwrap();
        assert_eq!(read, json!({"a": "x // no, \" /* y */", "mcp": {"s": [1, 2]}}));
        assert_eq!(entry_names(&read, "mcp"), ["s"]);
        assert_eq!(entry_names(&read, "a"), Vec::<String>::new());
        assert_eq!(read_settings(&temp_dir.path().join("absent")), None);
    }

    #[test]
    fn unreadable_settings_differ_from_missing_ones() {
        let temp_dir = tempfile::tempdir().unwrap();
        let at = |name: &str| temp_dir.path().join(name);
        assert_eq!(try_read_settings(&at("absent")), Ok(None));
        std::fs::write(at("empty"), "\n").unwrap();
        assert_eq!(try_read_settings(&at("empty")), Ok(None));
        assert_eq!(try_read_settings(&at("empty/below")), Ok(None));
        std::fs::write(at("broken"), "{hooks").unwrap();
        assert_eq!(try_read_settings(&at("broken")), Err("it is no JSON (line 1, column 2)".to_owned()));
        std::fs::write(at("large"), " ".repeat(1 << 20) + "{\"hooks\": {}}").unwrap();
        assert_eq!(try_read_settings(&at("large")), Err("it is larger than 1024 KiB".to_owned()));
        let mode = rustix::fs::Mode::RUSR;
        rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert_eq!(try_read_settings(&at("pipe")), Err("it is no regular file".to_owned()));
        assert_eq!(
            (read_settings(&at("pipe")), read_toml(&at("pipe")), read_text(&at("pipe"))),
            (None, None, None)
        );
    }

    #[test]
    fn folders_are_searched_up_to_the_project() {
        let found = directories_up_to_root("/p/a/b", "/p/a");
        assert_eq!(found, [Path::new("/p/a/b"), Path::new("/p/a")]);
    }

    #[test]
    fn files_of_an_ending_come_in_order_and_a_folder_that_is_not_there_has_none() {
        let temp_dir = tempfile::tempdir().unwrap();
        for name in ["b.toml", "c.TOML", "a.toml", "d.md", ".toml", "toml"] {
            std::fs::write(temp_dir.path().join(name), "").unwrap();
        }
        let found = files_with_extension(temp_dir.path(), |ending| ending == "toml");
        assert_eq!(found, ["a.toml", "b.toml"].map(|name| temp_dir.path().join(name)));
        assert_eq!(files_with_extension(&temp_dir.path().join("absent"), |_| true), Vec::<PathBuf>::new());
    }

    fn make_repository(folder: &Path) {
        for part in ["objects", "refs"] {
            std::fs::create_dir_all(folder.join(part)).unwrap();
        }
        std::fs::write(folder.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    }

    #[test]
    fn folders_are_searched_up_to_the_work_tree_if_there_is_one() {
        let temp_dir = tempfile::tempdir().unwrap();
        let root = temp_dir.path();
        let inner = root.join("a/b");
        std::fs::create_dir_all(&inner).unwrap();
        make_repository(&root.join(".git"));
        let directory = inner.display().to_string();
        let reaches = || {
            directories_up_to_root(&directory, &directory)
                .last()
                .unwrap()
                .strip_prefix(root)
                .unwrap()
                .to_owned()
        };
        assert_eq!(reaches(), Path::new(""));
        std::fs::create_dir(root.join("a/.git")).unwrap();
        std::fs::write(inner.join(".git"), "gitdir: ../nowhere\n").unwrap();
        assert_eq!(reaches(), Path::new(""), "what git passes over is no work tree");
        make_repository(&root.join("a/.git"));
        assert_eq!(reaches(), Path::new("a"));
        let linked = root.join("linked");
        std::fs::create_dir(&linked).unwrap();
        std::fs::write(linked.join("HEAD"), format!("{}\n", "0a".repeat(20))).unwrap();
        std::fs::write(linked.join("commondir"), "..\n").unwrap();
        std::fs::write(inner.join(".git"), "gitdir: ../../linked\n").unwrap();
        assert_eq!(reaches(), Path::new("a/b"));
    }
}
