//! Finds tools about which goose would not ask.

use std::path::PathBuf;

use domain::run::RunSpec;

use crate::user_environment::{self, UserEnvironment};

/// Goose stores the tools that it need not ask about again.
pub(super) fn find_allowed_tools(_spec: &RunSpec, user: &UserEnvironment<'_>) -> Option<PathBuf> {
    let file = user.folder("XDG_CONFIG_HOME", ".config")?.join("goose/permission.yaml");
    let Ok(text) = user_environment::try_read_text(&file) else { return Some(file) };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_that_goose_stores_as_allowed_are_found() {
        let temp_dir = tempfile::tempdir().unwrap();
        let file = temp_dir.path().join(".config/goose/permission.yaml");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        let user = UserEnvironment { home: Some(temp_dir.path()), variable: &|_| None };
        let spec = crate::test_fixtures::spec("acp-goose");
        for (text, found) in [
            ("user:\n  always_allow: []\n  ask_before: [shell]\n", false),
            ("user:\n  always_allow:\n  ask_before:\n  - shell\n", false),
            ("user:\n  always_allow:\n  - shell\n", true),
            ("user:\n  always_allow: [shell]\n", true),
        ] {
            std::fs::write(&file, text).unwrap();
            assert_eq!(find_allowed_tools(&spec, &user).is_some(), found, "{text}");
        }
    }
}
