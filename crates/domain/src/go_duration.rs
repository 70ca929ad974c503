//! Lengths of time as programs in Go write and read them: `10m0s`, `1h30m`, `1.5s`, `250ms`. In nanoseconds, up to the
//! 292 years that Go has. A negative one is none here.

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
/// The longest that Go can hold.
const MAX: u64 = i64::MAX as u64;
/// More digits behind the point than this mean less than a nanosecond of any unit.
const FRACTION_DIGITS_MAX: usize = 18;

/// Returns the nanoseconds that a text means.
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
        let (length, after) = part(rest).ok_or_else(wrong)?;
        total = total.checked_add(length).filter(|total| *total <= MAX).ok_or_else(wrong)?;
        rest = after;
    }
    Ok(total)
}

/// Reads one number with its unit, and returns what follows.
fn part(text: &str) -> Option<(u64, &str)> {
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
        // The two letters for micro that look alike.
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

/// Returns the spelling that Go gives to a length of nanoseconds.
pub fn display(nanoseconds: u64) -> String {
    match nanoseconds {
        0 => "0s".to_owned(),
        1..MICROSECOND => format!("{nanoseconds}ns"),
        MICROSECOND..MILLISECOND => format!("{}\u{b5}s", decimal(nanoseconds, MICROSECOND)),
        MILLISECOND..SECOND => format!("{}ms", decimal(nanoseconds, MILLISECOND)),
        SECOND.. => {
            let (hours, minutes) = (nanoseconds / HOUR, nanoseconds % HOUR / MINUTE);
            let seconds = decimal(nanoseconds % MINUTE, SECOND);
            match (hours, minutes) {
                (0, 0) => format!("{seconds}s"),
                (0, minutes) => format!("{minutes}m{seconds}s"),
                (hours, minutes) => format!("{hours}h{minutes}m{seconds}s"),
            }
        }
    }
}

/// Returns the spelling of a length of milliseconds.
pub fn display_ms(ms: u64) -> String {
    display(ms.saturating_mul(MILLISECOND))
}

/// Returns the milliseconds that a text means; less than one of them is none.
pub fn parse_ms(text: &str) -> Result<u64, String> {
    parse(text).map(|nanoseconds| nanoseconds / MILLISECOND)
}

/// Returns a number of units with as many digits behind the point as it needs.
fn decimal(nanoseconds: u64, unit: u64) -> String {
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
