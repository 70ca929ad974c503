//! A short digest of a text, used to recognise what a session began with.

/// Returns a short digest that is the same on every machine and in every version (FNV-1a).
pub(crate) fn digest(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}
