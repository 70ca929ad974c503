//! `[backends.NAME]` with `api`: a service of models at an address of the user's own.

use serde::Serialize;

use crate::text::{Bounds, Fields, Findings, Node, amount, choice, environment_names, quoted, text};

/// The kind of backend that understands it.
pub(super) const KIND: &str = "api";
/// The services whose protocols are spoken.
const APIS: [(&str, &str); 7] = [
    ("anthropic", "anthropic"),
    ("openai", "openai"),
    ("grok", "grok"),
    ("xai", "grok"),
    ("gemini", "gemini"),
    ("google", "gemini"),
    ("mistral", "mistral"),
];

/// A service, ready to be asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Provider {
    /// The service whose protocol it speaks.
    pub api: String,
    /// `None`: where that service is.
    pub base_url: Option<String>,
    /// The variable that holds the key. `None`: the service's own, and none at an address of one's own.
    pub key_env: Option<String>,
    /// The model of agents that name none.
    pub model: Option<String>,
    /// The most tokens of an answer.
    pub max_tokens: Option<u64>,
}

impl Provider {
    /// Returns what the section says, by key.
    pub(super) fn settings(&self) -> Vec<(&'static str, serde_json::Value)> {
        let Self { api, base_url, key_env, model, max_tokens } = self;
        let text = |text: &Option<String>| text.as_ref().map(|text| serde_json::json!(text));
        let settings = [
            ("api", Some(serde_json::json!(api))),
            ("base_url", text(base_url)),
            ("key_env", text(key_env)),
            ("model", text(model)),
            ("max_tokens", max_tokens.map(|tokens| serde_json::json!(tokens))),
        ];
        settings.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
    }
}

/// Reads a service; `None` if it cannot be asked.
pub(super) fn read(api: &Node, mut fields: Fields<'_>, findings: &mut Findings<'_>) -> Option<Provider> {
    let api = choice(api, &fields.name("api"), &APIS, findings);
    let mut word = |key: &'static str| {
        let name = fields.name(key);
        let node = fields.take(key)?;
        text(node, &name, findings).map(|text| (text, node))
    };
    let (base_url, model) = (word("base_url"), word("model"));
    let base_url = base_url.map(|(url, node)| check_address(url, node, &fields.name("base_url"), findings));
    let key_env = fields.take("key_env").map(|node| {
        // One name, as in a list of one.
        let list = Node { shape: crate::text::Shape::List(vec![node.clone()]), ..node.clone() };
        environment_names(&list, &fields.name("key_env"), findings).pop()
    });
    let tokens = Bounds::from(1).up_to(10_000_000);
    let max_tokens =
        fields.take("max_tokens").map(|node| amount(node, &fields.name("max_tokens"), tokens, findings));
    fields.close(findings);
    Some(Provider {
        api: api?.to_owned(),
        base_url: base_url.map_or(Some(None), |url| url.map(Some))?,
        key_env: key_env.map_or(Some(None), |key| key.map(Some))?,
        model: model.map(|(model, _)| model),
        max_tokens: max_tokens.map_or(Some(None), |tokens| tokens.map(Some))?,
    })
}

fn check_address(url: String, node: &Node, name: &str, findings: &mut Findings<'_>) -> Option<String> {
    let host = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let problem = match host {
        Some(host) if host.contains('@') => "has a user in it; keys are given by key_env",
        Some(host) if host.contains(['?', '#']) => "has more than a path behind its host",
        Some(host) if !host.is_empty() && !host.starts_with('/') => return Some(url),
        Some(_) | None => "is no address",
    };
    let message = format!("{name}: {} {problem}", quoted(&url));
    findings.error_with_hint(node.place, message, "write for example https://models.example.org/v1");
    None
}
