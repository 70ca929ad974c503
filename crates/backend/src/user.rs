//! What the user of a vendor's program, or a project, has that the program would find by itself: settings, servers,
//! logins. Only looked at, never changed.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::plain_file;

/// The longest file of settings that is read.
const SETTINGS_BYTES_MAX: u64 = 1 << 20;

/// A user, by home and environment.
#[derive(Clone, Copy)]
pub struct User<'a> {
    pub home: Option<&'a Path>,
    /// The variables that the program gets.
    pub value: &'a dyn Fn(&str) -> Option<OsString>,
}

impl User<'_> {
    /// Returns the folder that a variable names, else this one below the home.
    pub fn folder(&self, variable: &str, below_home: &str) -> Option<PathBuf> {
        let named = (self.value)(variable).filter(|path| !path.is_empty()).map(PathBuf::from);
        named.or_else(|| Some(self.home?.join(below_home)))
    }
}

/// Reads settings; nothing if they are not there or cannot be read.
pub fn settings(path: &Path) -> Option<Value> {
    look(path).ok().flatten()
}

/// Reads settings, and says why it could not where there are some. Comments and commas too many are passed over, as most
/// vendors do.
pub fn look(path: &Path) -> Result<Option<Value>, String> {
    let Some(text) = look_text(path)? else { return Ok(None) };
    let text = text.trim_start_matches('\u{feff}');
    if text.trim().is_empty() {
        return Ok(None);
    }
    let read = serde_json::from_str(text).or_else(|_| serde_json::from_str(&strict(text)));
    read.map(Some)
        .map_err(|error| format!("it is no JSON (line {}, column {})", error.line(), error.column()))
}

/// Reads settings in TOML; nothing if they are not there or cannot be read.
pub fn toml(path: &Path) -> Option<Value> {
    toml::from_str(&text(path)?).ok()
}

/// Reads a file of settings as it is written; nothing if it is not there or cannot be read.
pub fn text(path: &Path) -> Option<String> {
    look_text(path).ok().flatten()
}

/// Reads a file of settings as it is written, and says why it could not where there is one.
pub fn look_text(path: &Path) -> Result<Option<String>, String> {
    match plain_file::text(path, SETTINGS_BYTES_MAX) {
        Ok(text) => Ok(Some(text)),
        // A project may use the name of a vendor's folder for a file.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(error.to_string()),
    }
}

/// Reads a text as vendors' programs do, which replace bytes that are not UTF-8 instead of refusing the file.
pub fn look_lossy_text(path: &Path) -> Result<Option<String>, String> {
    match plain_file::bytes(path, SETTINGS_BYTES_MAX) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(error.to_string()),
    }
}

/// Returns what stands in a folder and has such an ending, in order.
pub fn files(folder: &Path, has_ending: impl Fn(&OsStr) -> bool) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let mut all: Vec<PathBuf> =
        entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(&has_ending)).collect();
    all.sort();
    all
}

/// Returns a section of settings; an empty one takes the place of what is none.
pub(crate) fn section<'a>(settings: &'a mut Map<String, Value>, name: &str) -> &'a mut Map<String, Value> {
    let section = settings.entry(name).or_insert_with(|| Value::Object(Map::new()));
    if !section.is_object() {
        *section = Value::Object(Map::new());
    }
    section.as_object_mut().expect("it was made an object")
}

/// Returns the names of the entries of an object in settings.
pub fn names(settings: &Value, key: &str) -> Vec<String> {
    settings[key].as_object().map(|entries| entries.keys().cloned().collect()).unwrap_or_default()
}

/// Returns the directory and those above it, to the root of its git work tree, since programs know no other bounds. Without
/// one, to the one that bounds the project.
pub fn upward<'a>(directory: &'a str, project: &str) -> Vec<&'a Path> {
    let mut all: Vec<&Path> = Path::new(directory).ancestors().collect();
    let root = all.iter().position(|folder| is_work_tree(folder));
    let bound = root.or_else(|| all.iter().position(|folder| *folder == Path::new(project)));
    all.truncate(bound.map_or(all.len(), |bound| bound + 1));
    all
}

/// Tells whether git takes a folder for the root of a work tree.
fn is_work_tree(folder: &Path) -> bool {
    repository(folder).is_some()
}

/// Returns the repository of a folder that git takes for the root of a work tree. What only looks like one it passes over,
/// and so do programs that ask it.
pub(crate) fn repository(folder: &Path) -> Option<PathBuf> {
    let named = folder.join(".git");
    let repository = match text(&named) {
        Some(text) => folder.join(text.strip_prefix("gitdir:")?.trim()),
        None => named,
    };
    let head = text(&repository.join("HEAD")).unwrap_or_default();
    let head = head.trim();
    let is_commit = head.len() >= 40 && head.bytes().all(|letter| letter.is_ascii_hexdigit());
    let is_whole = ["objects", "refs"].iter().all(|part| repository.join(part).is_dir());
    let is_one =
        (head.starts_with("ref: refs/") || is_commit) && (is_whole || repository.join("commondir").is_file());
    is_one.then_some(repository)
}

