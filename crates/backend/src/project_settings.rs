//! What files of a project would make a vendor's program execute, or whom they would make it send keys to. Only looked
//! at: whether they may is for the project's trust.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use domain::run::RunSpec;
use serde_json::{Map, Value};

use crate::contract::{Excerpt, ProjectProgram};
use crate::excerpt;
use crate::plain_file;
use crate::user;

/// Settings of a project that one program reads.
pub(crate) struct ProjectSettings {
    pub(crate) program: &'static str,
    /// Files below a folder of the project.
    pub(crate) files: &'static [&'static str],
    pub(crate) keys: Keys,
    /// Files of variables that are its own, below a folder of the project or any above it.
    pub(crate) variables: &'static [&'static str],
}

/// Which settings execute nothing.
pub(crate) enum Keys {
    /// All but these, and for each whether the program can be told to leave it out.
    Except(&'static [(&'static str, bool)]),
    /// Only these. All others are reported as what the program can be told to leave out; where it cannot, its backend
    /// takes that back.
    Harmless(&'static [&'static str]),
    /// Only these, by their whole names and with all that stands below them. What turns something off counts too: it may
    /// be a restriction that its user chose.
    Only {
        harmless: &'static [&'static str],
        /// Others that the program can be told to leave out.
        can_be_off: &'static [&'static str],
    },
}

/// Variables by which nothing is executed, and only services are reached that the program knows by itself: keys and models,
/// and on whose account. Where a project names an account, that one pays, and may see what is sent. A place in a cloud is
/// none of them: it is put into the name of a host as it stands. What others do to a program, to the runtime it is
/// written for and to all that it starts, nobody can list.
const HARMLESS_VARIABLES: [&str; 11] = [
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_MODEL",
    "BAILIAN_CODING_PLAN_API_KEY",
    "DASHSCOPE_API_KEY",
    "GEMINI_API_KEY",
    "GEMINI_MODEL",
    "GOOGLE_API_KEY",
    "GOOGLE_CLOUD_PROJECT",
    "OPENAI_API_KEY",
    "OPENAI_MODEL",
    "QWEN_MODEL",
];

/// The file of variables that belongs to no program and is read by many.
const PLAIN_VARIABLES: &str = ".env";
/// The longest file of variables that is looked at.
const VARIABLES_BYTES_MAX: u64 = 1 << 20;

impl ProjectSettings {
    /// Returns what the files in these folders would execute.
    pub(crate) fn programs(&self, folders: &[&Path]) -> Vec<ProjectProgram> {
        let mut found = Vec::new();
        for folder in folders {
            for file in self.files.iter().map(|file| folder.join(file)) {
                match user::look(&file) {
                    Ok(Some(settings)) => found.extend(self.in_settings(&settings, &file)),
                    Ok(None) => {}
                    Err(reason) => found.push(self.unreadable("settings", &file, &reason)),
                }
            }
            for file in self.variables.iter().map(|file| folder.join(file)) {
                match strange_variables(&file) {
                    Ok(names) => found.extend(self.in_variables(&names, &file)),
                    Err(reason) => found.push(self.unreadable("variables", &file, &reason)),
                }
            }
        }
        found
    }

    fn in_variables(&self, names: &[String], file: &Path) -> Vec<ProjectProgram> {
        let found = names.iter().map(|name| ProjectProgram {
            file: file.to_owned(),
            says: format!("{}, variable: {name}", self.program),
            is_program: true,
            can_be_off: false,
            unread: None,
            excerpts: vec![excerpt::variable(file, name)],
        });
        found.collect()
    }

    /// What cannot be read here may still be read by the program, and may execute anything.
    fn unreadable(&self, what: &str, file: &Path, reason: &str) -> ProjectProgram {
        let can_be_off = match &self.keys {
            Keys::Except(keys) => what == "settings" && keys.iter().all(|(_, can_be_off)| *can_be_off),
            Keys::Harmless(_) => what == "settings",
            Keys::Only { .. } => false,
        };
        ProjectProgram {
            file: file.to_owned(),
            says: format!("{}, {what} that could not be read: {reason}", self.program),
            is_program: false,
            can_be_off,
            unread: Some(reason.to_owned()),
            excerpts: Vec::new(),
        }
    }

