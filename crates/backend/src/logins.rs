//! How to tell, without starting anything, whether a vendor's program knows its user: by the variables and files that
//! hold keys. Only whether they are there is looked at, never which key they hold.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use domain::run::{AgentEnd, Failure, ModelError};

use crate::user::User;

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
    /// Keys may also be in a keyring or a database, which are not looked at.
    pub keyring: bool,
    /// How the program is installed.
    pub install: &'static str,
}

const fn file(variable: &'static str, folder: &'static str, name: &'static str) -> Login {
    Login::File { variable, folder, name }
}

const fn file_with(
    variable: &'static str,
    folder: &'static str,
    name: &'static str,
    words: &'static [&'static str],
) -> Login {
    Login::FileWith { variable, folder, name, words }
}

const CLAUDE: Logins = Logins {
    places: &[
        Login::Variable("ANTHROPIC_API_KEY"),
        Login::Variable("ANTHROPIC_AUTH_TOKEN"),
        Login::Variable("CLAUDE_CODE_OAUTH_TOKEN"),
        file("CLAUDE_CONFIG_DIR", ".claude", ".credentials.json"),
    ],
    advice: "run `claude` once and log in, or set ANTHROPIC_API_KEY",
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
    // Neither its app server nor codex-acp takes a key from the environment.
    places: &[file("CODEX_HOME", ".codex", "auth.json")],
    advice: "run `codex login`, or `codex login --with-api-key` for an API key",
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
    advice: "run `gemini` once and log in, or set GEMINI_API_KEY",
    keyring: true,
    install: "npm install -g @google/gemini-cli",
};
const COPILOT: Logins = Logins {
    places: &[
        Login::Variable("COPILOT_GITHUB_TOKEN"),
        Login::Variable("GH_TOKEN"),
        Login::Variable("GITHUB_TOKEN"),
        Login::Variable("COPILOT_PROVIDER_API_KEY"),
        // Its first launch writes the file with `firstLaunchAt`. With `loggedInUsers` alone version 1.0.102 looks for
        // the token in a keyring; with `copilotTokens` it uses the token that is written there.
        file_with("COPILOT_HOME", ".copilot", "config.json", &["copilotTokens"]),
        // Without this key the token of `gh` is in a keyring.
        file_with("XDG_CONFIG_HOME", ".config", "gh/hosts.yml", &["oauth_token"]),
    ],
    advice: "run `copilot login`, or set COPILOT_GITHUB_TOKEN",
    keyring: true,
    install: "npm install -g @github/copilot",
};
const QWEN: Logins = Logins {
    places: &[
        Login::Variable("OPENAI_API_KEY"),
        Login::Variable("DASHSCOPE_API_KEY"),
        file("", ".qwen", "oauth_creds.json"),
    ],
    advice: "run `qwen` once and log in, or set OPENAI_API_KEY",
    keyring: false,
    install: "npm install -g @qwen-code/qwen-code",
};
const OPENCODE: Logins = Logins {
    places: &[
        file("XDG_DATA_HOME", ".local/share", "opencode/auth.json"),
        Login::Variable("ANTHROPIC_API_KEY"),
        Login::Variable("OPENAI_API_KEY"),
        Login::Variable("GEMINI_API_KEY"),
        Login::Variable("OPENCODE_API_KEY"),
        Login::Variable("OPENROUTER_API_KEY"),
        // Its first launch writes opencode.jsonc with a `$schema` only.
        file_with("XDG_CONFIG_HOME", ".config", "opencode/opencode.json", &["apiKey"]),
        file_with("XDG_CONFIG_HOME", ".config", "opencode/opencode.jsonc", &["apiKey"]),
    ],
    advice: "run `opencode auth login`, or set the API key of a provider, such as ANTHROPIC_API_KEY",
    keyring: false,
    install: "npm install -g opencode-ai",
};
const GOOSE: Logins = Logins {
    // Settings name only the provider. A key in a variable counts for one provider, and which one is not looked up here.
    places: &[file("XDG_CONFIG_HOME", ".config", "goose/secrets.yaml")],
    advice: "run `goose configure`, or set GOOSE_PROVIDER and the API key of that provider",
    keyring: true,
    install: "npm install -g @aaif/goose",
};
const CURSOR: Logins = Logins {
    places: &[Login::Variable("CURSOR_API_KEY"), file("XDG_CONFIG_HOME", ".config", "cursor/auth.json")],
    advice: "run `cursor-agent login`, or set CURSOR_API_KEY",
    keyring: cfg!(target_os = "macos"),
    install: "the script at cursor.com/install",
};
const KIRO: Logins = Logins {
    // A login is in the database that also holds every conversation, so that its file shows nothing.
    places: &[Login::Variable("KIRO_API_KEY")],
    advice: "run `kiro-cli login`, or set KIRO_API_KEY",
    keyring: true,
    install: "the download at kiro.dev/cli",
};
const KIMI: Logins = Logins {
    places: &[
        Login::Variable("KIMI_MODEL_API_KEY"),
        Login::Variable("KIMI_API_KEY"),
        // Its first launch writes the file with comments only; a login or a user adds a provider.
        file_with("KIMI_CODE_HOME", ".kimi-code", "config.toml", &["api_key", "oauth"]),
    ],
    advice: "run `kimi` once and log in with /login",
    keyring: false,
    install: "npm install -g @moonshot-ai/kimi-code",
};
const GROK: Logins = Logins {
    places: &[
        Login::Variable("XAI_API_KEY"),
        Login::Variable("GROK_API_KEY"),
        file_with("", ".grok", "user-settings.json", &["apiKey"]),
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
const UNCONFIGURED: [&str; 7] = [
    "not logged in",
    "please run /login",
    "no auth type is selected",
    "no authentication information found",
    "no model configured",
    "no provider configured",
    "missing provider",
];

/// Tells whether a backend's program has no login: none was found, and none can be in a keyring.
pub fn is_logged_out(kind: &str, user: &User<'_>) -> bool {
    of(kind).is_some_and(|logins| !logins.keyring && logins.found(user.home, user.value).is_none())
}

/// Adds what to do to the failure of a program that is not logged in or not configured. Its own words come first.
pub fn advised(kind: &str, end: AgentEnd, user: &User<'_>) -> AgentEnd {
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
        // It may also be the network, and both are worth a look.
        (Failure::Model { error: ModelError::Unreachable, message }, Some(logins))
            if is_logged_out(kind, user) =>
        {
            let message = format!("{}; {kind} has no login either: {}", message.trim_end(), logins.advice);
            Failure::Model { error: ModelError::Unreachable, message }
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
        let key = |name: &str| (name == "GEMINI_API_KEY").then(|| OsString::from("sk-secret"));
        assert_eq!(GEMINI.found(None, key).as_deref(), Some("GEMINI_API_KEY"));
        let elsewhere = |name: &str| (name == "CODEX_HOME").then(|| home.path().join("other").into());
        assert_eq!(CODEX.found(Some(home.path()), elsewhere), None);
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
            // Its token is in a keyring, where nobody looks.
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
            let found = || of(kind).unwrap().found(Some(home.path()), |_| None);
            std::fs::write(&path, first).unwrap();
            assert_eq!(found(), None, "{kind} {file}");
            std::fs::write(&path, logged_in).unwrap();
            let expected = (!logged_in.is_empty()).then(|| path.display().to_string());
            assert_eq!(found(), expected, "{kind} {file}");
        }
    }

    #[test]
    fn a_failure_says_how_to_log_in_where_that_may_help() {
        let home = tempfile::tempdir().unwrap();
        let none = |_: &str| None;
        let user = User { home: Some(home.path()), value: &none };
        let advise = |kind: &str, failure: Failure| match advised(kind, AgentEnd::Failed(failure), &user) {
            AgentEnd::Failed(Failure::Model { error, message }) => (Some(error), message),
            other => (None, format!("{other:?}")),
        };
        let lost = || Failure::Model { error: ModelError::Unreachable, message: "nobody answers".to_owned() };
        assert_eq!(
            advise("opencode", lost()),
            (
                Some(ModelError::Unreachable),
                format!("nobody answers; opencode has no login either: {}", OPENCODE.advice)
            )
        );
        // A login of codex may be in a keyring.
        assert_eq!(advise("codex", lost()).1, "nobody answers");
        let said = Failure::Agent { message: "cannot be set: Internal error: Missing provider".to_owned() };
        let (error, message) = advise("acp-goose", said);
        assert_eq!(error, Some(ModelError::Denied));
        assert!(message.contains("Missing provider") && message.contains("goose configure"), "{message}");
        std::fs::create_dir_all(home.path().join(".local/share/opencode")).unwrap();
        std::fs::write(home.path().join(".local/share/opencode/auth.json"), "{\"x\": {}}").unwrap();
        assert_eq!(advise("acp-opencode", lost()).1, "nobody answers");
    }

    #[test]
    fn every_vendor_has_a_place_to_look_at() {
        for vendor in crate::registry::vendors().filter(|vendor| vendor.shares.is_none()) {
            let kind = vendor.backend;
            assert!(of(kind).is_some_and(|logins| !logins.places.is_empty()), "{kind}");
        }
    }
}
