//! How to tell, without starting anything, whether a vendor's program knows its user: by the variables and files that
//! hold keys. Only whether they are there is looked at, never which key they hold.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use domain::run::{AgentEnd, Failure, ModelError};

/// The most of a file that is searched for a login.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Where a login may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Login {
    /// A variable with a key.
    Variable(&'static str),
    /// A file below the folder that a variable names, else below this folder of the user's home.
    File { variable: &'static str, folder: &'static str, name: &'static str },
    /// The same, where the program also writes the file for those who have not logged in: it counts with one of these
    /// words in it.
    FileWith {
        variable: &'static str,
        folder: &'static str,
        name: &'static str,
        words: &'static [&'static str],
    },
}

/// What is known about the logins of a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Logins {
    pub places: &'static [Login],
    /// How a user logs in.
    pub advice: &'static str,
    /// Keys may also be in a keyring, which is not looked at.
    pub keyring: bool,
    /// How the program is installed.
    pub install: &'static str,
}

const fn file(variable: &'static str, folder: &'static str, name: &'static str) -> Login {
    Login::File { variable, folder, name }
}

const CLAUDE: Logins = Logins {
    places: &[
        Login::Variable("ANTHROPIC_API_KEY"),
        Login::Variable("ANTHROPIC_AUTH_TOKEN"),
        Login::Variable("CLAUDE_CODE_OAUTH_TOKEN"),
        file("CLAUDE_CONFIG_DIR", ".claude", ".credentials.json"),
    ],
    advice: "start claude once and log in, or set ANTHROPIC_API_KEY",
    keyring: cfg!(target_os = "macos"),
    install: "npm install -g @anthropic-ai/claude-code",
};
const GLM: Logins = Logins {
    places: &[Login::Variable("ZAI_API_KEY")],
    advice: "set ZAI_API_KEY",
    keyring: false,
    install: "npm install -g @anthropic-ai/claude-code",
};
const CLAUDE_KIMI: Logins = Logins {
    places: &[Login::Variable("KIMI_API_KEY"), Login::Variable("CLI_API_KEY")],
    advice: "set KIMI_API_KEY",
    keyring: false,
    install: "npm install -g @anthropic-ai/claude-code",
};
const CODEX: Logins = Logins {
    places: &[Login::Variable("CODEX_API_KEY"), file("CODEX_HOME", ".codex", "auth.json")],
    advice: "codex login, or set CODEX_API_KEY",
    keyring: true,
    install: "npm install -g @openai/codex",
};
const GEMINI: Logins = Logins {
    places: &[
        Login::Variable("GEMINI_API_KEY"),
        Login::Variable("GOOGLE_API_KEY"),
        Login::Variable("GOOGLE_APPLICATION_CREDENTIALS"),
        file("", ".gemini", "oauth_creds.json"),
    ],
    advice: "start gemini once and log in, or set GEMINI_API_KEY",
    keyring: true,
    install: "npm install -g @google/gemini-cli",
};
const COPILOT: Logins = Logins {
    places: &[
        Login::Variable("COPILOT_GITHUB_TOKEN"),
        Login::Variable("GH_TOKEN"),
        Login::Variable("GITHUB_TOKEN"),
        Login::Variable("COPILOT_PROVIDER_API_KEY"),
        // Its first launch writes the file, with the time and nothing else.
        Login::FileWith {
            variable: "COPILOT_HOME",
            folder: ".copilot",
            name: "config.json",
            words: &["loggedInUsers", "logged_in_users", "copilotTokens", "copilot_tokens"],
        },
        file("XDG_CONFIG_HOME", ".config", "gh/hosts.yml"),
    ],
    advice: "start copilot once and log in, or set COPILOT_GITHUB_TOKEN",
    keyring: true,
    install: "npm install -g @github/copilot",
};
const QWEN: Logins = Logins {
    places: &[
        Login::Variable("OPENAI_API_KEY"),
        Login::Variable("DASHSCOPE_API_KEY"),
        file("", ".qwen", "oauth_creds.json"),
    ],
    advice: "start qwen once and log in, or set OPENAI_API_KEY",
    keyring: false,
    install: "npm install -g @qwen-code/qwen-code",
};
const OPENCODE: Logins = Logins {
    places: &[
        file("XDG_DATA_HOME", ".local/share", "opencode/auth.json"),
        Login::Variable("ANTHROPIC_API_KEY"),
        Login::Variable("OPENAI_API_KEY"),
        Login::Variable("GEMINI_API_KEY"),
        file("XDG_CONFIG_HOME", ".config", "opencode/opencode.json"),
    ],
    advice: "opencode auth login, or set the key of a provider",
    keyring: false,
    install: "npm install -g opencode-ai",
};
const GOOSE: Logins = Logins {
    places: &[
        file("XDG_CONFIG_HOME", ".config", "goose/config.yaml"),
        Login::Variable("OPENAI_API_KEY"),
        Login::Variable("ANTHROPIC_API_KEY"),
    ],
    advice: "goose configure, or set GOOSE_PROVIDER and the key of that provider",
    keyring: true,
    install: "npm install -g @aaif/goose",
};
const CURSOR: Logins = Logins {
    places: &[
        Login::Variable("CURSOR_API_KEY"),
        file("XDG_CONFIG_HOME", ".config", "cursor/auth.json"),
        file("", ".cursor", "cli-config.json"),
    ],
    advice: "cursor-agent login, or set CURSOR_API_KEY",
    keyring: cfg!(target_os = "macos"),
    install: "the script at cursor.com/install",
};
const KIRO: Logins = Logins {
    places: &[
        Login::Variable("KIRO_API_KEY"),
        file("XDG_DATA_HOME", ".local/share", "kiro-cli/data.sqlite3"),
    ],
    advice: "kiro-cli login, or set KIRO_API_KEY",
    keyring: false,
    install: "the download at kiro.dev/cli",
};
const KIMI: Logins = Logins {
    places: &[
        Login::Variable("KIMI_MODEL_API_KEY"),
        Login::Variable("KIMI_API_KEY"),
        file("KIMI_CODE_HOME", ".kimi-code", "config.toml"),
    ],
    advice: "start kimi once and log in",
    keyring: false,
    install: "npm install -g @moonshot-ai/kimi-code",
};
const GROK: Logins = Logins {
    places: &[
        Login::Variable("XAI_API_KEY"),
        Login::Variable("GROK_API_KEY"),
        file("", ".grok", "user-settings.json"),
    ],
    advice: "set XAI_API_KEY",
    keyring: false,
    install: "its vendor's download at x.ai",
};

