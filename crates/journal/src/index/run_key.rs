//! Run ids as the stored sixteen bytes, which sort like the ids.

use domain::id::RunId;

pub(super) type RunKey = [u8; 16];

/// Greater than the key of any run.
pub(super) const LAST: RunKey = [0xff; 16];

pub(super) fn from_run_id(id: RunId) -> RunKey {
    u128::from_str_radix(&id.hex(), 16).expect("an id has 32 hexadecimal digits").to_be_bytes()
}

pub(super) fn to_run_id(key: RunKey) -> Option<RunId> {
    format!("{:032x}", u128::from_be_bytes(key)).parse().ok()
}

/// Returns the smallest key of a run that was created at this time or later.
pub(super) fn first_at(at_ms: i64) -> RunKey {
    const MS_MAX: u64 = (1 << 48) - 1;
    let ms = u64::try_from(at_ms).unwrap_or(0).min(MS_MAX);
    (u128::from(ms) << 80).to_be_bytes()
}

/// Returns the digits of an id in reverse, so that a suffix becomes a prefix.
pub(super) fn reversed_hex(hex: &str) -> String {
    hex.chars().rev().collect()
}
