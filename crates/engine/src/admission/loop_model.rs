//! Chooses the service and the model of a directive: the caller's word, else the directive's, by the tiers of the
//! configuration, the configured services, and the known service whose key is set.

use backends::agent_loop;
use config::settings::{Backend as Configured, Config};
use domain::agent::{Agent, Layer};
use domain::id::BackendName;
use domain::run::BackendSpec;
use domain::run::agent_loop::TierTarget;

use crate::api::EngineError;
use crate::env;

/// The known services that a directive can use without any configuration, the first preferred, with the models for the
/// usual words.
const ENDPOINTS: [KnownEndpoint; 1] = [KnownEndpoint {
    backend: "api-anthropic",
    name: "anthropic",
    small: "claude-haiku-5-5",
    medium: "claude-sonnet-5-5",
    large: "claude-opus-5-5",
}];

/// The usual words for models by their size; every other word needs an entry in `[tiers]`.
const SMALL: [&str; 6] = ["fast", "haiku", "small", "cheap", "light", "mini"];
const MEDIUM: [&str; 6] = ["balanced", "general", "standard", "sonnet", "medium", "default"];
const LARGE: [&str; 6] = ["reasoning", "expert", "orchestrator", "opus", "large", "advanced"];

struct KnownEndpoint {
    backend: &'static str,
    /// As a directive calls the provider.
    name: &'static str,
    small: &'static str,
    medium: &'static str,
    large: &'static str,
}

/// The service and the model of a run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LoopModelChoice {
    pub(crate) service: BackendSpec,
    pub(crate) model: String,
}

/// Chooses for an agent. `requested` is the caller's word for a model.
pub(crate) fn choose(
    (config, is_project_trusted): (&Config, bool),
    agent: &Agent,
    requested: Option<&str>,
) -> Result<LoopModelChoice, EngineError> {
    let declared = agent.directive.as_deref().map(|directive| &directive.model);
    let id = agent.model.as_deref().or_else(|| declared.and_then(|model| model.id.as_deref()));
    let tier = declared.and_then(|model| model.tier.as_deref());
    let provider = declared.and_then(|model| model.provider.as_deref());
    let chooser = Chooser { config, is_project_trusted };
    match (requested, id, tier) {
        (Some(word), _, _) => chooser.by_word(word, None),
        (None, Some(id), _) => chooser.by_word(id, provider),
        (None, None, Some(tier)) => chooser.by_word(tier, provider),
        (None, None, None) => chooser.by_word("default", provider),
    }
}

struct Chooser<'a> {
    config: &'a Config,
    is_project_trusted: bool,
}

impl Chooser<'_> {
    /// Finds the model of a word: a tier of the configuration, `BACKEND` or `BACKEND/MODEL`, a usual word, or the name
    /// of a model.
    fn by_word(&self, word: &str, provider: Option<&str>) -> Result<LoopModelChoice, EngineError> {
        if let Some(tier) = self.config.tiers.get(word) {
            let found = tier.value.iter().find_map(|target| self.by_target(target));
            return found.ok_or_else(|| {
                let targets: Vec<String> = tier.value.iter().map(ToString::to_string).collect();
                no_model(&format!("no target of the tier {word} is available: {}", targets.join(", ")))
            });
        }
        if let Ok(target) = word.parse::<TierTarget>()
            && let Some(choice) = self.by_target(&target)
        {
            return Ok(choice);
        }
        let from_provider = |known: &&KnownEndpoint| provider.is_none_or(|provider| provider == known.name);
        let known = ENDPOINTS.iter().filter(from_provider).find(|known| has_key(known.backend));
        let Some(known) = known else {
            let from = provider.map(|provider| format!(" of {provider}")).unwrap_or_default();
            return Err(no_model(&format!("no service is available for the model {word:?}{from}")));
        };
        Ok(LoopModelChoice { service: built_in(known.backend), model: known.model(word).to_owned() })
    }

    /// Returns the service and model of a target, if its backend is a service and can be used.
    fn by_target(&self, target: &TierTarget) -> Option<LoopModelChoice> {
        let known =
            ENDPOINTS.iter().find(|known| known.name == target.backend || known.backend == target.backend);
        if let Some(known) = known {
            let model = target.model.as_deref().unwrap_or(known.medium).to_owned();
            return has_key(known.backend)
                .then(|| LoopModelChoice { service: built_in(known.backend), model });
        }
        let name: BackendName = target.backend.parse().ok()?;
        let configured = self.config.backends.get(&name)?;
        let Configured::Provider(_) = &configured.value else { return None };
        // A project that nobody trusts must not send the text of files to a server of its choice.
        if configured.layer == Layer::Project && !self.is_project_trusted {
            return None;
        }
        let options = serde_json::to_value(&configured.value).ok()?;
        let service = BackendSpec { name, kind: configured.value.kind().to_owned(), options };
        let model = target.model.clone().or(backends::api::service_of_backend(&service).ok()?.model)?;
        Some(LoopModelChoice { service, model })
    }
}

impl KnownEndpoint {
    /// Returns the model for a word: for a usual one by its size, otherwise the word is the name of a model.
    fn model<'a>(&'a self, word: &'a str) -> &'a str {
        let is_one_of = |words: &[&str]| words.iter().any(|known| known.eq_ignore_ascii_case(word));
        match word {
            _ if is_one_of(&SMALL) => self.small,
            _ if is_one_of(&MEDIUM) => self.medium,
            _ if is_one_of(&LARGE) => self.large,
            name => name,
        }
    }
}

fn built_in(backend: &str) -> BackendSpec {
    let name = backend.parse().expect("the names of built-in backends are valid");
    BackendSpec { name, kind: backend.to_owned(), options: serde_json::Value::Null }
}

/// Returns whether a key of a known service is set.
fn has_key(backend: &str) -> bool {
    let service = backends::api::known_service(backend);
    service.is_some_and(|service| service.service.keys.iter().any(|key| env::get(key).is_some()))
}

fn no_model(problem: &str) -> EngineError {
    EngineError::usage(problem.to_owned()).hint(
        "set ANTHROPIC_API_KEY; or configure a service ([backends.local] with api, base_url and model) and name it: \
         --model local; or map the word in your configuration: [tiers] fast = \"local\"",
    )
}

/// Returns the backend of a run with this choice.
pub(crate) fn backend_spec(choice: &LoopModelChoice, name: BackendName) -> BackendSpec {
    let options = agent_loop::options(&choice.service, &choice.model);
    BackendSpec { name, kind: agent_loop::KIND.to_owned(), options }
}
