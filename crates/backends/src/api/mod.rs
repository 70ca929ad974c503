//! Models without a program around them: a request to a service's HTTP API, and a text back. No tools, no files.
//!
//! A process of its own sends the request, which is this program again (`http_client`), so a run of an API has the
//! containment, time-outs, cancellation and record of any other. Each service that is known by name is a backend; any
//! other address that speaks one of the protocols is a backend of the configuration.

mod address;
mod failure;
mod http_client;
mod job;
mod protocol;
mod providers;
mod reader;
mod sse;
mod wire;

use domain::permission::Permission;
use domain::run::RunSpec;
use serde::Deserialize;
use serde_json::Value;

pub use http_client::{API_COMMAND, main};
pub use providers::Provider;

use crate::contract::{
    Backend, Capabilities, EnvValue, LaunchContext, LaunchPlan, PrepareError, PriceList, ProcessLaunch,
    StdinFeed,
};
use crate::schema_prompt;
use job::{Job, ModelRequest};

/// How often a service without capacity is retried, unless there is a fallback.
const RETRIES: u32 = 3;
/// The kind of a backend that a configuration defines.
const CONFIGURED_KIND: &str = "api";

/// A service that is known by name, or one that a configuration describes.
pub struct Api {
    service: Option<&'static Provider>,
}

/// Every service that needs no configuration.
pub static BUILT_IN: [Api; 5] = [
    Api { service: Some(&providers::ANTHROPIC) },
    Api { service: Some(&providers::OPENAI) },
    Api { service: Some(&providers::GROK) },
    Api { service: Some(&providers::GEMINI) },
    Api { service: Some(&providers::MISTRAL) },
];
/// Returns the services that need no configuration.
pub fn services() -> impl Iterator<Item = &'static Provider> {
    BUILT_IN.iter().filter_map(|api| api.service)
}

/// A service of the configuration.
pub static CONFIGURED_API: Api = Api { service: None };

/// What a configuration says about a service.
#[derive(Debug, Clone, Deserialize)]
struct Options {
    /// The known service whose protocol it speaks.
    api: String,
    base_url: Option<String>,
    key_env: Option<String>,
    model: Option<String>,
    max_tokens: Option<u32>,
}

impl Backend for Api {
    fn kind(&self) -> &'static str {
        self.service.map_or(CONFIGURED_KIND, |service| service.backend)
    }

    fn variables(&self) -> Vec<&'static str> {
        let variables =
            |service: &'static Provider| service.keys.iter().copied().chain([service.address_variable]);
        self.service.into_iter().flat_map(variables).collect()
    }

    fn capabilities(&self, _options: &Value) -> Capabilities {
        Capabilities {
            system_prompt: true,
            model: true,
            usage: true,
            process: true,
            replaces_prompt: true,
            can_skip_project_context: true,
            output_schema: true,
            temperature: true,
            reports_tool_calls: true,
            // The price at another address is unknown.
            prices: if self.service.is_some() { PriceList::ByModel } else { PriceList::Unlisted },
            ..Capabilities::default()
        }
    }

    /// The model can only write text, which every permission allows.
    fn unenforceable(&self, _permission: &Permission, _options: &Value) -> Vec<String> {
        Vec::new()
    }

    fn prepare(&self, spec: &RunSpec, context: &LaunchContext<'_>) -> Result<LaunchPlan, PrepareError> {
        let wrong = |reason: String| PrepareError { kind: self.kind(), reason };
        let job = self.job(spec).map_err(wrong)?;
        let first = job.keys.first().cloned();
        let from_file = |file: &String| {
            let keys = job.keys.clone();
            (first.clone().unwrap_or_default(), EnvValue::FromFile { file: file.into(), keys })
        };
        let set = spec.setup.key_file.iter().filter(|_| first.is_some()).map(from_file).collect();
        let known = job.keys.iter().chain(&job.address_variable).cloned().collect();
        let line = serde_json::to_vec(&job).map_err(|error| wrong(error.to_string()))?;
        Ok(LaunchPlan::Process(ProcessLaunch {
            argv: vec![context.current_exe.display().to_string(), API_COMMAND.to_owned()],
            env: Vec::new(),
            optional_env: known,
            env_overrides: set,
            feed: StdinFeed::Whole(line),
            directory: None,
            files: Vec::new(),
            reader: Box::new(reader::ApiStream::new(spec.setup.output_schema.is_some())),
        }))
    }
}

impl Api {
    fn job(&self, spec: &RunSpec) -> Result<Job, String> {
        let configured = match self.service {
            Some(_) => None,
            None => {
                let options: Result<Options, _> = serde_json::from_value(spec.backend.options.clone());
                Some(options.map_err(|error| error.to_string())?)
            }
        };
        let service = match (self.service, &configured) {
            (Some(service), _) => service,
            (None, Some(options)) => providers::by_name(&options.api)
                .ok_or_else(|| format!("there is no service {:?}", options.api))?,
            (None, None) => return Err("it says nothing of its service".to_owned()),
        };
        let own = |option: fn(&Options) -> Option<String>| configured.as_ref().and_then(option);
        let elsewhere = own(|options| options.base_url.clone());
        // A service's own key goes to that service only; another address gets the key that is configured for it.
        let own_keys = || service.keys.iter().map(|key| (*key).to_owned()).collect();
        let keys = match (own(|options| options.key_env.clone()), &elsewhere) {
            (Some(key), _) => vec![key],
            (None, Some(_)) => Vec::new(),
            (None, None) => own_keys(),
        };
        let model = spec.model.clone().or_else(|| own(|options| options.model.clone()));
        let model = model.ok_or("it needs a model: name one in the agent's file or in the call")?;
        Ok(Job {
            service: spec.backend.name.to_string(),
            wire: service.wire,
            quirks: service.quirks,
            address_variable: elsewhere.is_none().then(|| service.address_variable.to_owned()),
            address: elsewhere.unwrap_or_else(|| service.address.to_owned()),
            keys,
            request: ModelRequest {
                model,
                system: spec.system_prompt.trim().to_owned(),
                prompt: schema_prompt::prompt_with_schema(spec),
                temperature: spec.setup.temperature.map(domain::setup::Temperature::degrees),
                max_tokens: configured.as_ref().and_then(|options| options.max_tokens),
            },
            timeout_ms: spec.limits.timeout_ms,
            retries: if spec.fallbacks.is_empty() { RETRIES } else { 0 },
        })
    }
}

#[cfg(test)]
mod tests;
