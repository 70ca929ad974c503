//! What the user of a vendor's program has that the program would find by itself: settings, servers, logins. Only looked
//! at, never changed.

use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::Value;

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

/// Reads settings; nothing if they are not there or cannot be read. Comments and commas too many are passed over, as
/// most vendors do.
pub fn settings(path: &Path) -> Option<Value> {
    let text = text(path)?;
    let text = text.trim_start_matches('\u{feff}');
    serde_json::from_str(text).or_else(|_| serde_json::from_str(&strict(text))).ok()
}

/// Reads settings in TOML, in the same way.
pub fn toml(path: &Path) -> Option<Value> {
    toml::from_str(&text(path)?).ok()
}

/// Reads a file of settings, as it is written.
pub fn text(path: &Path) -> Option<String> {
    let mut text = String::new();
    std::fs::File::open(path).ok()?.take(SETTINGS_BYTES_MAX).read_to_string(&mut text).ok()?;
    Some(text)
}

/// Returns the names of the entries of an object in settings.
pub fn names(settings: &Value, key: &str) -> Vec<String> {
    settings[key].as_object().map(|entries| entries.keys().cloned().collect()).unwrap_or_default()
}

/// Returns the directory and those above it, to the one that bounds the project.
pub fn upward<'a>(directory: &'a str, project: &str) -> Vec<&'a Path> {
    let all = Path::new(directory).ancestors();
    let mut folders = Vec::new();
    for folder in all {
        folders.push(folder);
        if folder == Path::new(project) || folder.join(".git").exists() {
            break;
        }
    }
    folders
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
    fn folders_are_looked_at_up_to_the_project() {
        let found = upward("/p/a/b", "/p/a");
        assert_eq!(found, [Path::new("/p/a/b"), Path::new("/p/a")]);
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
