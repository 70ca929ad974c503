//! `[prices."MODEL"]`: what its user pays for a model, in US dollars per million tokens.

use std::collections::BTreeMap;

use domain::price::Price;

use super::read::sections;
use crate::text::{Fields, Findings, Node, usd};

pub(super) fn read(node: &Node, findings: &mut Findings<'_>) -> BTreeMap<String, Price> {
    let mut prices = BTreeMap::new();
    for entry in sections(node, "prices", findings) {
        let within = format!("prices.{}", domain::size::head(&entry.key, 64));
        if entry.key.trim().is_empty() {
            findings.error(entry.place, "prices: the name of a model is empty");
            continue;
        }
        let Some(mut fields) = Fields::open(&entry.node, &within, findings) else { continue };
        let errors_before = findings.errors();
        let mut amount = |key| {
            let node = fields.take(key)?;
            usd(node, &fields.name(key), findings)
        };
        let (input, output) = (amount("input"), amount("output"));
        let (cache_read, cache_write) = (amount("cache_read"), amount("cache_write"));
        fields.close(findings);
        if findings.errors() > errors_before {
            continue;
        }
        match (input, output) {
            (Some(input), Some(output)) => {
                let price = Price { input, output, cache_read, cache_write };
                prices.insert(entry.key.clone(), price);
            }
            _ => findings.error_with_hint(
                entry.place,
                format!("{within}: a price has input and output"),
                "in US dollars per million tokens",
            ),
        }
    }
    prices
}
