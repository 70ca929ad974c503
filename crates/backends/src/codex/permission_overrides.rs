//! Finds rules with which Codex would execute commands outside of its sandbox.

use std::path::PathBuf;

use domain::run::RunSpec;

use crate::user_environment::{self, UserEnvironment};

/// Codex executes commands that a rule allows outside of its sandbox.
pub(super) fn find_allowing_rules(spec: &RunSpec, user: &UserEnvironment<'_>) -> Option<PathBuf> {
    const SYSTEM_FOLDER: &str = "/etc/codex";
    let own = spec.setup.vendor_settings.as_ref().map(PathBuf::from);
    let users = own.or_else(|| user.folder("CODEX_HOME", ".codex"));
    let projects = user_environment::directories_up_to_root(&spec.directory, &spec.project)
        .into_iter()
        .map(|folder| folder.join(".codex"));
    let folders = users.into_iter().chain(projects).chain([PathBuf::from(SYSTEM_FOLDER)]);
    let mut rules = folders.flat_map(|folder| {
        user_environment::files_with_extension(&folder.join("rules"), |ending| ending == "rules")
    });
    rules.find(|file| {
        // A file that cannot be read may allow something.
        user_environment::read_text(file).is_none_or(|text| allows(&text))
    })
}

/// Returns whether a rule allows something, as a rule without a decision does.
fn allows(text: &str) -> bool {
    let lines = text.lines().map(|line| line.split_once('#').map_or(line, |(before, _)| before));
    let plain: String = lines.flat_map(str::chars).filter(|character| !character.is_whitespace()).collect();
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
}
