//! Finds what files of a project would make a vendor's program execute, or where they would make it send keys. Only
//! inspects them: the project's trust decides whether they may.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use domain::run::RunSpec;
use serde_json::{Map, Value};

use crate::contract::{Excerpt, ProjectExecutable};
use crate::excerpt;
use crate::user_environment;
use system_files::regular_file;

/// Settings of a project that one program reads.
pub(crate) struct ProjectConfigFiles {
    pub(crate) program: &'static str,
    /// Files below a folder of the project.
    pub(crate) files: &'static [&'static str],
    pub(crate) keys: SafeKeys,
    /// The program's own files of variables, below a folder of the project or any above it.
    pub(crate) variables: &'static [&'static str],
}

/// Which settings execute nothing.
pub(crate) enum SafeKeys {
    /// All but these; each with whether the program can be configured to ignore it.
    AllExcept(&'static [(&'static str, bool)]),
    /// Only these. All others are reported as settings that the program can ignore; the backend of a program that
    /// cannot overrides that.
    Listed(&'static [&'static str]),
    /// Only these, by their whole names and with everything below them. Settings that turn something off count too:
    /// they may lift a restriction that the user chose.
    ListedByPath {
        safe: &'static [&'static str],
        /// Others that the program can be configured to ignore.
        can_be_disabled: &'static [&'static str],
    },
}

