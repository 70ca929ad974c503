//! Prices as the vendors published them.

use std::collections::BTreeSet;
use std::time::{Duration, UNIX_EPOCH};

use domain::price::Price;
use genai_prices::{PriceRequest, Usage, UsageKey};

use super::*;

/// 2026-11-15.
fn then() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_794_700_800)
}

#[test]
fn the_price_of_a_known_model_is_the_published_one() {
    let price = |list, model| look_up(list, model, then()).unwrap();
    let sonnet = Price {
        input: 3_000_000,
        output: 15_000_000,
        cache_read: Some(300_000),
        cache_write: Some(3_750_000),
    };
    assert_eq!(price(PriceList::Provider("anthropic"), "claude-sonnet-4-5-20250929"), sonnet);
    assert_eq!(price(PriceList::ByModel, "claude-sonnet-4-5"), sonnet);
    let gpt = Price {
        input: 1_250_000,
        output: 10_000_000,
        cache_read: Some(125_000),
        // Writing to the cache costs the same as any other input.
        cache_write: Some(1_250_000),
    };
    assert_eq!(price(PriceList::Provider("openai"), "gpt-5"), gpt);
    let flash =
        Price { input: 300_000, output: 2_500_000, cache_read: Some(30_000), cache_write: Some(300_000) };
    assert_eq!(price(PriceList::Provider("google"), "gemini-2.5-flash"), flash);
}

#[test]
fn an_unlisted_model_has_no_price() {
    for (list, model) in [
        (PriceList::Provider("openai"), "fake-model"),
        (PriceList::Provider("openai"), "claude-sonnet-4-5"),
        (PriceList::Provider("nobody"), "gpt-5"),
        (PriceList::ByModel, "fake-model"),
        (PriceList::ByModel, ""),
        (PriceList::Unlisted, "gpt-5"),
    ] {
        assert_eq!(look_up(list, model, then()), None, "{list:?} {model}");
    }
}

/// The library's answer, which the table must give without it.
fn library_price(list: PriceList, model: &str, at: SystemTime) -> Option<Price> {
    let provider = match list {
        PriceList::Unlisted => return None,
        PriceList::Provider(provider) => Some(provider),
        PriceList::ByModel => None,
    };
    let tokens = 1_000.0;
    let price = |keys: &[UsageKey]| {
        let usage: Usage = keys.iter().map(|key| (key.clone(), tokens)).collect();
        let mut request = PriceRequest::new(model, &usage).with_timestamp(at);
        request.provider_id = provider;
        let dollars = genai_prices::calculate(&request).ok()?.total_price / tokens * 1e6;
        Some((dollars * 1e6).round() as u64)
    };
    let input = price(&[UsageKey::INPUT_TOKENS])?;
    let output = price(&[UsageKey::OUTPUT_TOKENS])?;
    if input == 0 && output == 0 {
        return None;
    }
    Some(Price {
        input,
        output,
        cache_read: price(&[UsageKey::INPUT_TOKENS, UsageKey::CACHE_READ_TOKENS]),
        cache_write: price(&[UsageKey::INPUT_TOKENS, UsageKey::CACHE_WRITE_TOKENS]),
    })
}

/// The ways in which backends look up prices.
fn price_lists() -> BTreeSet<PriceList> {
    let backends = crate::registry::built_in().into_iter().filter_map(crate::registry::by_kind);
    let named = backends.map(|backend| backend.capabilities(&serde_json::Value::Null).prices);
    named.chain([PriceList::ByModel]).collect()
}

/// The names of all models that the library knows, and all texts that the table's rules are about.
fn model_names() -> BTreeSet<String> {
    let providers = genai_prices::Calculator::bundled().providers();
    let ids = providers.flat_map(|provider| provider.models()).map(|model| model.id().to_owned());
    let rules = include_str!("table.txt").lines().flat_map(|line| line.split(['\t', ' ', '&']));
    let texts = rules.filter_map(|term| term.trim_start_matches('!').strip_prefix(['=', '^', '$', '~']));
    ids.chain(texts.map(|text| text.replace('#', "7"))).collect()
}