    /// Refuses variables in a file of the program's own that stands neither in the project nor in its user's home: no
    /// trust in the project covers it.
    pub(crate) fn check_above(&self, spec: &RunSpec, home: Option<&Path>) -> Result<(), String> {
        let within = user::upward(&spec.directory, &spec.project);
        let above =
            ancestors(&spec.directory).into_iter().filter(|folder| !within.contains(&folder.as_path()));
        for folder in above.filter(|folder| !is_home(folder, home)) {
            for file in self.variables.iter().map(|file| folder.join(file)) {
                let names = strange_variables(&file)?;
                if !names.is_empty() {
                    let (file, names) = (file.display(), names.join(", "));
                    return Err(format!(
                        "{} would follow {file}, which belongs neither to the project nor to you, and sets {names}",
                        self.program
                    ));
                }
            }
        }
        Ok(())
    }

    fn in_settings(&self, settings: &Value, file: &Path) -> Vec<ProjectProgram> {
        let program = |key: &str, value: &Value, can_be_off: bool| ProjectProgram {
            file: file.to_owned(),
            says: format!("{}, {key}: {value}", self.program),
            is_program: false,
            can_be_off,
            unread: None,
            excerpts: vec![excerpt::setting(file, key, value)],
        };
        match &self.keys {
            Keys::Except(keys) => {
                let found = keys.iter().filter_map(|(key, can_be_off)| {
                    let value = key.split('.').fold(settings, |value, part| &value[part]);
                    (!is_empty(value)).then(|| program(key, value, *can_be_off))
                });
                found.collect()
            }
            Keys::Harmless(keys) => {
                let all = settings.as_object().into_iter().flatten();
                let others = all.filter(|(key, value)| !keys.contains(&key.as_str()) && !is_empty(value));
                others.map(|(key, value)| program(key, value, true)).collect()
            }
            Keys::Only { harmless, can_be_off } => {
                let others = unlisted(settings, "", harmless);
                let off = |name: &String| can_be_off.contains(&name.as_str());
                others.iter().map(|(name, value)| program(name, value, off(name))).collect()
            }
        }
    }
}

/// A home may be named by a link.
pub(crate) fn is_home(folder: &Path, home: Option<&Path>) -> bool {
    let Some(home) = home else { return false };
    folder == home
        || home.canonicalize().is_ok_and(|home| folder.canonicalize().is_ok_and(|real| real == home))
}

/// Settings that send or write something, unless they are false.
const HARMLESS_IF_OFF: [&str; 5] = [
    "general.checkpointing.enabled",
    "memory.enableManagedAutoMemory",
    "privacy.usageStatisticsEnabled",
    "telemetry.enabled",
    "telemetry.logPrompts",
];

/// Returns the settings that a list has neither by their own name nor by that of what they stand below.
fn unlisted<'a>(settings: &'a Value, above: &str, listed: &[&str]) -> Vec<(String, &'a Value)> {
    let mut found = Vec::new();
    for (key, value) in settings.as_object().into_iter().flatten() {
        let name = format!("{above}{key}");
        // A key with a point would pass for one below another.
        let is_listed = !key.contains('.') && listed.contains(&name.as_str());
        let below = format!("{name}.");
        match value {
            _ if is_listed => {}
            Value::Null => {}
            Value::Bool(false) if !key.contains('.') && HARMLESS_IF_OFF.contains(&name.as_str()) => {}
            Value::Object(members) if members.is_empty() => {}
            Value::Object(_)
                if listed.iter().chain(&HARMLESS_IF_OFF).any(|known| known.starts_with(&below)) =>
            {
                found.extend(unlisted(value, &below, listed));
            }
            _ => found.push((name, value)),
        }
    }
    found
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(true) | Value::Number(_) => false,
    }
}

