//! Writes rules that a person grants permanently into the user's own configuration. The file's comments and order do not change.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use domain::permission::Rule;
use rustix::fs::{FlockOperation, flock};
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike, Value};

use engine::{EngineError, config_section, env};

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WrittenRules {
    pub(super) file: PathBuf,
    /// `[agents.worker] permission = { allow = ["Bash(touch:*)"] }`
    pub(super) line: String,
}

/// Adds rules to the `allow` list of an agent in the user's configuration.
pub(super) fn allow_always(agent: &str, rules: &[String]) -> Result<WrittenRules, EngineError> {
    let folder = env::config_home().ok_or_else(|| {
        EngineError::usage("there is no folder for your configuration: HOME names no directory")
    })?;
    let file = folder.join("config.toml");
    let failed = |error: String| {
        EngineError::backend(format!("could not write {}: {error}", file.display()))
            .hint(format!("write it yourself: {} permission = …", config_section(agent)))
    };
    let rules: Vec<Rule> = rules
        .iter()
        .map(|rule| rule.parse())
        .collect::<Result<_, _>>()
        .map_err(|error: domain::permission::RuleError| failed(error.to_string()))?;
    let line = write(&folder, &file, agent, &rules).map_err(failed)?;
    Ok(WrittenRules { file, line })
}

fn write(folder: &Path, file: &Path, agent: &str, rules: &[Rule]) -> Result<String, String> {
    let text = |error: io::Error| error.to_string();
    fs::create_dir_all(folder).map_err(text)?;
    // The lock makes two commands that answer at the same time add their rules one after the other.
    let lock = File::open(folder).map_err(text)?;
    flock(&lock, FlockOperation::LockExclusive).map_err(|error| error.to_string())?;
    // If the file is a symbolic link, this replaces the link's target, not the link.
    let file = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let before = match fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error.to_string()),
    };
    let (after, line) = add_rules(&before, agent, rules)?;
    if after != before {
        replace(&file, &after).map_err(text)?;
    }
    Ok(line)
}

/// Writes a new file next to the old one and renames it, so that no reader sees an incomplete file.
fn replace(file: &Path, content: &str) -> io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    let staged = folder.join(format!(".config.toml.{}", std::process::id()));
    let written = (|| {
        // The configuration may hold secrets, so no other user may read the new file before it has the old file's mode.
        let mut new = File::options().write(true).create(true).truncate(true).mode(0o600).open(&staged)?;
        new.write_all(content.as_bytes())?;
        if let Ok(metadata) = fs::metadata(file) {
            new.set_permissions(metadata.permissions())?;
        }
        new.sync_all()?;
        fs::rename(&staged, file)
    })();
    if written.is_err() {
        // The new file may not exist. The caller needs the first error.
        let _ = fs::remove_file(&staged);
    }
    written
}

/// Returns the text of a configuration with rules added to `[agents.NAME] permission`, and the resulting line.
fn add_rules(text: &str, agent: &str, rules: &[Rule]) -> Result<(String, String), String> {
    let mut document: DocumentMut =
        text.parse().map_err(|error: toml_edit::TomlError| error.message().to_owned())?;
    let agents = table_in(document.as_table_mut(), "agents", Table::new())?;
    let section = table_in(agents, agent, Table::new())?;
    let permission = section.entry("permission").or_insert_with(|| Item::Value(InlineTable::new().into()));
    if let Some(level) = permission.as_str().map(ToOwned::to_owned) {
        let mut table = InlineTable::new();
        table.insert("level", level.into());
        *permission = Item::Value(table.into());
    }
    let permission = permission.as_table_like_mut().ok_or("permission is neither a level nor a table")?;
    let allow = permission.entry("allow").or_insert_with(|| Item::Value(Array::new().into()));
    let allow = allow.as_array_mut().ok_or("permission.allow is not a list")?;
    for rule in rules {
        if !allow.iter().any(|known| known.as_str() == Some(rule.spelling())) {
            allow.push(rule.spelling());
        }
    }
    let allowed: Vec<String> =
        allow.iter().filter_map(Value::as_str).map(|rule| format!("{rule:?}")).collect();
    let line = format!("{} permission.allow = [{}]", config_section(agent), allowed.join(", "));
    Ok((document.to_string(), line))
}

/// Returns the table of a key, which is created if it is missing.
fn table_in<'a>(
    parent: &'a mut dyn TableLike,
    key: &str,
    mut missing: Table,
) -> Result<&'a mut dyn TableLike, String> {
    // `[agents]` without entries of its own needs no header.
    missing.set_implicit(key == "agents");
    let item = parent.entry(key).or_insert(Item::Table(missing));
    item.as_table_like_mut().ok_or_else(|| format!("{key} is not a table"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(text: &str) -> String {
        let rules = ["Bash(touch:*)", "WebSearch"].map(|rule| rule.parse().unwrap());
        match add_rules(text, "worker", &rules) {
            Ok((after, line)) => format!("{after}-> {line}"),
            Err(error) => format!("error: {error}"),
        }
    }

    #[test]
    fn rules_are_added_to_what_a_section_has() {
        insta::assert_snapshot!(added(""), @r#"
        [agents.worker]
        permission = { allow = ["Bash(touch:*)", "WebSearch"] }
        -> [agents.worker] permission.allow = ["Bash(touch:*)", "WebSearch"]
        "#);
        let text = "# mine\n[run]\nslots = 4\n\n[agents.worker]\npermission = \"read-only\" # for now\n";
        insta::assert_snapshot!(added(text), @r#"
        # mine
        [run]
        slots = 4

        [agents.worker]
        permission = { level = "read-only", allow = ["Bash(touch:*)", "WebSearch"] }
        -> [agents.worker] permission.allow = ["Bash(touch:*)", "WebSearch"]
        "#);
        let text = "[agents.worker.permission]\nallow = [\n  \"WebSearch\", # docs\n]\ndeny = [\"Edit\"]\n";
        insta::assert_snapshot!(added(text), @r#"
        [agents.worker.permission]
        allow = [
          "WebSearch", "Bash(touch:*)", # docs
        ]
        deny = ["Edit"]
        -> [agents.worker] permission.allow = ["WebSearch", "Bash(touch:*)"]
        "#);
        let twice = add_rules(text, "worker", &["WebSearch".parse().unwrap()]).unwrap().0;
        assert_eq!(twice, text);
    }

    #[test]
    fn a_configuration_of_another_shape_is_left_alone() {
        assert_eq!(added("agents = 3"), "error: agents is not a table");
        assert_eq!(added("agents.worker.permission.allow = \"x\""), "error: permission.allow is not a list");
        assert!(added("[agents").starts_with("error: "), "{}", added("[agents"));
    }
}
