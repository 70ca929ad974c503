//! The backend of directives: a model behind a service's API that calls tools, and Volery itself carries them out. Here
//! is only which service and which model; the engine has the loop.

use domain::permission::Permission;
use domain::run::{BackendSpec, RunSpec};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::api;
use crate::contract::{
    AgentLoopLaunch, Backend, Capabilities, LaunchContext, LaunchPlan, PrepareError, PriceList,
};

/// The name of the backend.
pub const KIND: &str = "loop";

pub struct AgentLoopBackend;

/// What the spec of a run stores for this backend.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Options {
    /// The backend of the service.
    service: BackendSpec,
    /// The model, unless the run names one.
    model: String,
}

/// Returns the options of a run of this backend with this service and model.
pub fn options(service: &BackendSpec, model: &str) -> Value {
    json!(Options { service: service.clone(), model: model.to_owned() })
}

fn options_of_run(options: &Value) -> Result<Options, String> {
    serde_json::from_value(options.clone())
        .map_err(|error| format!("the run's record has no model service: {error}"))
}

impl Backend for AgentLoopBackend {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn capabilities(&self, options: &Value) -> Capabilities {
        let endpoint = options_of_run(options).and_then(|options| api::service_of_backend(&options.service));
        let has_listed_prices = endpoint.is_ok_and(|endpoint| endpoint.has_listed_prices);
        Capabilities {
            system_prompt: true,
            model: true,
            usage: true,
            resumes_from_calls: true,
            enforces_call_limits: true,
            process: true,
            replaces_prompt: true,
            can_skip_project_context: true,
            temperature: true,
            reports_tool_calls: true,
            extra_directories: true,
            prices: if has_listed_prices { PriceList::ByModel } else { PriceList::Unlisted },
            ..Capabilities::default()
        }
    }

    /// Volery itself carries out each call, so it holds it to every rule.
    fn unenforceable(&self, _permission: &Permission, _options: &Value) -> Vec<String> {
        Vec::new()
    }

    fn prepare(&self, spec: &RunSpec, _context: &LaunchContext<'_>) -> Result<LaunchPlan, PrepareError> {
        let wrong = |reason: String| PrepareError { kind: KIND, reason };
        let options = options_of_run(&spec.backend.options).map_err(wrong)?;
        let model = spec.model.clone().unwrap_or(options.model);
        Ok(LaunchPlan::AgentLoop(Box::new(AgentLoopLaunch { service: options.service, model })))
    }
}