/// Returns the names of the variables, other than harmless ones, that a program would find in the file `.env` of the
/// directory or of any above it. What stands in its user's home is its user's own.
pub(crate) fn plain_variables(directory: &str, home: Option<&Path>) -> Result<Vec<String>, String> {
    let folders = ancestors(directory).into_iter().filter(|folder| !is_home(folder, home));
    let mut names = Vec::new();
    for folder in folders {
        names.extend(strange_variables(&folder.join(PLAIN_VARIABLES))?);
    }
    names.sort();
    names.dedup();
    Ok(names)
}

/// Has a program of Gemini's family leave variables out of files `.env`, beside those that its settings name already. Where
/// they name any, those that it leaves out by itself no longer count, so they are named too.
pub(crate) fn exclude_variables(settings: &mut Map<String, Value>, usual: &[&str], names: &[String]) {
    let advanced = user::section(settings, "advanced");
    let known = advanced.get("excludedEnvVars").and_then(Value::as_array).cloned().unwrap_or_default();
    let added = usual.iter().copied().chain(names.iter().map(String::as_str)).map(Value::from);
    advanced.insert("excludedEnvVars".to_owned(), known.into_iter().chain(added).collect());
}

/// Returns a directory and all above it, by its name and by where it really is: programs differ in which they follow.
pub(crate) fn ancestors(directory: &str) -> Vec<PathBuf> {
    let named = Path::new(directory);
    let real = std::fs::canonicalize(named).unwrap_or_else(|_| named.to_owned());
    let mut all: Vec<PathBuf> = named.ancestors().chain(real.ancestors()).map(Path::to_owned).collect();
    all.sort();
    all.dedup();
    all
}

/// Returns the names of the variables in a file that are not known to be harmless. What is not there, what no program of
/// this user can read, and a folder have none.
fn strange_variables(file: &Path) -> Result<Vec<String>, String> {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    match plain_file::bytes(file, VARIABLES_BYTES_MAX) {
        Ok(bytes) => Ok(strange_names(&String::from_utf8_lossy(&bytes))),
        Err(_) if file.is_dir() => Ok(Vec::new()),
        Err(error) if matches!(error.kind(), NotFound | NotADirectory | PermissionDenied) => Ok(Vec::new()),
        Err(error) => Err(format!("{}: {error}", file.display())),
    }
}

/// Returns all that may be the name of a variable to whoever reads such files, except for harmless ones: also what is part
/// of a value of several lines.
fn strange_names(text: &str) -> Vec<String> {
    let is_blank = |letter: char| letter.is_whitespace() || letter == '\u{feff}';
    // Even an end of line may stand before the sign.
    let joined = text.split('=').map(|part| part.trim_end_matches(is_blank)).collect::<Vec<_>>().join("=");
    let name = |line: &str| {
        let line = line.trim_start_matches(is_blank);
        let exported = line.strip_prefix("export").filter(|rest| rest.starts_with(is_blank));
        let line = exported.unwrap_or(line).trim_start_matches(is_blank);
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || "_.-".contains(letter);
        let end = line.find(|letter| !is_part(letter)).unwrap_or(line.len());
        let (name, rest) = line.split_at(end);
        (!name.is_empty() && rest.starts_with(['=', ':'])).then(|| name.to_owned())
    };
    let lines = joined.split(['\n', '\r', '\u{2028}', '\u{2029}']);
    lines.filter_map(name).filter(|name| !HARMLESS_VARIABLES.contains(&name.as_str())).collect()
}

