//! Durations in the syntax for people: `30s`, `5m`, `1h30m`, `250ms`, `7d`, or a bare number of seconds.

/// Parses a duration into milliseconds.
pub fn parse_ms(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let wrong = || format!("{text:?} is not a duration; write for example 30s, 5m, 1h30m or 250ms");
    if text.is_empty() || text.len() > 32 {
        return Err(wrong());
    }
    if let Ok(seconds) = text.parse::<u64>() {
        return seconds.checked_mul(1_000).ok_or_else(wrong);
    }
    let mut rest = text;
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: u64 = rest[..digits].parse().map_err(|_| wrong())?;
        rest = &rest[digits..];
        let letters = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
        let unit = match &rest[..letters] {
            "ms" => 1,
            "s" => 1_000,
            "m" | "min" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return Err(wrong()),
        };
        rest = &rest[letters..];
        total = number.checked_mul(unit).and_then(|ms| total.checked_add(ms)).ok_or_else(wrong)?;
    }
    Ok(total)
}

/// Returns the shortest spelling for people: `850ms`, `12.3s`, `4m05s`, `2h03m`, `3d04h`.
pub fn display_ms(ms: u64) -> String {
    let seconds = ms / 1_000;
    match seconds {
        0 => format!("{ms}ms"),
        1..60 => format!("{}.{}s", seconds, ms % 1_000 / 100),
        60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h{:02}m", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}
