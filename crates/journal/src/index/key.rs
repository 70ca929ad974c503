//! Run ids as the sixteen bytes that are stored, which sort like the ids.

use domain::id::RunId;

pub(super) type Key = [u8; 16];

/// Greater than the key of any run.
pub(super) const LAST: Key = [0xff; 16];

pub(super) fn of(id: RunId) -> Key {
    u128::from_str_radix(&id.hex(), 16).expect("an id has 32 hexadecimal digits").to_be_bytes()
}

pub(super) fn run(key: Key) -> Option<RunId> {
    format!("{:032x}", u128::from_be_bytes(key)).parse().ok()
}

/// Returns the least key of a run that was created at this moment or later.
pub(super) fn least_at(at_ms: i64) -> Key {
    const MOST_MS: u64 = (1 << 48) - 1;
    let ms = u64::try_from(at_ms).unwrap_or(0).min(MOST_MS);
    (u128::from(ms) << 80).to_be_bytes()
}

/// Returns the digits of an id in reverse, so that an ending becomes a beginning.
pub(super) fn reversed(hex: &str) -> String {
    hex.chars().rev().collect()
}
