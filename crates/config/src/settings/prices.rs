//! `[prices."MODEL"]`: the user's own price for a model, in US dollars per million tokens.

use std::collections::BTreeMap;

use domain::price::Price;

use super::read::sections;
use crate::text::{Diagnostics, Fields, Node, read_usd};

pub(super) fn read(node: &Node, diagnostics: &mut Diagnostics<'_>) -> BTreeMap<String, Price> {
    let mut prices = BTreeMap::new();
    for entry in sections(node, "prices", diagnostics) {
        let within = format!("prices.{}", domain::size::head(&entry.key, 64));
        if entry.key.trim().is_empty() {
            diagnostics.error(entry.location, "prices: the name of a model is empty");
            continue;
        }
        let Some(mut fields) = Fields::open(&entry.node, &within, diagnostics) else { continue };
        let errors_before = diagnostics.errors();
        let mut read_price = |key| {
            let node = fields.take(key)?;
            read_usd(node, &fields.name(key), diagnostics)
        };
        let (input, output) = (read_price("input"), read_price("output"));
        let (cache_read, cache_write) = (read_price("cache_read"), read_price("cache_write"));
        fields.close(diagnostics);
        if diagnostics.errors() > errors_before {
            continue;
        }
        match (input, output) {
            (Some(input), Some(output)) => {
                let price = Price { input, output, cache_read, cache_write };
                prices.insert(entry.key.clone(), price);
            }
            _ => diagnostics.error_with_hint(
                entry.location,
                format!("{within}: a price has input and output"),
                "in US dollars per million tokens",
            ),
        }
    }
    prices
}
