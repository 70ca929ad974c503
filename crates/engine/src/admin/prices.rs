//! The prices by which costs are computed: the user's own, and the bundled list of published ones. Needs no state directory.

use backends::prices::{self, ListOrigin, PublishedPrice};
use domain::agent::Layer;
use domain::nearest::nearest;
use domain::price::Price;
use serde::Serialize;

use crate::api::EngineError;
use crate::clock;
use crate::registry;

/// Prices, and the origin of the list of published ones.
#[derive(Debug, Clone, Serialize)]
pub struct PricesView {
    /// The collection that the published prices are from, and its version.
    pub source: &'static str,
    /// The day on which that version was published.
    pub date: &'static str,
    pub prices: Vec<ModelPrice>,
}

/// The price of a model, in US dollars per million tokens.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelPrice {
    pub model: String,
    /// The service that charges this price; absent for a configured price, which holds for all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<&'static str>,
    pub input: f64,
    pub output: f64,
    pub cache_read: f64,
    pub cache_write: f64,
    /// The layer of the configuration that sets the price, or the default layer for a published one.
    pub layer: Layer,
    /// The configuration file that sets the price.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

/// Returns the prices in a directory: of all models, or of those that a name stands for or is part of.
pub fn read_prices(directory: &str, model: Option<&str>) -> Result<PricesView, EngineError> {
    let directory =
        registry::resolve_directory(directory).map_err(|error| EngineError::usage(error.to_string()))?;
    let config = registry::load_config(&registry::find_project(&directory)).config;
    let at = clock::now().into();
    let mut all: Vec<ModelPrice> = Vec::new();
    for (model, setting) in &config.prices {
        let configured = ModelPrice::new(model, &setting.value, setting.layer);
        all.push(ModelPrice { file: Some(setting.file.clone()), ..configured });
    }
    // A configured price holds for every provider, so a published one under the same name is never used.
    let in_force = |entry: &PublishedPrice| !config.prices.contains_key(entry.model);
    all.extend(prices::published(at).into_iter().filter(in_force).map(ModelPrice::from));
    let ListOrigin { source, date } = prices::list_origin();
    let Some(name) = model else { return Ok(PricesView { source, date, prices: all }) };
    let shown = select(all, name, prices::published_for(name, at));
    if shown.is_empty() {
        let names: Vec<&str> = prices::published(at).into_iter().map(|entry| entry.model).collect();
        let error = EngineError::not_found(format!("no price of a model {name:?} is known"));
        let near = nearest(name, names.iter().copied()).map(|near| format!("did you mean {near}? "));
        let hint = format!("{}a [prices.{name:?}] in your configuration sets one", near.unwrap_or_default());
        return Err(error.hint(hint));
    }
    Ok(PricesView { source, date, prices: shown })
}

/// Returns the entries whose names contain a text, and those by which a model of that name is priced.
fn select(all: Vec<ModelPrice>, name: &str, matching: Vec<PublishedPrice>) -> Vec<ModelPrice> {
    let part = name.to_lowercase();
    let is_match = |entry: &ModelPrice| {
        let by_rule =
            |found: &PublishedPrice| Some(found.provider) == entry.provider && found.model == entry.model;
        entry.model.to_lowercase().contains(&part) || matching.iter().any(by_rule)
    };
    all.into_iter().filter(is_match).collect()
}

impl ModelPrice {
    fn new(model: &str, price: &Price, layer: Layer) -> Self {
        let dollars = |microusd: u64| microusd as f64 / 1e6;
        let Price { input, output, cache_read, cache_write } = *price;
        Self {
            model: model.to_owned(),
            provider: None,
            input: dollars(input),
            output: dollars(output),
            cache_read: dollars(cache_read.unwrap_or(input)),
            cache_write: dollars(cache_write.unwrap_or(input)),
            layer,
            file: None,
        }
    }
}

impl From<PublishedPrice> for ModelPrice {
    fn from(entry: PublishedPrice) -> Self {
        let PublishedPrice { provider, model, price } = entry;
        Self { provider: Some(provider), ..Self::new(model, &price, Layer::Default) }
    }
}
