//! Writes `src/prices/table.txt` from the price data of the crate `genai-prices`: standard input is its JSON, the arguments
//! are its version and the day it was published. `scripts/update-prices` calls it.
//!
//! Only providers that a run can be priced by are written: those that a backend names, those that a model's name leads to,
//! and their fallbacks. A rule or price that the table cannot express is an error, never left out.

mod pattern;

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};

use anyhow::{Context as _, Result, bail, ensure};
use backends::contract::PriceList;
use serde_json::Value;

/// The longest request that a price is for, in tokens; see `prices::look_up`.
const REQUEST_TOKENS: u64 = 1_000;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [version, day] = &arguments[..] else { bail!("usage: price_table VERSION YYYY-MM-DD < prices.json") };
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let providers: Vec<Value> = serde_json::from_str(&text)?;
    let wanted = wanted_providers(&providers);
    let mut table = format!("genai-prices {version} {day}\n");
    for provider in &providers {
        let id = text_field(provider, "id")?;
        if wanted.contains(id) {
            let section = section(provider).with_context(|| format!("provider {id}"))?;
            table.push_str(&section);
        }
    }
    std::io::stdout().write_all(table.as_bytes())?;
    Ok(())
}

fn wanted_providers(providers: &[Value]) -> BTreeSet<&str> {
    let mut wanted = BTreeSet::new();
    for kind in backends::registry::built_in() {
        let backend = backends::registry::by_kind(kind).expect("it is in the list");
        if let PriceList::Provider(id) = backend.capabilities(&Value::Null).prices {
            wanted.insert(id);
        }
    }
    let found_by_model = providers.iter().filter(|provider| provider.get("model_match").is_some());
    wanted.extend(found_by_model.filter_map(|provider| provider["id"].as_str()));
    for provider in providers {
        if provider["id"].as_str().is_some_and(|id| wanted.contains(id)) {
            wanted.extend(fallbacks(provider));
        }
    }
    wanted
}

fn fallbacks(provider: &Value) -> Vec<&str> {
    let list = provider["fallback_model_providers"].as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter().filter_map(Value::as_str).collect()
}

/// Returns the line of a provider and those of its models.
fn section(provider: &Value) -> Result<String> {
    let mut models = String::new();
    for model in provider["models"].as_array().context("no models")? {
        let id = text_field(model, "id")?;
        let line = model_line(id, model).with_context(|| format!("model {id}"))?;
        models.push_str(&line);
    }
    let id = text_field(provider, "id")?;
    let rules = provider.get("model_match").map(pattern::rules).transpose()?.unwrap_or_default();
    Ok(format!("{id}\t{}\t{rules}\t{}\n{models}", models.len(), fallbacks(provider).join(" ")))
}

fn model_line(id: &str, model: &Value) -> Result<String> {
    ensure!(!id.contains(char::is_whitespace), "white space in the id");
    let rules = pattern::rules(&model["match"])?;
    // Most models are found by their id alone.
    let rules = if rules == format!("={}", id.to_lowercase()) { "" } else { &rules };
    let prices = match &model["prices"] {
        Value::Array(list) => list.iter().map(conditional_price).collect::<Result<Vec<_>>>()?.join(";"),
        direct => rates(direct)?,
    };
    Ok(format!("{id}\t{rules}\t{prices}\n"))
}

fn conditional_price(value: &Value) -> Result<String> {
    let rates = rates(&value["prices"])?;
    let Some(constraint) = value.get("constraint") else { return Ok(rates) };
    if let Some(day) = constraint["start_date"].as_str() {
        return Ok(format!("@{day} {rates}"));
    }
    let time = |key: &str| -> Result<&str> {
        let time = text_field(constraint, key)?;
        time.strip_suffix(":00Z").filter(|time| time.len() == 5).context("a time of day other than HH:MM:00Z")
    };
    Ok(format!("%{}-{} {rates}", time("start_time")?, time("end_time")?))
}

/// Returns the prices in dollars per million tokens: input, output, and if they differ from input, of input read from and
/// written to a cache.
fn rates(prices: &Value) -> Result<String> {
    // A fee per request counts as if each request had that many tokens.
    let fee = rate(prices, "requests_kcount")?.unwrap_or_default();
    let rate = |key: &str| anyhow::Ok(rate(prices, key)?.map(|rate| rate + fee));
    let input = rate("input_mtok")?.unwrap_or(fee);
    let output = rate("output_mtok")?.unwrap_or(fee);
    let mut shown = vec![dollars(input), dollars(output)];
    let read = rate("cache_read_mtok")?.filter(|read| *read != input);
    let write = rate("cache_write_mtok")?.filter(|write| *write != input);
    match (read, write) {
        (None, None) => {}
        (Some(read), None) => shown.push(dollars(read)),
        (read, Some(write)) => {
            shown.push(read.map_or_else(|| "-".to_owned(), dollars));
            shown.push(dollars(write));
        }
    }
    Ok(shown.join(" "))
}

/// Returns a rate in millionths of a dollar, that of the shortest requests if it depends on their length.
fn rate(prices: &Value, key: &str) -> Result<Option<u64>> {
    let Some(value) = prices.get(key) else { return Ok(None) };
    for tier in value["tiers"].as_array().map(Vec::as_slice).unwrap_or_default() {
        ensure!(tier["start"].as_u64() > Some(REQUEST_TOKENS), "{key}: a surcharge for short requests");
    }
    let base = value.get("base").unwrap_or(value);
    let microusd = (base.as_f64().with_context(|| format!("{key}: not a number"))? * 1e6).round();
    ensure!(microusd >= 0.0, "{key}: a negative price");
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a price is far below 2^53")]
    Ok(Some(microusd as u64))
}

fn dollars(microusd: u64) -> String {
    let text = format!("{}.{:06}", microusd / 1_000_000, microusd % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn text_field<'a>(value: &'a Value, key: &str) -> Result<&'a str> {
    value[key].as_str().with_context(|| format!("{key}: not a text"))
}