/// Returns the programs in folders of a project's that are loaded for being there.
pub(crate) fn loaded(
    program: &str,
    folders: &[&Path],
    within: &[&str],
    endings: &[&str],
) -> Vec<ProjectProgram> {
    let all = folders.iter().flat_map(|folder| within.iter().map(|within| folder.join(within)));
    let is_known = |ending: &OsStr| endings.iter().any(|known| ending == *known);
    let files = all.flat_map(|folder| user::files(&folder, is_known));
    let mut found: Vec<ProjectProgram> = files
        .map(|file| {
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let says = format!("{program}, plug-in: {name}");
            let why = "the program loads the file for being there";
            let excerpts = vec![Excerpt { line: None, text: "the whole file".to_owned(), why }];
            ProjectProgram { file, says, is_program: true, can_be_off: false, unread: None, excerpts }
        })
        .collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: ProjectSettings = ProjectSettings {
        program: "bird",
        files: &[".bird/settings.json"],
        keys: Keys::Only { harmless: &["theme", "tools.exclude"], can_be_off: &["hooks"] },
        variables: &[".bird/.env"],
    };

    #[test]
    fn what_would_be_executed_is_named_with_its_file() {
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir(place.path().join(".bird")).unwrap();
        let file = place.path().join(".bird/settings.json");
        std::fs::write(&file, r#"{"hooks": {"a": 1}, "tools": {"discoveryCommand": "x"}, "theme": "dark"}"#)
            .unwrap();
        let variables = "OPENAI_API_KEY=1\nexport OPENAI_BASE_URL = http://x\n";
        std::fs::write(place.path().join(".bird/.env"), variables).unwrap();
        let found = SETTINGS.programs(&[place.path()]);
        let said: Vec<(&str, bool)> =
            found.iter().map(|program| (program.says.as_str(), program.can_be_off)).collect();
        assert_eq!(
            said,
            [
                ("bird, hooks: {\"a\":1}", true),
                ("bird, tools.discoveryCommand: \"x\"", false),
                ("bird, variable: OPENAI_BASE_URL", false)
            ]
        );
        std::fs::write(&file, r#"{"hooks": {}, "theme": "dark"}"#).unwrap();
        std::fs::remove_file(place.path().join(".bird/.env")).unwrap();
        assert_eq!(SETTINGS.programs(&[place.path()]), []);
    }

    #[test]
    fn what_is_only_turned_off_needs_no_trust() {
        let said = |settings: Value| {
            let found = unlisted(&settings, "", &["theme"]);
            found.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
        };
        let off = serde_json::json!({"telemetry": {"enabled": false}, "privacy": {"usageStatisticsEnabled": false}});
        assert_eq!(said(off), Vec::<String>::new());
        let on =
            serde_json::json!({"telemetry": {"enabled": true, "target": "x"}, "telemetry.enabled": false});
        assert_eq!(said(on), ["telemetry.enabled", "telemetry.target", "telemetry.enabled"]);
        assert_eq!(said(serde_json::json!({"tools": {"sandbox": false}})), ["tools"]);
    }

    #[test]
    fn what_cannot_be_read_may_execute_anything() {
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir(place.path().join(".bird")).unwrap();
        std::fs::write(place.path().join(".bird/settings.json"), "{{").unwrap();
        let long = vec![b' '; usize::try_from(VARIABLES_BYTES_MAX).unwrap() + 1];
        std::fs::write(place.path().join(".bird/.env"), long).unwrap();
        let found = SETTINGS.programs(&[place.path()]);
        let said: Vec<(&str, bool)> =
            found.iter().map(|program| (program.says.as_str(), program.can_be_off)).collect();
        let settings = "bird, settings that could not be read: it is no JSON (line 1, column 2)";
        assert_eq!(said[0], (settings, false));
        assert!(said[1].0.starts_with("bird, variables that could not be read: "), "{said:?}");
        assert_eq!((said.len(), said[1].1), (2, false));
    }

    #[test]
    fn every_name_that_some_reader_finds_in_a_file_of_variables_is_found() {
        let text = "\u{feff}# A=1\nexport  B = 1\rC: x\u{2028}D=\"\nE=2\n\"\nF\n=3\nexport=4\n\
            GEMINI_API_KEY=k\nG.h-i=5\nplain words\nhttp//x?y=1\n=6\n";
        assert_eq!(strange_names(text), ["B", "C", "D", "E", "F", "export", "G.h-i"]);
    }

    #[test]
    fn a_place_in_a_cloud_may_be_the_host_of_a_stranger() {
        let text = "GOOGLE_CLOUD_PROJECT=birds\nGOOGLE_CLOUD_LOCATION=host.example/x\n";
        assert_eq!(strange_names(text), ["GOOGLE_CLOUD_LOCATION"]);
    }

    #[test]
    fn variables_are_left_out_beside_those_that_are_already() {
        let excluded = |settings: Value| {
            let mut settings = settings.as_object().cloned().unwrap();
            exclude_variables(&mut settings, &["USUAL"], &["STRANGE".to_owned()]);
            Value::Object(settings)
        };
        let advanced = serde_json::json!({"advanced": {"excludedEnvVars": ["KNOWN"], "other": 1}});
        assert_eq!(
            excluded(advanced),
            serde_json::json!({"advanced": {"excludedEnvVars": ["KNOWN", "USUAL", "STRANGE"], "other": 1}})
        );
        let wrong = serde_json::json!({"advanced": "all", "theme": "dark"});
        assert_eq!(
            excluded(wrong),
            serde_json::json!({"advanced": {"excludedEnvVars": ["USUAL", "STRANGE"]}, "theme": "dark"})
        );
    }

    #[test]
    fn variables_are_looked_for_in_all_folders_above_but_not_at_home() {
        let place = tempfile::tempdir().unwrap();
        let home = place.path().canonicalize().unwrap();
        let project = home.join("work/bird");
        std::fs::create_dir_all(project.join(".git")).unwrap();
        std::fs::create_dir(home.join("work/.bird")).unwrap();
        std::fs::write(home.join(".env"), "OF_THE_USER=1").unwrap();
        std::fs::write(home.join("work/.env"), b"ABOVE=\xff\nB=1").unwrap();
        std::fs::write(project.join(".env"), "B=1\nOPENAI_MODEL=x").unwrap();
        let directory = project.display().to_string();
        assert_eq!(plain_variables(&directory, Some(&home)).unwrap(), ["ABOVE", "B"]);
        let all = plain_variables(&directory, None).unwrap();
        assert!(all.contains(&"OF_THE_USER".to_owned()), "{all:?}");
        let mut spec = crate::sample::spec("gemini");
        (spec.directory, spec.project) = (directory.clone(), directory.clone());
        assert_eq!(SETTINGS.check_above(&spec, Some(&home)), Ok(()));
        std::fs::write(home.join("work/.bird/.env"), "GEMINI_MODEL=x").unwrap();
        assert_eq!(SETTINGS.check_above(&spec, Some(&home)), Ok(()));
        std::fs::write(home.join("work/.bird/.env"), "LEADS=x").unwrap();
        assert!(SETTINGS.check_above(&spec, Some(&home)).unwrap_err().contains("LEADS"));
        let long = vec![b' '; usize::try_from(VARIABLES_BYTES_MAX).unwrap() + 1];
        std::fs::write(project.join(".env"), long).unwrap();
        assert!(plain_variables(&directory, Some(&home)).unwrap_err().contains("larger than"));
    }

    #[test]
    fn of_a_list_of_harmless_settings_all_others_count() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("b.json"), r#"{"theme": "dark", "strange": 1}"#).unwrap();
        let settings = ProjectSettings {
            program: "bird",
            files: &["b.json"],
            keys: Keys::Harmless(&["theme"]),
            variables: &[],
        };
        let found = settings.programs(&[place.path()]);
        assert_eq!((found.len(), found[0].says.as_str()), (1, "bird, strange: 1"));
    }

    #[test]
    fn of_a_list_of_whole_names_all_others_count_at_every_depth() {
        let settings = serde_json::json!({
            "ui": {"theme": {"deep": 1}},
            "model": {"name": "large", "baseUrl": "http://x"},
            "model.name": "large",
            "tools": {"sandbox": false, "exclude": []},
            "context": "all",
            "hooks": {},
            "ide": null
        });
        let listed = ["ui", "model.name", "tools.exclude", "context.fileName"];
        let names: Vec<String> = unlisted(&settings, "", &listed).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["model.baseUrl", "model.name", "tools.sandbox", "context"]);
    }
}