/// Returns where the logins of a backend may be; nothing where that is not known.
pub fn of(kind: &str) -> Option<Logins> {
    // The same program, spoken to in another way.
    Some(match kind.trim_start_matches("acp-") {
        "claude" => CLAUDE,
        "glm" => GLM,
        "claude-kimi" => CLAUDE_KIMI,
        "codex" => CODEX,
        "gemini" => GEMINI,
        "copilot" => COPILOT,
        "qwen" => QWEN,
        "opencode" => OPENCODE,
        "goose" => GOOSE,
        "cursor" => CURSOR,
        "kiro" => KIRO,
        "kimi" => KIMI,
        "grok" => GROK,
        _ => return None,
    })
}

/// Words of programs that have no login or no settings yet, in lower case.
const UNCONFIGURED: [&str; 6] = [
    "not logged in",
    "please run /login",
    "no auth type is selected",
    "no authentication information found",
    "no model configured",
    "no provider configured",
];

/// Adds what to do to the failure of a program that is not logged in or not configured. Its own words come first.
pub fn advised(kind: &str, end: AgentEnd) -> AgentEnd {
    let AgentEnd::Failed(failure) = end else { return end };
    let is_unconfigured = |message: &str| {
        let message = message.to_lowercase();
        UNCONFIGURED.iter().any(|words| message.contains(words))
    };
    AgentEnd::Failed(match (failure, of(kind)) {
        (Failure::Model { error: ModelError::Denied, message }, Some(logins)) => denied(&message, &logins),
        (Failure::Model { error: ModelError::Other, message } | Failure::Agent { message }, Some(logins))
            if is_unconfigured(&message) =>
        {
            denied(&message, &logins)
        }
        (failure, _) => failure,
    })
}

