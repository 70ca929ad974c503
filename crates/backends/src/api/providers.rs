//! The services of models that are known by name: where they are, which protocol they speak, and which variables hold
//! their keys.

use serde::{Deserialize, Serialize};

use super::wire::Wire;

/// A service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Provider {
    /// How a configuration names it.
    pub name: &'static str,
    /// The name of its built-in backend.
    pub backend: &'static str,
    pub(super) wire: Wire,
    pub(super) address: &'static str,
    /// A variable with which a user redirects requests to another address.
    pub(super) address_variable: &'static str,
    /// The variables that may hold the key; the first that is set wins.
    pub keys: &'static [&'static str],
    pub(super) quirks: ProviderQuirks,
}

/// Where services that speak the same protocol differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ProviderQuirks {
    /// It reports usage only on request, and accepts the option for it. Others refuse a request with an unknown
    /// member.
    pub(super) requests_usage: bool,
    /// The parameter that limits the tokens of an answer.
    pub(super) tokens_by: TokensBy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum TokensBy {
    MaxTokens,
    MaxCompletionTokens,
}

const PLAIN: ProviderQuirks = ProviderQuirks { requests_usage: false, tokens_by: TokensBy::MaxTokens };

pub(super) static ANTHROPIC: Provider = Provider {
    name: "anthropic",
    backend: "api-anthropic",
    wire: Wire::Messages,
    address: "https://api.anthropic.com",
    address_variable: "ANTHROPIC_BASE_URL",
    keys: &["ANTHROPIC_API_KEY"],
    quirks: PLAIN,
};
pub(super) static OPENAI: Provider = Provider {
    name: "openai",
    backend: "api-openai",
    wire: Wire::Chat,
    address: "https://api.openai.com/v1",
    address_variable: "OPENAI_BASE_URL",
    keys: &["OPENAI_API_KEY"],
    quirks: ProviderQuirks { requests_usage: true, tokens_by: TokensBy::MaxCompletionTokens },
};
pub(super) static GROK: Provider = Provider {
    name: "grok",
    backend: "api-grok",
    wire: Wire::Chat,
    address: "https://api.x.ai/v1",
    address_variable: "XAI_BASE_URL",
    keys: &["XAI_API_KEY", "GROK_API_KEY", "X_API_KEY"],
    quirks: ProviderQuirks { requests_usage: true, tokens_by: TokensBy::MaxTokens },
};
pub(super) static GEMINI: Provider = Provider {
    name: "gemini",
    backend: "api-gemini",
    wire: Wire::Google,
    address: "https://generativelanguage.googleapis.com",
    address_variable: "GOOGLE_GEMINI_BASE_URL",
    keys: &["GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_AI_KEY"],
    quirks: PLAIN,
};
pub(super) static MISTRAL: Provider = Provider {
    name: "mistral",
    backend: "api-mistral",
    wire: Wire::Chat,
    address: "https://api.mistral.ai/v1",
    address_variable: "MISTRAL_BASE_URL",
    keys: &["MISTRAL_API_KEY"],
    quirks: PLAIN,
};

pub(super) static ALL: [&Provider; 5] = [&ANTHROPIC, &OPENAI, &GROK, &GEMINI, &MISTRAL];

/// Returns the service of this name.
pub(super) fn by_name(name: &str) -> Option<&'static Provider> {
    ALL.into_iter().find(|service| service.name == name)
}

/// Returns the service of a built-in backend.
pub(super) fn by_backend(backend: &str) -> Option<&'static Provider> {
    ALL.into_iter().find(|service| service.backend == backend)
}
