//! Formats ages, durations, amounts of money and counts for people.

use domain::Timestamp;
use domain::duration::display_ms;
use domain::run::{Cost, CostBasis};

/// Formats the time since a timestamp in its largest unit: `12s`, `5m`, `3h`, `2d`.
pub(crate) fn age(now: Timestamp, moment: &str) -> String {
    let Ok(moment) = moment.parse::<Timestamp>() else { return "?".to_owned() };
    let seconds = now.as_second().saturating_sub(moment.as_second()).max(0);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Formats a timestamp to the millisecond; other text is returned unchanged.
pub(crate) fn moment(text: &str) -> String {
    match text.parse::<Timestamp>() {
        Ok(moment) => moment.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
        Err(_) => text.to_owned(),
    }
}

pub(crate) fn span(ms: u64) -> String {
    display_ms(ms)
}

/// Formats an amount of money; `-` if it is unknown, which is different from zero.
pub(crate) fn money(microusd: Option<u64>) -> String {
    match microusd {
        None => "-".to_owned(),
        Some(micro) if micro >= 1_000_000 => {
            let cents = micro.saturating_add(5_000) / 10_000;
            format!("${}.{:02}", count(cents / 100), cents % 100)
        }
        Some(micro) => {
            let hundredths = micro.saturating_add(50) / 100;
            format!("${}.{:04}", hundredths / 10_000, hundredths % 10_000)
        }
    }
}

/// Formats a cost, and marks it if Volery computed it.
pub(crate) fn cost_with_basis(cost: Cost) -> String {
    let amount = money(Some(cost.microusd));
    match cost.basis {
        CostBasis::Reported => amount,
        CostBasis::Computed => format!("{amount} computed"),
    }
}

/// Formats a number with separated thousands: `12,345`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}