/// Returns JSON without comments and without commas before a closing bracket.
fn strict(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    let mut quoted = false;
    while let Some(letter) = rest.next() {
        match (quoted, letter, rest.peek()) {
            (true, '\\', Some(_)) => {
                kept.push(letter);
                kept.extend(rest.next());
            }
            (_, '"', _) => {
                quoted = !quoted;
                kept.push(letter);
            }
            (false, '/', Some('/')) => while rest.next_if(|letter| *letter != '\n').is_some() {},
            (false, '/', Some('*')) => {
                let mut last = ' ';
                for letter in rest.by_ref().skip(1) {
                    if last == '*' && letter == '/' {
                        break;
                    }
                    last = letter;
                }
            }
            (false, '}' | ']', _) => {
                let end = kept.trim_end().len();
                if kept[..end].ends_with(',') {
                    kept.truncate(end - 1);
                }
                kept.push(letter);
            }
            _ => kept.push(letter),
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_with_comments_and_commas_are_read() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("settings.jsonc");
        let text = "\u{feff}{ // one\n \"a\": \"x // no, \\\" /* y */\", /* two\n */ \"mcp\": {\"s\": [1, 2,], }, }\n";
        std::fs::write(&path, text).unwrap();
        let read = settings(&path).unwrap();
        assert_eq!(read, json!({"a": "x // no, \" /* y */", "mcp": {"s": [1, 2]}}));
        assert_eq!(names(&read, "mcp"), ["s"]);
        assert_eq!(names(&read, "a"), Vec::<String>::new());
        assert_eq!(settings(&place.path().join("absent")), None);
    }

    #[test]
    fn settings_that_cannot_be_read_are_told_from_none() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        assert_eq!(look(&at("absent")), Ok(None));
        std::fs::write(at("empty"), "\n").unwrap();
        assert_eq!(look(&at("empty")), Ok(None));
        assert_eq!(look(&at("empty/below")), Ok(None));
        std::fs::write(at("broken"), "{hooks").unwrap();
        assert_eq!(look(&at("broken")), Err("it is no JSON (line 1, column 2)".to_owned()));
        std::fs::write(at("large"), " ".repeat(1 << 20) + "{\"hooks\": {}}").unwrap();
        assert_eq!(look(&at("large")), Err("it is larger than 1024 KiB".to_owned()));
        let mode = rustix::fs::Mode::RUSR;
        rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert_eq!(look(&at("pipe")), Err("it is no regular file".to_owned()));
        assert_eq!((settings(&at("pipe")), toml(&at("pipe")), text(&at("pipe"))), (None, None, None));
    }

    #[test]
    fn folders_are_looked_at_up_to_the_project() {
        let found = upward("/p/a/b", "/p/a");
        assert_eq!(found, [Path::new("/p/a/b"), Path::new("/p/a")]);
    }

    #[test]
    fn files_of_an_ending_come_in_order_and_a_folder_that_is_not_there_has_none() {
        let place = tempfile::tempdir().unwrap();
        for name in ["b.toml", "c.TOML", "a.toml", "d.md", ".toml", "toml"] {
            std::fs::write(place.path().join(name), "").unwrap();
        }
        let found = files(place.path(), |ending| ending == "toml");
        assert_eq!(found, ["a.toml", "b.toml"].map(|name| place.path().join(name)));
        assert_eq!(files(&place.path().join("absent"), |_| true), Vec::<PathBuf>::new());
    }

    fn make_repository(folder: &Path) {
        for part in ["objects", "refs"] {
            std::fs::create_dir_all(folder.join(part)).unwrap();
        }
        std::fs::write(folder.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    }

    #[test]
    fn folders_are_looked_at_up_to_the_work_tree_if_there_is_one() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path();
        let inner = root.join("a/b");
        std::fs::create_dir_all(&inner).unwrap();
        make_repository(&root.join(".git"));
        let directory = inner.display().to_string();
        let reaches =
            || upward(&directory, &directory).last().unwrap().strip_prefix(root).unwrap().to_owned();
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

    proptest! {
        #[test]
        fn no_text_makes_it_panic_and_plain_json_stays(text in "[\\[\\]{},:\"/*\\\\ a\n]{0,60}") {
            let strict = strict(&text);
            if let Ok(plain) = serde_json::from_str::<Value>(&text) {
                prop_assert_eq!(serde_json::from_str::<Value>(&strict).unwrap(), plain);
            }
        }
    }
}
