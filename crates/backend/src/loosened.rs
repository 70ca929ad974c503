//! Settings of a program's user, or of a project, by which the program does without a question, or without its sandbox,
//! what it is asked for. Where they cannot be overruled, a run that shall be held to a permission is refused.

use std::path::PathBuf;

use domain::inherit::Inherited;
use domain::permission::{Level, Permission, Unenforceable};
use domain::run::RunSpec;
use serde_json::Value;

use crate::user::{self, User};

/// Looks for such settings, and returns the file that has them, or that cannot be read and may have them.
pub(crate) type LoosenedBy = fn(&RunSpec, &User<'_>) -> Option<PathBuf>;

/// Refuses a run that its user's settings would let do more than its agent may.
pub(crate) fn check(spec: &RunSpec, user: &User<'_>, loosened_by: LoosenedBy) -> Result<(), String> {
    if !is_demanded(spec) {
        return Ok(());
    }
    match loosened_by(spec, user) {
        None => Ok(()),
        Some(file) => Err(format!(
            "{} allows some uses of tools without a question, so that the permission of the agent cannot be enforced",
            file.display()
        )),
    }
}

/// Tells whether a run shall be refused rather than do more than its agent may. What its user's own rules allow is not more
/// where those rules count.
pub(crate) fn is_demanded(spec: &RunSpec) -> bool {
    let by_user = spec.setup.inherits(Inherited::Settings);
    holds_back(&spec.setup.permission) && spec.setup.unenforceable == Unenforceable::Refuse && !by_user
}

/// Tells whether a permission demands anything. One that allows everything does not.
fn holds_back(permission: &Permission) -> bool {
    let free =
        permission.level == Some(Level::Yolo) && permission.ask.is_empty() && permission.deny.is_empty();
    !permission.is_empty() && !free
}

/// Goose remembers what it need not ask about again.
pub(crate) fn goose(_spec: &RunSpec, user: &User<'_>) -> Option<PathBuf> {
    let file = user.folder("XDG_CONFIG_HOME", ".config")?.join("goose/permission.yaml");
    let Ok(text) = user::look_text(&file) else { return Some(file) };
    let text = text?;
    let mut lines = text.lines().map(str::trim).peekable();
    while let Some(line) = lines.next() {
        let Some(rest) = line.strip_prefix("always_allow:") else { continue };
        let listed = !matches!(rest.trim(), "" | "[]" | "null" | "~");
        if listed || lines.peek().is_some_and(|next| next.starts_with('-')) {
            return Some(file);
        }
    }
    None
}

/// Copilot remembers it by folder.
pub(crate) fn copilot(_spec: &RunSpec, user: &User<'_>) -> Option<PathBuf> {
    let file = user.folder("COPILOT_HOME", ".copilot")?.join("permissions-config.json");
    let Ok(settings) = user::look(&file) else { return Some(file) };
    let settings = settings?;
    let approves = |location: &Value| !location["tool_approvals"].as_array().is_none_or(Vec::is_empty);
    settings["locations"].as_object()?.values().any(approves).then_some(file)
}

/// Kimi Code begins every session in the mode of its settings, and has rules there.
pub(crate) fn kimi(_spec: &RunSpec, user: &User<'_>) -> Option<PathBuf> {
    const ASKING: [&str; 3] = ["default", "manual", "ask"];
    let file = user.folder("KIMI_CODE_HOME", ".kimi-code")?.join("config.toml");
    let Ok(text) = user::look_text(&file) else { return Some(file) };
    let Ok(settings) = toml::from_str::<Value>(&text?) else { return Some(file) };
    let mode = settings["default_permission_mode"].as_str();
    let loose = mode.is_some_and(|mode| !ASKING.contains(&mode))
        || settings["yolo"].as_bool() == Some(true)
        || !settings["permission"].is_null();
    loose.then_some(file)
}

/// Cursor executes unasked what a project allows. What its user allows is what it is without force.
pub(crate) fn cursor(spec: &RunSpec, _user: &User<'_>) -> Option<PathBuf> {
    let folders = user::upward(&spec.directory, &spec.project);
    folders.into_iter().map(|folder| folder.join(".cursor/cli.json")).find(|file| {
        let settings = user::settings(file);
        // What cannot be read may allow something.
        let allows = |settings: Value| !settings["permissions"]["allow"].as_array().is_none_or(Vec::is_empty);
        settings.map_or_else(|| file.exists(), allows)
    })
}

/// Codex executes commands that a rule allows outside of its sandbox.
pub(crate) fn codex(spec: &RunSpec, user: &User<'_>) -> Option<PathBuf> {
    const OF_THE_MACHINE: &str = "/etc/codex";
    let own = spec.setup.vendor_settings.as_ref().map(PathBuf::from);
    let users = own.or_else(|| user.folder("CODEX_HOME", ".codex"));
    let projects =
        user::upward(&spec.directory, &spec.project).into_iter().map(|folder| folder.join(".codex"));
    let folders = users.into_iter().chain(projects).chain([PathBuf::from(OF_THE_MACHINE)]);
    let mut rules = folders.flat_map(|folder| user::files(&folder.join("rules"), |ending| ending == "rules"));
    rules.find(|file| {
        // What cannot be read may allow something.
        user::text(file).is_none_or(|text| allows(&text))
    })
}

/// Tells whether a rule allows something, which one does that says nothing else.
fn allows(text: &str) -> bool {
    let lines = text.lines().map(|line| line.split_once('#').map_or(line, |(before, _)| before));
    let plain: String = lines.flat_map(str::chars).filter(|letter| !letter.is_whitespace()).collect();
    let restricts = |rule: &str| {
        let decided = rule.split_once("decision=").map(|(_, rest)| rest.trim_start_matches(['"', '\'']));
        decided.is_some_and(|word| word.starts_with("prompt") || word.starts_with("forbidden"))
    };
    plain.split("prefix_rule(").skip(1).any(|rule| !restricts(rule))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_of_codex_allows_unless_it_says_otherwise() {
        assert!(allows("prefix_rule(pattern = [\"git\"], decision = \"allow\")"));
        assert!(allows("prefix_rule(pattern = [\"git\"])"));
        assert!(allows(
            "prefix_rule(pattern=[\"a\"], decision=\"prompt\")\nprefix_rule(pattern=[\"prompt\"])"
        ));
        assert!(!allows("prefix_rule(\n  pattern = [\"git\"],\n  decision = 'forbidden',\n)"));
        assert!(!allows("# prefix_rule(pattern = [\"git\"])\n"));
    }

    #[test]
    fn what_goose_remembers_as_allowed_is_found() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join(".config/goose/permission.yaml");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        let user = User { home: Some(place.path()), value: &|_| None };
        let spec = crate::sample::spec("acp-goose");
        for (text, found) in [
            ("user:\n  always_allow: []\n  ask_before: [shell]\n", false),
            ("user:\n  always_allow:\n  ask_before:\n  - shell\n", false),
            ("user:\n  always_allow:\n  - shell\n", true),
            ("user:\n  always_allow: [shell]\n", true),
        ] {
            std::fs::write(&file, text).unwrap();
            assert_eq!(goose(&spec, &user).is_some(), found, "{text}");
        }
    }

    #[test]
    fn only_an_agent_that_is_held_back_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let rules = place.path().join(".codex/rules");
        std::fs::create_dir_all(&rules).unwrap();
        std::fs::write(rules.join("default.rules"), "prefix_rule(pattern = [\"git\"])\n").unwrap();
        let user = User { home: Some(place.path()), value: &|_| None };
        let mut spec = crate::sample::spec("codex");
        assert_eq!(check(&spec, &user, codex), Ok(()));
        spec.setup.permission.level = Some(Level::SafeEdit);
        assert!(check(&spec, &user, codex).unwrap_err().contains("default.rules"));
        spec.setup.unenforceable = Unenforceable::Warn;
        assert_eq!(check(&spec, &user, codex), Ok(()));
        spec.setup.unenforceable = Unenforceable::Refuse;
        spec.setup.permission.level = Some(Level::Yolo);
        assert_eq!(check(&spec, &user, codex), Ok(()));
    }
}
