//! Prices as the vendors published them.

use std::time::{Duration, UNIX_EPOCH};

use domain::price::Price;

use super::*;

/// 2026-11-15.
fn then() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_794_700_800)
}

#[test]
fn the_price_of_a_known_model_is_the_published_one() {
    let price = |list, model| listed(list, model, then()).unwrap();
    let sonnet = Price {
        input: 3_000_000,
        output: 15_000_000,
        cache_read: Some(300_000),
        cache_write: Some(3_750_000),
    };
    assert_eq!(price(PriceList::Of("anthropic"), "claude-sonnet-4-5-20250929"), sonnet);
    assert_eq!(price(PriceList::ByModel, "claude-sonnet-4-5"), sonnet);
    let gpt = Price {
        input: 1_250_000,
        output: 10_000_000,
        cache_read: Some(125_000),
        // What is put there costs as any other input.
        cache_write: Some(1_250_000),
    };
    assert_eq!(price(PriceList::Of("openai"), "gpt-5"), gpt);
    let flash =
        Price { input: 300_000, output: 2_500_000, cache_read: Some(30_000), cache_write: Some(300_000) };
    assert_eq!(price(PriceList::Of("google"), "gemini-2.5-flash"), flash);
}

#[test]
fn a_model_that_nobody_lists_has_no_price() {
    for (list, model) in [
        (PriceList::Of("openai"), "fake-model"),
        (PriceList::Of("openai"), "claude-sonnet-4-5"),
        (PriceList::Of("nobody"), "gpt-5"),
        (PriceList::ByModel, "fake-model"),
        (PriceList::ByModel, ""),
        (PriceList::Unlisted, "gpt-5"),
    ] {
        assert_eq!(listed(list, model, then()), None, "{list:?} {model}");
    }
}

#[test]
fn each_provider_that_a_backend_names_is_in_the_list() {
    let known = |list| match list {
        PriceList::Of(provider) => {
            genai_prices::Calculator::bundled().find_provider(Some(provider), None).unwrap().is_some()
        }
        PriceList::ByModel | PriceList::Unlisted => true,
    };
    for backend in crate::registry::built_in() {
        let backend = crate::registry::by_kind(backend).unwrap();
        let list = backend.capabilities(&serde_json::Value::Null).prices;
        assert!(known(list), "{}: {list:?}", backend.kind());
    }
}