/// Variables that execute nothing, and with which the program reaches only services that it knows by itself: keys,
/// models, and the account to use. If a project names an account, that account pays, and may see what is sent. A
/// location in a cloud is not among them: it is inserted into a host name as it is. The effects of other variables on
/// a program, on its runtime and on everything that it starts cannot be listed.
const SAFE_VARIABLES: [&str; 11] = [
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
const DOTENV_FILE: &str = ".env";
/// The longest file of variables that is read.
const VARIABLES_BYTES_MAX: u64 = 1 << 20;

impl ProjectConfigFiles {
    /// Returns what the files in these folders would execute.
    pub(crate) fn find_executables(&self, folders: &[&Path]) -> Vec<ProjectExecutable> {
        let mut found = Vec::new();
        for folder in folders {
            for file in self.files.iter().map(|file| folder.join(file)) {
                match user_environment::try_read_settings(&file) {
                    Ok(Some(settings)) => found.extend(self.in_settings(&settings, &file)),
                    Ok(None) => {}
                    Err(reason) => found.push(self.unreadable("settings", &file, &reason)),
                }
            }
            for file in self.variables.iter().map(|file| folder.join(file)) {
                match risky_variables(&file) {
                    Ok(names) => found.extend(self.in_variables(&names, &file)),
                    Err(reason) => found.push(self.unreadable("variables", &file, &reason)),
                }
            }
        }
        found
    }

    fn in_variables(&self, names: &[String], file: &Path) -> Vec<ProjectExecutable> {
        let found = names.iter().map(|name| ProjectExecutable {
            file: file.to_owned(),
            description: format!("{}, variable: {name}", self.program),
            content_is_executed: true,
            can_be_disabled: false,
            read_error: None,
            excerpts: vec![excerpt::for_variable(file, name)],
        });
        found.collect()
    }

    /// A file that cannot be read here may still be read by the program, and may execute anything.
    fn unreadable(&self, what: &str, file: &Path, reason: &str) -> ProjectExecutable {
        let can_be_off = match &self.keys {
            SafeKeys::AllExcept(keys) => what == "settings" && keys.iter().all(|(_, can_be_off)| *can_be_off),
            SafeKeys::Listed(_) => what == "settings",
            SafeKeys::ListedByPath { .. } => false,
        };
        ProjectExecutable {
            file: file.to_owned(),
            description: format!("{}, {what} that could not be read: {reason}", self.program),
            content_is_executed: false,
            can_be_disabled: can_be_off,
            read_error: Some(reason.to_owned()),
            excerpts: Vec::new(),
        }
    }

    /// Refuses variables in a file of the program's own that is neither in the project nor in its user's home: trust
    /// in the project does not cover it.
    pub(crate) fn check_ancestors(&self, spec: &RunSpec, home: Option<&Path>) -> Result<(), String> {
        let within = user_environment::directories_up_to_root(&spec.directory, &spec.project);
        let above =
            ancestors(&spec.directory).into_iter().filter(|folder| !within.contains(&folder.as_path()));
        for folder in above.filter(|folder| !is_home(folder, home)) {
            for file in self.variables.iter().map(|file| folder.join(file)) {
                let names = risky_variables(&file)?;
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

    fn in_settings(&self, settings: &Value, file: &Path) -> Vec<ProjectExecutable> {
        let program = |key: &str, value: &Value, can_be_off: bool| ProjectExecutable {
            file: file.to_owned(),
            description: format!("{}, {key}: {value}", self.program),
            content_is_executed: false,
            can_be_disabled: can_be_off,
            read_error: None,
            excerpts: vec![excerpt::for_setting(file, key, value)],
        };
        match &self.keys {
            SafeKeys::AllExcept(keys) => {
                let found = keys.iter().filter_map(|(key, can_be_off)| {
                    let value = key.split('.').fold(settings, |value, part| &value[part]);
                    (!is_empty(value)).then(|| program(key, value, *can_be_off))
                });
                found.collect()
            }
            SafeKeys::Listed(keys) => {
                let all = settings.as_object().into_iter().flatten();
                let others = all.filter(|(key, value)| !keys.contains(&key.as_str()) && !is_empty(value));
                others.map(|(key, value)| program(key, value, true)).collect()
            }
            SafeKeys::ListedByPath { safe, can_be_disabled } => {
                let others = unlisted(settings, "", safe);
                let off = |name: &String| can_be_disabled.contains(&name.as_str());
                others.iter().map(|(name, value)| program(name, value, off(name))).collect()
            }
        }
    }
}

/// Returns whether a folder is the user's home, which may be named by a link.
pub(crate) fn is_home(folder: &Path, home: Option<&Path>) -> bool {
    let Some(home) = home else { return false };
    folder == home
        || home.canonicalize().is_ok_and(|home| folder.canonicalize().is_ok_and(|real| real == home))
}

/// Settings that send or write something, unless they are false.
const SAFE_IF_OFF: [&str; 5] = [
    "general.checkpointing.enabled",
    "memory.enableManagedAutoMemory",
    "privacy.usageStatisticsEnabled",
    "telemetry.enabled",
    "telemetry.logPrompts",
];

/// Returns the settings that a list has neither by their own name nor by that of a parent.
fn unlisted<'a>(settings: &'a Value, above: &str, listed: &[&str]) -> Vec<(String, &'a Value)> {
    let mut found = Vec::new();
    for (key, value) in settings.as_object().into_iter().flatten() {
        let name = format!("{above}{key}");
        // A key with a dot would pass for one below another.
        let is_listed = !key.contains('.') && listed.contains(&name.as_str());
        let below = format!("{name}.");
        match value {
            _ if is_listed => {}
            Value::Null => {}
            Value::Bool(false) if !key.contains('.') && SAFE_IF_OFF.contains(&name.as_str()) => {}
            Value::Object(members) if members.is_empty() => {}
            Value::Object(_) if listed.iter().chain(&SAFE_IF_OFF).any(|known| known.starts_with(&below)) => {
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

/// Returns the names of the variables, other than safe ones, that a program would find in the file `.env` of the
/// directory or of any above it. The one in its user's home is the user's own.
pub(crate) fn dotenv_variables(directory: &str, home: Option<&Path>) -> Result<Vec<String>, String> {
    let folders = ancestors(directory).into_iter().filter(|folder| !is_home(folder, home));
    let mut names = Vec::new();
    for folder in folders {
        names.extend(risky_variables(&folder.join(DOTENV_FILE))?);
    }
    names.sort();
    names.dedup();
    Ok(names)
}

/// Makes a program of Gemini's family ignore variables in `.env` files, in addition to those that its settings
/// already name. A list in the settings replaces the program's default one, so the defaults are added too.
pub(crate) fn exclude_variables(settings: &mut Map<String, Value>, usual: &[&str], names: &[String]) {
    let advanced = user_environment::section(settings, "advanced");
    let known = advanced.get("excludedEnvVars").and_then(Value::as_array).cloned().unwrap_or_default();
    let added = usual.iter().copied().chain(names.iter().map(String::as_str)).map(Value::from);
    advanced.insert("excludedEnvVars".to_owned(), known.into_iter().chain(added).collect());
}

/// Returns a directory and all its ancestors, by name and by real path: programs differ in which they follow.
pub(crate) fn ancestors(directory: &str) -> Vec<PathBuf> {
    let path = Path::new(directory);
    let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mut all: Vec<PathBuf> = path.ancestors().chain(real.ancestors()).map(Path::to_owned).collect();
    all.sort();
    all.dedup();
    all
}

/// Returns the names of the variables in a file that are not known to be safe. A missing file, a file that no program
/// of this user can read, and a folder have none.
fn risky_variables(file: &Path) -> Result<Vec<String>, String> {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    match regular_file::read_bytes(file, VARIABLES_BYTES_MAX) {
        Ok(read_bytes) => Ok(risky_names(&String::from_utf8_lossy(&read_bytes))),
        Err(_) if file.is_dir() => Ok(Vec::new()),
        Err(error) if matches!(error.kind(), NotFound | NotADirectory | PermissionDenied) => Ok(Vec::new()),
        Err(error) => Err(format!("{}: {error}", file.display())),
    }
}

/// Returns everything that some reader of such files may take for the name of a variable, except safe ones; also
/// parts of a value of several lines.
fn risky_names(text: &str) -> Vec<String> {
    let is_blank = |character: char| character.is_whitespace() || character == '\u{feff}';
    // Even a line break may precede the equals sign.
    let joined = text.split('=').map(|part| part.trim_end_matches(is_blank)).collect::<Vec<_>>().join("=");
    let name = |line: &str| {
        let line = line.trim_start_matches(is_blank);
        let exported = line.strip_prefix("export").filter(|rest| rest.starts_with(is_blank));
        let line = exported.unwrap_or(line).trim_start_matches(is_blank);
        let is_part = |character: char| character.is_ascii_alphanumeric() || "_.-".contains(character);
        let end = line.find(|character| !is_part(character)).unwrap_or(line.len());
        let (name, rest) = line.split_at(end);
        (!name.is_empty() && rest.starts_with(['=', ':'])).then(|| name.to_owned())
    };
    let lines = joined.split(['\n', '\r', '\u{2028}', '\u{2029}']);
    lines.filter_map(name).filter(|name| !SAFE_VARIABLES.contains(&name.as_str())).collect()
}

/// Returns the plug-ins in folders of a project that a program loads because they are there.
pub(crate) fn loaded_plugins(
    program: &str,
    folders: &[&Path],
    within: &[&str],
    endings: &[&str],
) -> Vec<ProjectExecutable> {
    let all = folders.iter().flat_map(|folder| within.iter().map(|within| folder.join(within)));
    let is_known = |ending: &OsStr| endings.iter().any(|known| ending == *known);
    let files = all.flat_map(|folder| user_environment::files_with_extension(&folder, is_known));
    let mut found: Vec<ProjectExecutable> = files
        .map(|file| {
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let says = format!("{program}, plug-in: {name}");
            let why = "the program loads the file for being there";
            let excerpts = vec![Excerpt { line: None, text: "the whole file".to_owned(), reason: why }];
            ProjectExecutable {
                file,
                description: says,
                content_is_executed: true,
                can_be_disabled: false,
                read_error: None,
                excerpts,
            }
        })
        .collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: ProjectConfigFiles = ProjectConfigFiles {
        program: "bird",
        files: &[".bird/settings.json"],
        keys: SafeKeys::ListedByPath { safe: &["theme", "tools.exclude"], can_be_disabled: &["hooks"] },
        variables: &[".bird/.env"],
    };

    #[test]
    fn executables_are_described_with_their_file() {
        let temp_dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(temp_dir.path().join(".bird")).unwrap();
        let file = temp_dir.path().join(".bird/settings.json");
        std::fs::write(&file, r#"{"hooks": {"a": 1}, "tools": {"discoveryCommand": "x"}, "theme": "dark"}"#)
            .unwrap();
        let variables = "OPENAI_API_KEY=1\nexport OPENAI_BASE_URL = http://x\n";
        std::fs::write(temp_dir.path().join(".bird/.env"), variables).unwrap();
        let found = SETTINGS.find_executables(&[temp_dir.path()]);
        let descriptions: Vec<(&str, bool)> =
            found.iter().map(|program| (program.description.as_str(), program.can_be_disabled)).collect();
        assert_eq!(
            descriptions,
            [
                ("bird, hooks: {\"a\":1}", true),
                ("bird, tools.discoveryCommand: \"x\"", false),
                ("bird, variable: OPENAI_BASE_URL", false)
            ]
        );
        std::fs::write(&file, r#"{"hooks": {}, "theme": "dark"}"#).unwrap();
        std::fs::remove_file(temp_dir.path().join(".bird/.env")).unwrap();
        assert_eq!(SETTINGS.find_executables(&[temp_dir.path()]), []);
    }

    #[test]
    fn settings_that_are_only_turned_off_need_no_trust() {
        let unlisted_names = |settings: Value| {
            let found = unlisted(&settings, "", &["theme"]);
            found.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
        };
        let off = serde_json::json!({"telemetry": {"enabled": false}, "privacy": {"usageStatisticsEnabled": false}});
        assert_eq!(unlisted_names(off), Vec::<String>::new());
        let on =
            serde_json::json!({"telemetry": {"enabled": true, "target": "x"}, "telemetry.enabled": false});
        assert_eq!(unlisted_names(on), ["telemetry.enabled", "telemetry.target", "telemetry.enabled"]);
        assert_eq!(unlisted_names(serde_json::json!({"tools": {"sandbox": false}})), ["tools"]);
    }

    #[test]
    fn unreadable_files_may_execute_anything() {
        let temp_dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(temp_dir.path().join(".bird")).unwrap();
        std::fs::write(temp_dir.path().join(".bird/settings.json"), "{{").unwrap();
        let long = vec![b' '; usize::try_from(VARIABLES_BYTES_MAX).unwrap() + 1];
        std::fs::write(temp_dir.path().join(".bird/.env"), long).unwrap();
        let found = SETTINGS.find_executables(&[temp_dir.path()]);
        let descriptions: Vec<(&str, bool)> =
            found.iter().map(|program| (program.description.as_str(), program.can_be_disabled)).collect();
        let settings = "bird, settings that could not be read: it is no JSON (line 1, column 2)";
        assert_eq!(descriptions[0], (settings, false));
        assert!(
            descriptions[1].0.starts_with("bird, variables that could not be read: "),
            "{descriptions:?}"
        );
        assert_eq!((descriptions.len(), descriptions[1].1), (2, false));
    }

    #[test]
    fn every_name_that_some_reader_finds_in_a_file_of_variables_is_found() {
        let text = "\u{feff}# A=1\nexport  B = 1\rC: x\u{2028}D=\"\nE=2\n\"\nF\n=3\nexport=4\n\
            GEMINI_API_KEY=k\nG.h-i=5\nplain words\nhttp//x?y=1\n=6\n";
        assert_eq!(risky_names(text), ["B", "C", "D", "E", "F", "export", "G.h-i"]);
    }

    #[test]
    fn a_cloud_location_may_be_a_foreign_host() {
        let text = "GOOGLE_CLOUD_PROJECT=birds\nGOOGLE_CLOUD_LOCATION=host.example/x\n";
        assert_eq!(risky_names(text), ["GOOGLE_CLOUD_LOCATION"]);
    }

    #[test]
    fn variables_are_excluded_in_addition_to_existing_ones() {
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
    fn variables_are_searched_in_all_ancestors_except_the_home() {
        let temp_dir = tempfile::tempdir().unwrap();
        let home = temp_dir.path().canonicalize().unwrap();
        let project = home.join("work/bird");
        std::fs::create_dir_all(project.join(".git")).unwrap();
        std::fs::create_dir(home.join("work/.bird")).unwrap();
        std::fs::write(home.join(".env"), "OF_THE_USER=1").unwrap();
        std::fs::write(home.join("work/.env"), b"ABOVE=\xff\nB=1").unwrap();
        std::fs::write(project.join(".env"), "B=1\nOPENAI_MODEL=x").unwrap();
        let directory = project.display().to_string();
        assert_eq!(dotenv_variables(&directory, Some(&home)).unwrap(), ["ABOVE", "B"]);
        let all = dotenv_variables(&directory, None).unwrap();
        assert!(all.contains(&"OF_THE_USER".to_owned()), "{all:?}");
        let mut spec = crate::test_fixtures::spec("gemini");
        (spec.directory, spec.project) = (directory.clone(), directory.clone());
        assert_eq!(SETTINGS.check_ancestors(&spec, Some(&home)), Ok(()));
        std::fs::write(home.join("work/.bird/.env"), "GEMINI_MODEL=x").unwrap();
        assert_eq!(SETTINGS.check_ancestors(&spec, Some(&home)), Ok(()));
        std::fs::write(home.join("work/.bird/.env"), "LEADS=x").unwrap();
        assert!(SETTINGS.check_ancestors(&spec, Some(&home)).unwrap_err().contains("LEADS"));
        let long = vec![b' '; usize::try_from(VARIABLES_BYTES_MAX).unwrap() + 1];
        std::fs::write(project.join(".env"), long).unwrap();
        assert!(dotenv_variables(&directory, Some(&home)).unwrap_err().contains("larger than"));
    }

    #[test]
    fn settings_outside_a_safe_list_count() {
        let temp_dir = tempfile::tempdir().unwrap();
        std::fs::write(temp_dir.path().join("b.json"), r#"{"theme": "dark", "strange": 1}"#).unwrap();
        let settings = ProjectConfigFiles {
            program: "bird",
            files: &["b.json"],
            keys: SafeKeys::Listed(&["theme"]),
            variables: &[],
        };
        let found = settings.find_executables(&[temp_dir.path()]);
        assert_eq!((found.len(), found[0].description.as_str()), (1, "bird, strange: 1"));
    }

    #[test]
    fn settings_outside_a_list_of_whole_names_count_at_every_depth() {
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
