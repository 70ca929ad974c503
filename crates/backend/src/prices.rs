//! The list of prices that comes with the program: published prices of hosted models, in US dollars. It is read when the
//! first price is asked for, which takes some 80 ms and 18 MB, so only where a run has ended.

use std::time::SystemTime;

use domain::price::Price;
use genai_prices::{PriceRequest, Usage, UsageKey};

use crate::contract::PriceList;

/// How many tokens a price is asked for. Few enough for the price of a short request: what a run used in all does not
/// tell how long each of its requests was, so that no surcharge for long ones can be computed.
const ASKED_TOKENS: u32 = 1_000;

/// Returns what a model cost at some time; nothing if the list does not know it.
pub fn listed(list: PriceList, model: &str, at: SystemTime) -> Option<Price> {
    let provider = match list {
        PriceList::Unlisted => return None,
        PriceList::Of(provider) => Some(provider),
        PriceList::ByModel => None,
    };
    let tokens = f64::from(ASKED_TOKENS);
    let price = |keys: &[UsageKey]| {
        let usage: Usage = keys.iter().map(|key| (key.clone(), tokens)).collect();
        let mut request = PriceRequest::new(model, &usage).with_timestamp(at);
        request.provider_id = provider;
        let calculation = genai_prices::calculate(&request).ok()?;
        in_microusd(calculation.total_price / tokens * 1e6)
    };
    let input = price(&[UsageKey::INPUT_TOKENS])?;
    let output = price(&[UsageKey::OUTPUT_TOKENS])?;
    if input == 0 && output == 0 {
        // Something else than tokens is paid for, or the price is not known yet.
        return None;
    }
    Some(Price {
        input,
        output,
        cache_read: price(&[UsageKey::INPUT_TOKENS, UsageKey::CACHE_READ_TOKENS]),
        // As most programs write them: for minutes, not for an hour.
        cache_write: price(&[UsageKey::INPUT_TOKENS, UsageKey::CACHE_WRITE_TOKENS]),
    })
}

fn in_microusd(usd: f64) -> Option<u64> {
    let microusd = (usd * 1e6).round();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked; it saturates")]
    (microusd.is_finite() && microusd >= 0.0).then_some(microusd as u64)
}

#[cfg(test)]
mod tests;