/// How programs write names of models in other ways.
const SHAPES: [fn(&str) -> String; 6] = [
    |name| name.to_uppercase(),
    |name| format!("{name}-20251211"),
    |name| format!("{name}-20251311"),
    |name| format!("{name}-2025-12-11-tts"),
    |name| format!("{name}-tts-x:free"),
    |name| format!("openai/{name}"),
];

#[test]
fn the_table_and_the_library_agree_about_every_model() {
    let lists = price_lists();
    let plain = model_names();
    let reshaped = plain.iter().flat_map(|name| SHAPES.iter().map(|shape| shape(name)));
    // A provider's own list is searched in the same way, so that plain names are enough there.
    let by_model = reshaped.map(|name| (PriceList::ByModel, name));
    let by_list = plain.iter().flat_map(|name| lists.iter().map(|list| (*list, name.clone())));
    let mut priced = 0;
    let mut differences = Vec::new();
    for (list, name) in by_list.chain(by_model) {
        let (expected, found) = (library_price(list, &name, then()), look_up(list, &name, then()));
        if found != expected {
            differences.push(format!("{list:?} {name}: {found:?}, not {expected:?}"));
        }
        priced += usize::from(found.is_some());
    }
    let shown = differences.iter().take(20).cloned().collect::<Vec<_>>().join("\n");
    assert!(differences.is_empty(), "{} differ: run scripts/update-prices\n{shown}", differences.len());
    assert!(priced > 1_000, "only {priced} names have a price");
}

/// Prices that depend on the day or the hour change when those of the library do.
#[test]
fn prices_change_when_those_of_the_library_do() {
    let text = include_str!("table.txt");
    let days = text.split(['\t', ';', ' ']).filter_map(|word| word.strip_prefix('@'));
    let days: BTreeSet<domain::Timestamp> =
        days.map(|day| format!("{day}T00:00:00Z").parse().unwrap()).collect();
    let days = days.into_iter().map(SystemTime::from).flat_map(|day| [day - Duration::from_nanos(1), day]);
    let hours = (0..48).map(|half| then() + Duration::from_secs(half * 1_800));
    let moments: Vec<SystemTime> = days.chain(hours).collect();
    let changing: Vec<&str> = text.lines().filter(|line| line.contains(';')).collect();
    assert!(changing.len() > 20, "{changing:?}");
    for line in changing {
        let model = line.split('\t').next().unwrap();
        for list in price_lists() {
            // Models of other providers are covered above.
            if look_up(list, model, then()).is_none() {
                continue;
            }
            for at in &moments {
                let (expected, found) = (library_price(list, model, *at), look_up(list, model, *at));
                assert_eq!(found, expected, "{list:?} {model} {at:?}");
            }
        }
    }
}

#[test]
fn the_table_is_of_the_library_in_the_lock_file() {
    let lock = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.lock")).unwrap();
    let after = lock.split_once("name = \"genai-prices\"\nversion = \"").unwrap().1;
    let version = after.split_once('"').unwrap().0;
    let ListOrigin { source, date } = list_origin();
    assert_eq!(source, format!("genai-prices {version}"), "run scripts/update-prices");
    assert!(format!("{date}T00:00:00Z").parse::<domain::Timestamp>().is_ok(), "{date}");
}

#[test]
fn each_provider_that_a_backend_names_is_in_the_list() {
    for list in price_lists() {
        if let PriceList::Provider(id) = list {
            assert!(PriceProvider::by_id(id).is_some(), "{id}: run scripts/update-prices");
        }
    }
}

#[test]
fn all_lines_of_the_table_can_be_read() {
    let lines = include_str!("table.txt").lines().count();
    let models: usize = PriceProvider::all().map(|provider| provider.models().count()).sum();
    assert_eq!(1 + PriceProvider::all().count() + models, lines);
}

#[test]
fn a_name_is_shown_with_the_entry_that_prices_it() {
    let found = published_for("GPT-5-20250807", then());
    let openai = found.iter().find(|found| found.provider == "openai").unwrap();
    assert_eq!((openai.model, openai.price.input), ("gpt-5", 1_250_000));
    assert_eq!(published_for("fake-model", then()), []);
}