fn denied(message: &str, logins: &Logins) -> Failure {
    let message = message.trim_end();
    let message = match message.contains(logins.advice) {
        true => message.to_owned(),
        false => format!("{message} (to fix it: {})", logins.advice),
    };
    Failure::Model { error: ModelError::Denied, message }
}

impl Logins {
    /// Returns the first place that holds something, by its name.
    pub fn found(&self, home: Option<&Path>, value: impl Fn(&str) -> Option<OsString>) -> Option<String> {
        self.places.iter().find_map(|place| match place {
            Login::Variable(name) => value(name).map(|_| (*name).to_owned()),
            Login::File { variable, folder, name } => {
                let path = path_of(variable, folder, name, home, &value)?;
                let filled = std::fs::metadata(&path).is_ok_and(|file| file.is_file() && file.len() > 0);
                filled.then(|| path.display().to_string())
            }
            Login::FileWith { variable, folder, name, words } => {
                let path = path_of(variable, folder, name, home, &value)?;
                let text = crate::plain_file::text(&path, FILE_BYTES_MAX).ok()?;
                words.iter().any(|word| text.contains(word)).then(|| path.display().to_string())
            }
        })
    }
}

fn path_of(
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
    fn a_login_is_found_by_its_variable_or_its_file_and_an_empty_file_is_none() {
        let home = tempfile::tempdir().unwrap();
        let none = |_: &str| None;
        assert_eq!(CODEX.found(Some(home.path()), none), None);
        std::fs::create_dir(home.path().join(".codex")).unwrap();
        let file = home.path().join(".codex/auth.json");
        std::fs::write(&file, "").unwrap();
        assert_eq!(CODEX.found(Some(home.path()), none), None);
        std::fs::write(&file, "{\"key\": \"sk-secret\"}").unwrap();
        assert_eq!(CODEX.found(Some(home.path()), none), Some(file.display().to_string()));
        let key = |name: &str| (name == "CODEX_API_KEY").then(|| OsString::from("sk-secret"));
        assert_eq!(CODEX.found(None, key).as_deref(), Some("CODEX_API_KEY"));
        let elsewhere = |name: &str| (name == "CODEX_HOME").then(|| home.path().join("other").into());
        assert_eq!(CODEX.found(Some(home.path()), elsewhere), None);
    }

    #[test]
    fn what_copilot_writes_at_its_first_launch_is_no_login() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join(".copilot")).unwrap();
        let file = home.path().join(".copilot/config.json");
        std::fs::write(&file, "// This file is managed automatically.\n{\"firstLaunchAt\": \"2026-11-18\"}")
            .unwrap();
        assert_eq!(COPILOT.found(Some(home.path()), |_| None), None);
        std::fs::write(&file, "{\"loggedInUsers\": [{\"login\": \"ada\"}]}").unwrap();
        assert_eq!(COPILOT.found(Some(home.path()), |_| None), Some(file.display().to_string()));
    }

    #[test]
    fn every_vendor_has_a_place_to_look_at() {
        for vendor in crate::registry::vendors().filter(|vendor| vendor.shares.is_none()) {
            let kind = vendor.backend;
            assert!(of(kind).is_some_and(|logins| !logins.places.is_empty()), "{kind}");
        }
    }
}
