//! Looks up prices in the bundled list of published prices of hosted models, in US dollars.
//!
//! The list is a text inside the program, in an order that a lookup can search without reading it first:
//! `scripts/update-prices` writes it from the data of the crate `genai-prices`, which itself is only part of the tests.

mod model_rules;
mod table;

use std::time::SystemTime;

use domain::price::Price;

use crate::contract::PriceList;
use table::{ListedModel, PriceProvider};

/// The published price of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublishedPrice {
    pub provider: &'static str,
    pub model: &'static str,
    pub price: Price,
}

/// The origin of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListOrigin {
    /// The name and version of the collection that the prices are from.
    pub source: &'static str,
    /// The day on which that version was published: `YYYY-MM-DD`.
    pub date: &'static str,
}

/// Returns the price of a model at some time; `None` if the list does not have it.
///
/// It is the price of a short request: the total usage of a run does not show how long each of its requests was, so no
/// surcharge for long ones can be computed.
pub fn look_up(list: PriceList, model: &str, at: SystemTime) -> Option<Price> {
    let model = model.to_lowercase();
    let provider = match list {
        PriceList::Unlisted => return None,
        PriceList::Provider(id) => PriceProvider::by_id(id),
        PriceList::ByModel => PriceProvider::by_model(&model),
    };
    find_model(provider?, &model)?.price(at)
}

/// Returns the prices at some time of all listed models, by provider.
pub fn published(at: SystemTime) -> Vec<PublishedPrice> {
    let models =
        PriceProvider::all().flat_map(|provider| provider.models().map(move |model| (provider, model)));
    let priced = models.filter_map(|(provider, model)| {
        Some(PublishedPrice { provider: provider.id, model: model.id, price: model.price(at)? })
    });
    priced.collect()
}

/// Returns the entry by which each provider prices a model of this name. No provider's entry may have the name itself:
/// `gpt-5-2025-08-07` is priced as `gpt-5`.
pub fn published_for(model: &str, at: SystemTime) -> Vec<PublishedPrice> {
    let name = model.to_lowercase();
    let found = PriceProvider::all().filter_map(|provider| {
        let model = find_in(provider, &name)?;
        Some(PublishedPrice { provider: provider.id, model: model.id, price: model.price(at)? })
    });
    found.collect()
}

/// Returns where the list is from, and how old it is.
pub fn list_origin() -> ListOrigin {
    table::origin()
}

/// Finds the model in the provider's list, or in those of the providers whose models it also serves.
fn find_model(provider: PriceProvider, model: &str) -> Option<ListedModel> {
    let find = |name: &str| {
        let lent = || provider.fallbacks().filter_map(PriceProvider::by_id);
        provider.find(name).or_else(|| lent().find_map(|lender| lender.find(name)))
    };
    find(model).or_else(|| find(&model_rules::with_dashed_date(model)?))
}

/// Finds the model in the provider's own list.
fn find_in(provider: PriceProvider, model: &str) -> Option<ListedModel> {
    provider.find(model).or_else(|| provider.find(&model_rules::with_dashed_date(model)?))
}

#[cfg(test)]
mod tests;
