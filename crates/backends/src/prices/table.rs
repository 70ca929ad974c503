//! Reads the generated list of prices, `table.txt`, in place.
//!
//! Its first line names the source, its version and its date. A section follows per provider: a line with its id, the
//! length of the section in bytes, the rules by which the name of a model leads to the provider, and the providers whose
//! models it also serves; then a line per model with its id, its rules (without any, the id itself) and its prices.
//! Prices are dollars per million tokens of input, of output, and of input read from and written to a cache where these
//! differ. Behind `;` follow those from a day on (`@2026-03-13`) or at a time of day (`%01:00-04:00`), both in UTC; the
//! last one that applies counts.

use std::time::{SystemTime, UNIX_EPOCH};

use domain::price::Price;

use super::{ListOrigin, model_rules};

const TABLE: &str = include_str!("table.txt");

const MINUTES_PER_DAY: u64 = 24 * 60;

/// A provider and its models.
#[derive(Debug, Clone, Copy)]
pub(super) struct PriceProvider {
    pub(super) id: &'static str,
    rules: &'static str,
    fallbacks: &'static str,
    models: &'static str,
}

impl PriceProvider {
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let mut rest = TABLE.split_once('\n').map_or("", |(_, sections)| sections);
        std::iter::from_fn(move || {
            let (line, after) = rest.split_once('\n')?;
            let [id, length, rules, fallbacks] = fields(line)?;
            let (models, next) = after.split_at_checked(length.parse().ok()?)?;
            rest = next;
            Some(Self { id, rules, fallbacks, models })
        })
    }

    pub(super) fn by_id(id: &str) -> Option<Self> {
        Self::all().find(|provider| provider.id == id)
    }

    pub(super) fn by_model(model: &str) -> Option<Self> {
        Self::all().find(|provider| model_rules::fits(provider.rules, model))
    }

    pub(super) fn fallbacks(self) -> impl Iterator<Item = &'static str> {
        self.fallbacks.split_whitespace()
    }

    pub(super) fn models(self) -> impl Iterator<Item = ListedModel> {
        self.models.lines().filter_map(|line| {
            let [id, rules, prices] = fields(line)?;
            Some(ListedModel { id, rules, prices })
        })
    }

    /// Returns the first model whose rules fit the name, which is in lower case.
    pub(super) fn find(self, name: &str) -> Option<ListedModel> {
        self.models().find(|model| model.has_name(name))
    }
}

/// A model of a provider.
#[derive(Debug, Clone, Copy)]
pub(super) struct ListedModel {
    pub(super) id: &'static str,
    rules: &'static str,
    prices: &'static str,
}

impl ListedModel {
    fn has_name(self, name: &str) -> bool {
        match self.rules {
            "" => self.id.eq_ignore_ascii_case(name),
            rules => model_rules::fits(rules, name),
        }
    }

    /// Returns the price at some time; `None` if something other than tokens is billed, or the price is not known yet.
    pub(super) fn price(self, at: SystemTime) -> Option<Price> {
        let in_force = self.prices.rsplit(';').find_map(|entry| {
            let Some(condition) = entry.strip_prefix(['@', '%']) else { return Some(entry) };
            let (condition, rates) = condition.split_once(' ')?;
            let applies =
                if entry.starts_with('@') { is_after(condition, at) } else { is_within(condition, at) };
            applies.then_some(rates)
        });
        read_rates(in_force?).filter(|price| price.input > 0 || price.output > 0)
    }
}

/// Returns the source of the list.
pub(super) fn origin() -> ListOrigin {
    let line = TABLE.lines().next().unwrap_or_default();
    let (source, date) = line.rsplit_once(' ').unwrap_or((line, ""));
    ListOrigin { source, date }
}

fn fields<const COUNT: usize>(line: &'static str) -> Option<[&'static str; COUNT]> {
    let mut fields = line.splitn(COUNT, '\t');
    let mut all = [""; COUNT];
    for field in &mut all {
        *field = fields.next()?;
    }
    Some(all)
}

fn read_rates(rates: &str) -> Option<Price> {
    let mut rates = rates.split(' ');
    let (input, output) = (microusd(rates.next()?)?, microusd(rates.next()?)?);
    let mut cached = || rates.next().filter(|rate| *rate != "-").map_or(Some(input), microusd);
    Some(Price { input, output, cache_read: cached(), cache_write: cached() })
}

/// Reads dollars with up to six decimals.
fn microusd(dollars: &str) -> Option<u64> {
    let (whole, decimals) = dollars.split_once('.').unwrap_or((dollars, ""));
    let fraction = format!("{decimals:0<6}").parse::<u64>().ok()?;
    Some(whole.parse::<u64>().ok()? * 1_000_000 + fraction)
}

fn is_after(day: &str, at: SystemTime) -> bool {
    let start = format!("{day}T00:00:00Z").parse::<domain::Timestamp>();
    start.is_ok_and(|start| at >= SystemTime::from(start))
}

/// Returns whether a time is between two times of day. The second one may be after midnight.
fn is_within(times: &str, at: SystemTime) -> bool {
    let minute = |time: &str| {
        let (hours, minutes) = time.split_once(':')?;
        Some(hours.parse::<u64>().ok()? * 60 + minutes.parse::<u64>().ok()?)
    };
    let Some((start, end)) = times.split_once('-') else { return false };
    let (Some(start), Some(end)) = (minute(start), minute(end)) else { return false };
    let now = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() / 60 % MINUTES_PER_DAY;
    if start <= end { (start..end).contains(&now) } else { now >= start || now < end }
}
