//! Durations in the syntax of Go: `10m0s`, `1h30m`, `1.5s`, `250ms`. In nanoseconds, up to Go's maximum of 292 years.
//! Negative durations are refused.

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
/// The longest duration that Go can represent.
const MAX: u64 = i64::MAX as u64;
/// Further digits after the point are less than a nanosecond in any unit.
const FRACTION_DIGITS_MAX: usize = 18;

/// Parses a duration into nanoseconds.
pub fn parse(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is not a duration; write for example 30s, 5m, 1h30m or 1.5s");
    if text == "0" {
        return Ok(0);
    }
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest.is_empty() {
        return Err(wrong());
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (length, after) = parse_component(rest).ok_or_else(wrong)?;
        total = total.checked_add(length).filter(|total| *total <= MAX).ok_or_else(wrong)?;
        rest = after;
    }
    Ok(total)
}

/// Parses one number with its unit, and returns the rest of the text.
fn parse_component(text: &str) -> Option<(u64, &str)> {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let (whole, rest) = text.split_at(digits(text));
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(digits(rest)),
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let unit_end = rest.find(|letter: char| letter == '.' || letter.is_ascii_digit()).unwrap_or(rest.len());
    let (name, rest) = rest.split_at(unit_end);
    let unit = match name {
        "ns" => 1,
        // Two different characters for micro look alike.
        "us" | "\u{b5}s" | "\u{3bc}s" => MICROSECOND,
        "ms" => MILLISECOND,
        "s" => SECOND,
        "m" => MINUTE,
        "h" => HOUR,
        _ => return None,
    };
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let fraction = &fraction[..fraction.len().min(FRACTION_DIGITS_MAX)];
    let scale = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    let fraction: u128 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
    let fraction = u64::try_from(fraction * u128::from(unit) / scale).ok()?;
    let length = whole.checked_mul(unit)?.checked_add(fraction)?;
    Some((length, rest))
}

/// Formats nanoseconds as Go does.
pub fn display(nanoseconds: u64) -> String {
    match nanoseconds {
        0 => "0s".to_owned(),
        1..MICROSECOND => format!("{nanoseconds}ns"),
        MICROSECOND..MILLISECOND => format!("{}\u{b5}s", format_decimal(nanoseconds, MICROSECOND)),
        MILLISECOND..SECOND => format!("{}ms", format_decimal(nanoseconds, MILLISECOND)),
        SECOND.. => {
            let (hours, minutes) = (nanoseconds / HOUR, nanoseconds % HOUR / MINUTE);
            let seconds = format_decimal(nanoseconds % MINUTE, SECOND);
            match (hours, minutes) {
                (0, 0) => format!("{seconds}s"),
                (0, minutes) => format!("{minutes}m{seconds}s"),
                (hours, minutes) => format!("{hours}h{minutes}m{seconds}s"),
            }
        }
    }
}

/// Formats milliseconds as Go does.
pub fn display_ms(ms: u64) -> String {
    display(ms.saturating_mul(MILLISECOND))
}

/// Parses a duration into milliseconds; fractions of a millisecond are cut off.
pub fn parse_ms(text: &str) -> Result<u64, String> {
    parse(text).map(|nanoseconds| nanoseconds / MILLISECOND)
}

/// Formats a number of units with as few digits after the point as possible.
fn format_decimal(nanoseconds: u64, unit: u64) -> String {
    let (whole, rest) = (nanoseconds / unit, nanoseconds % unit);
    if rest == 0 {
        return whole.to_string();
    }
    let digits = unit.ilog10() as usize;
    let fraction = format!("{rest:0digits$}");
    format!("{whole}.{}", fraction.trim_end_matches('0'))
}

#[cfg(test)]
mod tests;
