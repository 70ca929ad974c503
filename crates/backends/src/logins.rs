//! Determines, without starting anything, whether a vendor's program is logged in: by the variables and files that
//! hold keys. Only checks that they exist, never which key they hold.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::user_environment::UserEnvironment;

/// The most of a file that is searched for a login.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Where a login may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginLocation {
    /// A variable with a key.
    Variable(&'static str),
    /// A file below the folder that a variable names, otherwise below this folder of the user's home.
    File { variable: &'static str, folder: &'static str, name: &'static str },
    /// As `File`, for a file that the program also writes without a login: it counts only if it contains one of these
    /// words.
    FileWith {
        variable: &'static str,
        folder: &'static str,
        name: &'static str,
        words: &'static [&'static str],
    },
}

/// How users of a program log in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Logins {
    pub locations: &'static [LoginLocation],
    /// How a user logs in.
    pub advice: &'static str,
    /// Keys may also be in a keyring or a database, which are not searched.
    pub keyring: bool,
}

impl LoginLocation {
    pub(crate) const fn file(variable: &'static str, folder: &'static str, name: &'static str) -> Self {
        Self::File { variable, folder, name }
    }

    pub(crate) const fn file_with(
        variable: &'static str,
        folder: &'static str,
        name: &'static str,
        words: &'static [&'static str],
    ) -> Self {
        Self::FileWith { variable, folder, name, words }
    }
}

impl Logins {
    /// Returns whether there is no login: none was found, and none can be in a keyring.
    pub fn are_missing(&self, user: &UserEnvironment<'_>) -> bool {
        !self.keyring && self.find_login(user.home, user.variable).is_none()
    }

    /// Returns the variables that can hold the key; empty if a login can also be elsewhere.
    pub fn only_variables(&self) -> Vec<&'static str> {
        let variables = self.locations.iter().map(|location| match location {
            LoginLocation::Variable(name) => Some(*name),
            LoginLocation::File { .. } | LoginLocation::FileWith { .. } => None,
        });
        match self.keyring {
            true => Vec::new(),
            false => variables.collect::<Option<_>>().unwrap_or_default(),
        }
    }

    /// Returns the name of the first location that holds a login.
    pub fn find_login(
        &self,
        home: Option<&Path>,
        value: impl Fn(&str) -> Option<OsString>,
    ) -> Option<String> {
        self.locations.iter().find_map(|location| match location {
            LoginLocation::Variable(name) => value(name).map(|_| (*name).to_owned()),
            LoginLocation::File { variable, folder, name } => {
                let path = file_path(variable, folder, name, home, &value)?;
                let filled = std::fs::metadata(&path).is_ok_and(|file| file.is_file() && file.len() > 0);
                filled.then(|| path.display().to_string())
            }
            LoginLocation::FileWith { variable, folder, name, words } => {
                let path = file_path(variable, folder, name, home, &value)?;
                let text = system_files::regular_file::read_text(&path, FILE_BYTES_MAX).ok()?;
                words.iter().any(|word| text.contains(word)).then(|| path.display().to_string())
            }
        })
    }
}

fn file_path(
    variable: &str,
    folder: &str,
    name: &str,
    home: Option<&Path>,
    value: impl Fn(&str) -> Option<OsString>,
) -> Option<PathBuf> {
    let below = Some(variable).filter(|variable| !variable.is_empty()).and_then(value);
    let folder = below.map(PathBuf::from).or_else(|| Some(home?.join(folder)))?;
    Some(folder.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_found_by_its_variable_or_its_nonempty_file() {
        let home = tempfile::tempdir().unwrap();
        let none = |_: &str| None;
        assert_eq!(crate::codex::VENDOR.logins.find_login(Some(home.path()), none), None);
        std::fs::create_dir(home.path().join(".codex")).unwrap();
        let file = home.path().join(".codex/auth.json");
        std::fs::write(&file, "").unwrap();
        assert_eq!(crate::codex::VENDOR.logins.find_login(Some(home.path()), none), None);
        std::fs::write(&file, "{\"key\": \"sk-secret\"}").unwrap();
        assert_eq!(
            crate::codex::VENDOR.logins.find_login(Some(home.path()), none),
            Some(file.display().to_string())
        );
        let key = |name: &str| (name == "GEMINI_API_KEY").then(|| OsString::from("sk-secret"));
        assert_eq!(crate::gemini::VENDOR.logins.find_login(None, key).as_deref(), Some("GEMINI_API_KEY"));
        let elsewhere = |name: &str| (name == "CODEX_HOME").then(|| home.path().join("other").into());
        assert_eq!(crate::codex::VENDOR.logins.find_login(Some(home.path()), elsewhere), None);
    }

    /// The files that the programs of `scripts/clis.txt` wrote when they were started with an empty home, and what
    /// a login adds.
    #[test]
    fn a_file_that_a_first_launch_writes_is_not_a_login() {
        let cases = [
            (
                "copilot",
                ".copilot/config.json",
                "// This file is managed automatically.\n{\"firstLaunchAt\": \"2026-11-18\", \"appTipShown\": true}",
                "{\"copilotTokens\": {\"https://github.com:ada\": \"gho_x\"}}",
            ),
            // Its token is in a keyring, which is not searched.
            (
                "copilot",
                ".copilot/config.json",
                "{\"loggedInUsers\": [{\"host\": \"https://github.com\", \"login\": \"ada\"}]}",
                "{\"copilotTokens\": {}}",
            ),
            (
                "opencode",
                ".config/opencode/opencode.jsonc",
                "{\"$schema\": \"https://opencode.ai/config.json\"}",
                "{\"provider\": {\"x\": {\"options\": {\"apiKey\": \"k\"}}}}",
            ),
            (
                "kimi",
                ".kimi-code/config.toml",
                "# This file starts empty so built-in defaults can apply.\n# Login will populate managed Kimi provider and model entries.\n",
                "[providers.kimi]\napi_key = \"k\"\n",
            ),
            ("goose", ".config/goose/config.yaml", "GOOSE_PROVIDER: openai\n", ""),
            ("cursor", ".cursor/cli-config.json", "{\"version\": 1}", ""),
            ("qwen", ".qwen/settings.json", "{\"$version\": 4}", ""),
            ("gemini", ".gemini/settings.json", "{}", ""),
        ];
        for (kind, file, first, logged_in) in cases {
            let home = tempfile::tempdir().unwrap();
            let path = home.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            let found = || {
                crate::registry::vendor_by_name(kind).unwrap().logins.find_login(Some(home.path()), |_| None)
            };
            std::fs::write(&path, first).unwrap();
            assert_eq!(found(), None, "{kind} {file}");
            std::fs::write(&path, logged_in).unwrap();
            let expected = (!logged_in.is_empty()).then(|| path.display().to_string());
            assert_eq!(found(), expected, "{kind} {file}");
        }
    }
}
