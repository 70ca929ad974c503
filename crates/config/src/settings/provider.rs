//! `[backends.NAME]` with `api`: a model service at a custom address.

use serde::Serialize;

use crate::text::{
    Bounds, Diagnostics, Fields, Node, quote, read_choice, read_env_names, read_integer, read_text,
};

/// The kind of backend that implements it.
pub(super) const KIND: &str = "api";
/// The services whose protocols are supported.
const APIS: [(&str, &str); 7] = [
    ("anthropic", "anthropic"),
    ("openai", "openai"),
    ("grok", "grok"),
    ("xai", "grok"),
    ("gemini", "gemini"),
    ("google", "gemini"),
    ("mistral", "mistral"),
];

/// A model service, ready to be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Provider {
    /// The service whose protocol it uses.
    pub api: String,
    /// `None`: the default address of that service.
    pub base_url: Option<String>,
    /// The variable with the key. `None`: the service's default variable, or no key for a custom address.
    pub key_env: Option<String>,
    /// The model of agents that name none.
    pub model: Option<String>,
    /// The most tokens of an answer.
    pub max_tokens: Option<u64>,
}

impl Provider {
    /// Returns the settings of the section by key.
    pub(super) fn settings(&self) -> Vec<(&'static str, serde_json::Value)> {
        let Self { api, base_url, key_env, model, max_tokens } = self;
        let optional_text = |text: &Option<String>| text.as_ref().map(|text| serde_json::json!(text));
        let settings = [
            ("api", Some(serde_json::json!(api))),
            ("base_url", optional_text(base_url)),
            ("key_env", optional_text(key_env)),
            ("model", optional_text(model)),
            ("max_tokens", max_tokens.map(|tokens| serde_json::json!(tokens))),
        ];
        settings.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
    }
}

/// Reads a service; `None` if it is invalid.
pub(super) fn read(
    api: &Node,
    mut fields: Fields<'_>,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<Provider> {
    let api = read_choice(api, &fields.name("api"), &APIS, diagnostics);
    let mut word = |key: &'static str| {
        let name = fields.name(key);
        let node = fields.take(key)?;
        read_text(node, &name, diagnostics).map(|text| (text, node))
    };
    let (base_url, model) = (word("base_url"), word("model"));
    let base_url =
        base_url.map(|(url, node)| check_address(url, node, &fields.name("base_url"), diagnostics));
    let key_env = fields.take("key_env").map(|node| {
        // Reads one name as a list of one.
        let list = Node { value: crate::text::NodeValue::List(vec![node.clone()]), ..node.clone() };
        read_env_names(&list, &fields.name("key_env"), diagnostics).pop()
    });
    let tokens = Bounds::from(1).up_to(10_000_000);
    let max_tokens = fields
        .take("max_tokens")
        .map(|node| read_integer(node, &fields.name("max_tokens"), tokens, diagnostics));
    fields.close(diagnostics);
    Some(Provider {
        api: api?.to_owned(),
        base_url: base_url.map_or(Some(None), |url| url.map(Some))?,
        key_env: key_env.map_or(Some(None), |key| key.map(Some))?,
        model: model.map(|(model, _)| model),
        max_tokens: max_tokens.map_or(Some(None), |tokens| tokens.map(Some))?,
    })
}

fn check_address(url: String, node: &Node, name: &str, diagnostics: &mut Diagnostics<'_>) -> Option<String> {
    let host = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let problem = match host {
        Some(host) if host.contains('@') => "has a user in it; keys are given by key_env",
        Some(host) if host.contains(['?', '#']) => "has more than a path behind its host",
        Some(host) if !host.is_empty() && !host.starts_with('/') => return Some(url),
        Some(_) | None => "is no address",
    };
    let message = format!("{name}: {} {problem}", quote(&url));
    diagnostics.error_with_hint(node.location, message, "write for example https://models.example.org/v1");
    None
}
