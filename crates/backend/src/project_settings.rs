//! What files of a project would make a vendor's program execute, or whom they would make it send keys to. Only looked
//! at: whether they may is for the project's trust.

use std::path::Path;

use serde_json::Value;

use crate::contract::ProjectProgram;
use crate::user;

/// Settings of a project that one program reads.
pub(crate) struct ProjectSettings {
    pub(crate) program: &'static str,
    /// Files below a folder of the project.
    pub(crate) files: &'static [&'static str],
    pub(crate) keys: Keys,
    /// Files of variables, and how the names begin or end that decide whom the program talks to.
    pub(crate) variables: &'static [&'static str],
}

/// Which settings execute nothing.
pub(crate) enum Keys {
    /// All but these, and for each whether the program can be told to leave it out.
    Except(&'static [(&'static str, bool)]),
    /// Only these: the program can be told to leave all others out.
    Harmless(&'static [&'static str]),
    /// Only these, by their whole names and with all that stands below them. The program cannot be told to leave others
    /// out. What turns something off counts too: it may be a restriction that its user chose.
    Only(&'static [&'static str]),
}

/// Names of variables by which a program is led elsewhere.
const LEADING: [&str; 4] = ["BASE_URL", "_ENDPOINT", "_HOST", "NODE_OPTIONS"];

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
                match user::look_text(&file) {
                    Ok(text) => found.extend(self.in_variables(&text.unwrap_or_default(), &file)),
                    Err(reason) => found.push(self.unreadable("variables", &file, &reason)),
                }
            }
        }
        found
    }

    fn in_variables(&self, text: &str, file: &Path) -> Vec<ProjectProgram> {
        let names = text.lines().filter_map(leading);
        let found = names.map(|name| ProjectProgram {
            file: file.to_owned(),
            says: format!("{}, variable: {name}", self.program),
            is_program: true,
            can_be_off: false,
            unread: None,
        });
        found.collect()
    }

    /// What cannot be read here may still be read by the program, and may execute anything.
    fn unreadable(&self, what: &str, file: &Path, reason: &str) -> ProjectProgram {
        let can_be_off = match &self.keys {
            Keys::Except(keys) => what == "settings" && keys.iter().all(|(_, can_be_off)| *can_be_off),
            Keys::Harmless(_) => what == "settings",
            Keys::Only(_) => false,
        };
        ProjectProgram {
            file: file.to_owned(),
            says: format!("{}, {what} that could not be read: {reason}", self.program),
            is_program: false,
            can_be_off,
            unread: Some(reason.to_owned()),
        }
    }

    fn in_settings(&self, settings: &Value, file: &Path) -> Vec<ProjectProgram> {
        let program = |key: &str, value: &Value, can_be_off: bool| ProjectProgram {
            file: file.to_owned(),
            says: format!("{}, {key}: {value}", self.program),
            is_program: false,
            can_be_off,
            unread: None,
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
            Keys::Only(keys) => {
                let others = unlisted(settings, "", keys);
                others.iter().map(|(name, value)| program(name, value, false)).collect()
            }
        }
    }
}

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
            Value::Object(members) if members.is_empty() => {}
            Value::Object(_) if listed.iter().any(|known| known.starts_with(&below)) => {
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

/// Returns the name of the variable that a line sets, if that leads a program elsewhere.
fn leading(line: &str) -> Option<&str> {
    let line = line.trim();
    let (name, _) = line.strip_prefix("export ").unwrap_or(line).split_once('=')?;
    let name = name.trim();
    LEADING.iter().any(|end| name.ends_with(end)).then_some(name)
}

/// Returns the programs in folders of a project's that are loaded for being there.
pub(crate) fn loaded(
    program: &str,
    folders: &[&Path],
    within: &[&str],
    endings: &[&str],
) -> Vec<ProjectProgram> {
    let all = folders.iter().flat_map(|folder| within.iter().map(|within| folder.join(within)));
    let entries =
        all.flat_map(|folder| std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok));
    let files = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|ending| endings.iter().any(|known| ending == *known)));
    let mut found: Vec<ProjectProgram> = files
        .map(|file| {
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let says = format!("{program}, plug-in: {name}");
            ProjectProgram { file, says, is_program: true, can_be_off: true, unread: None }
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
        keys: Keys::Except(&[("hooks", true), ("tools.discoveryCommand", false)]),
        variables: &[".env"],
    };

    #[test]
    fn what_would_be_executed_is_named_with_its_file() {
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir(place.path().join(".bird")).unwrap();
        let file = place.path().join(".bird/settings.json");
        std::fs::write(&file, r#"{"hooks": {"a": 1}, "tools": {"discoveryCommand": "x"}, "theme": "dark"}"#)
            .unwrap();
        std::fs::write(place.path().join(".env"), "A=1\nexport OPENAI_BASE_URL = http://x\n").unwrap();
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
        std::fs::remove_file(place.path().join(".env")).unwrap();
        assert_eq!(SETTINGS.programs(&[place.path()]), []);
    }

    #[test]
    fn what_cannot_be_read_may_execute_anything() {
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir(place.path().join(".bird")).unwrap();
        std::fs::write(place.path().join(".bird/settings.json"), "{{").unwrap();
        std::fs::write(place.path().join(".env"), [0xff]).unwrap();
        let found = SETTINGS.programs(&[place.path()]);
        let said: Vec<(&str, bool)> =
            found.iter().map(|program| (program.says.as_str(), program.can_be_off)).collect();
        assert_eq!(
            said,
            [
                ("bird, settings that could not be read: it is no JSON (line 1, column 2)", false),
                ("bird, variables that could not be read: it is not valid UTF-8", false)
            ]
        );
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
