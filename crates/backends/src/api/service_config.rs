//! The configuration of a service: which one, where it is, and which variables hold its key. Holds names of secrets,
//! never values.

use domain::run::BackendSpec;
use serde::{Deserialize, Serialize};

use super::providers::{self, Provider, ProviderQuirks};
use super::wire::Wire;

/// How often a service without capacity is retried, unless there is a fallback.
pub(super) const RETRIES: u32 = 3;
/// The kind of a backend that a configuration defines.
pub(super) const CONFIGURED_KIND: &str = "api";

/// A service, as its client process is told about it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServiceConfig {
    /// The service's name, for messages.
    pub name: String,
    pub(super) wire: Wire,
    pub(super) quirks: ProviderQuirks,
    pub(super) address: String,
    /// A variable that holds another address, if it is set.
    pub(super) address_variable: Option<String>,
    /// The variables that may hold the key; the first that is set wins.
    pub keys: Vec<String>,
    /// How often a service without capacity is retried.
    pub retries: u32,
}

/// A service, and what its configuration sets for requests.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfiguredEndpoint {
    pub service: ServiceConfig,
    /// The model, unless the run names one.
    pub model: Option<String>,
    pub max_output_tokens: Option<u32>,
    /// Whether the service's own list of prices applies: it does not at another address.
    pub has_listed_prices: bool,
}

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

impl ServiceConfig {
    /// Returns whether requests may contain tools.
    pub fn supports_tools(&self) -> bool {
        self.wire.supports_tools()
    }

    /// Returns the name of the protocol, as answers record it.
    pub fn wire_name(&self) -> &'static str {
        self.wire.name()
    }

    fn new(name: String, provider: &Provider, own: Option<&Options>) -> Self {
        let elsewhere = own.and_then(|options| options.base_url.clone());
        // A service's own key goes to that service only; another address gets the key that is configured for it.
        let keys = match (own.and_then(|options| options.key_env.clone()), &elsewhere) {
            (Some(key), _) => vec![key],
            (None, Some(_)) => Vec::new(),
            (None, None) => provider.keys.iter().map(|key| (*key).to_owned()).collect(),
        };
        Self {
            name,
            wire: provider.wire,
            quirks: provider.quirks,
            address_variable: elsewhere.is_none().then(|| provider.address_variable.to_owned()),
            address: elsewhere.unwrap_or_else(|| provider.address.to_owned()),
            keys,
            retries: RETRIES,
        }
    }
}

/// Returns the service with this name, such as `anthropic`, or of this backend, such as `api-anthropic`.
pub fn known_service(name: &str) -> Option<ConfiguredEndpoint> {
    let provider = providers::by_name(name).or_else(|| providers::by_backend(name))?;
    Some(ConfiguredEndpoint {
        service: ServiceConfig::new(name.to_owned(), provider, None),
        model: None,
        max_output_tokens: None,
        has_listed_prices: true,
    })
}

/// Returns the service of a backend: one that is known by its kind, or one that a configuration describes.
pub fn service_of_backend(backend: &BackendSpec) -> Result<ConfiguredEndpoint, String> {
    let name = backend.name.to_string();
    if let Some(provider) = providers::by_backend(&backend.kind) {
        let service = ServiceConfig::new(name, provider, None);
        return Ok(ConfiguredEndpoint {
            service,
            model: None,
            max_output_tokens: None,
            has_listed_prices: true,
        });
    }
    if backend.kind != CONFIGURED_KIND {
        return Err(format!("{name} is not a model service: its kind is {}", backend.kind));
    }
    let options: Options =
        serde_json::from_value(backend.options.clone()).map_err(|error| error.to_string())?;
    let provider =
        providers::by_name(&options.api).ok_or_else(|| format!("there is no service {:?}", options.api))?;
    Ok(ConfiguredEndpoint {
        service: ServiceConfig::new(name, provider, Some(&options)),
        has_listed_prices: false,
        model: options.model,
        max_output_tokens: options.max_tokens,
    })
}
