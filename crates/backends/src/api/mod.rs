//! Models without a program around them: requests to a service's HTTP API. As backends they give a text back: no
//! tools, no files. As the model client of a loop (`model_client`) they answer one request after the other, with tools.
//!
//! A process of its own sends the requests, which is this program again (`client_process`), so a run of an API has the
//! containment, time-outs, cancellation and record of any other. Each service that is known by name is a backend; any
//! other address that speaks one of the protocols is a backend of the configuration.

mod address;
mod answer;
mod answer_stream;
mod client_process;
mod failure;
mod http_call;
pub mod model_client;
mod providers;
mod reader;
mod request_run;
mod service_config;
mod sse;
mod tool_arguments;
mod wire;

use domain::conversation::{Message, ModelRequest, ToolChoice};
use domain::permission::Permission;
use domain::run::RunSpec;
use serde_json::Value;

pub use client_process::{API_COMMAND, main};
pub use providers::Provider;
pub use service_config::{ConfiguredEndpoint, ServiceConfig, known_service, service_of_backend};

use crate::contract::{
    Backend, Capabilities, LaunchContext, LaunchPlan, PrepareError, PriceList, ProcessLaunch, StdinFeed,
};
use crate::schema_prompt;
use model_client::{AtEndOfInput, ClientRequest};
use service_config::CONFIGURED_KIND;

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
        let ConfiguredEndpoint { mut service, model, max_output_tokens, .. } =
            service_of_backend(&spec.backend).map_err(wrong)?;
        if !spec.fallbacks.is_empty() {
            service.retries = 0;
        }
        let model = spec.model.clone().or(model);
        let model = model.ok_or_else(|| {
            wrong("it needs a model: name one in the agent's file or in the call".to_owned())
        })?;
        let request = ClientRequest {
            id: 0,
            request: ModelRequest {
                model,
                system: spec.system_prompt.trim().to_owned(),
                messages: vec![Message::User { text: schema_prompt::prompt_with_schema(spec) }],
                tools: Vec::new(),
                tool_choice: ToolChoice::Allowed,
                max_output_tokens,
                temperature: spec.setup.temperature.map(domain::setup::Temperature::degrees),
                output_schema: None,
            },
            timeout_ms: spec.limits.timeout_ms,
            // The worker watches for silence itself.
            idle_ms: spec.limits.timeout_ms,
        };
        let key_file = spec.setup.key_file.as_deref();
        let mut client = model_client::launch(&service, key_file, context.current_exe, AtEndOfInput::Finish);
        client.input.extend(model_client::encode_request(request));
        Ok(LaunchPlan::Process(ProcessLaunch {
            argv: client.argv,
            env: Vec::new(),
            optional_env: client.optional_env,
            env_overrides: client.env_overrides,
            feed: StdinFeed::Whole(client.input),
            directory: None,
            files: Vec::new(),
            reader: Box::new(reader::ApiStream::new(spec.setup.output_schema.is_some())),
        }))
    }
}

#[cfg(test)]
mod tests;
