//! Sizes in the syntax for people: `64MiB`, `2GB`, `1_048_576`.

/// Parses a size into bytes; `K`, `M`, `G` are powers of 1024, as are `KiB`, `MiB`, `GiB`.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let trimmed = text.trim();
    let wrong = || format!("{trimmed:?} is not a size; write for example 512MiB, 2G or a number of bytes");
    let digits = trimmed.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'_').count();
    let number: u64 = trimmed[..digits].replace('_', "").parse().map_err(|_| wrong())?;
    let unit: u64 = match trimmed[digits..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "kb" => 1_000,
        "m" | "mib" => 1 << 20,
        "mb" => 1_000_000,
        "g" | "gib" => 1 << 30,
        "gb" => 1_000_000_000,
        _ => return Err(wrong()),
    };
    number.checked_mul(unit).ok_or_else(wrong)
}

/// Returns a spelling for people: `512 B`, `1.5 KiB`, `64.0 MiB`.
pub fn display_bytes(bytes: u64) -> String {
    let value = bytes as f64;
    match bytes {
        0..1_024 => format!("{bytes} B"),
        1_024..1_048_576 => format!("{:.1} KiB", value / 1_024.0),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", value / 1_048_576.0),
        _ => format!("{:.1} GiB", value / 1_073_741_824.0),
    }
}

/// Returns at most `max` bytes of the text, cut at a character boundary.
pub fn head(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

/// Returns at most the last `max` bytes of the text, cut at a character boundary.
pub fn tail(text: &str, max: usize) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(max))..]
}
