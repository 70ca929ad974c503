//! Encodes one event as one line: JSON whose last member `sum` is the CRC-32 of everything before it.
//!
//! The sum is at a fixed distance from the end, so it is checked before anything is parsed, and any flipped bit is
//! noticed.

use domain::run::Envelope;
use serde::Deserialize;

/// The most bytes of a line, its newline included.
pub const LINE_BYTES_MAX: usize = 1 << 20;
const SUM_OPEN: &[u8] = b",\"sum\":\"";
const SUM_CLOSE: &[u8] = b"\"}";
const SUM_DIGITS: usize = 8;
const TAIL: usize = SUM_OPEN.len() + SUM_DIGITS + SUM_CLOSE.len();

/// Why some bytes are not an event.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    #[error("the line does not end with a checksum")]
    NoSum,
    #[error("the checksum does not match: the line is damaged")]
    WrongSum,
    /// The checksum matches, but this version does not know the kind of event.
    #[error("the line is whole but its event is unknown")]
    Unknown { position: Option<LogPosition>, source: serde_json::Error },
}

/// The position of a line in the log, readable even if its event is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct LogPosition {
    pub seq: u64,
    pub epoch: u32,
}

/// Returns the line of an event, with its newline.
pub fn encode(envelope: &Envelope) -> Result<Vec<u8>, serde_json::Error> {
    let mut line = serde_json::to_vec(envelope)?;
    // The closing brace of the object moves to after the sum.
    line.pop();
    let sum = crc32fast::hash(&line);
    line.extend_from_slice(SUM_OPEN);
    line.extend_from_slice(format!("{sum:08x}").as_bytes());
    line.extend_from_slice(SUM_CLOSE);
    line.push(b'\n');
    Ok(line)
}

/// Reads a line, with or without its newline.
pub fn decode(line: &[u8]) -> Result<Envelope, LineError> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let (body, tail) = line.split_last_chunk::<TAIL>().ok_or(LineError::NoSum)?;
    let sum =
        tail.strip_prefix(SUM_OPEN).and_then(|rest| rest.strip_suffix(SUM_CLOSE)).ok_or(LineError::NoSum)?;
    // Compared as text, because another spelling of the same number is damage, too.
    if format!("{:08x}", crc32fast::hash(body)).as_bytes() != sum {
        return Err(LineError::WrongSum);
    }
    serde_json::from_slice(line).map_err(|source| {
        let position = serde_json::from_slice(line).ok();
        LineError::Unknown { position, source }
    })
}

#[cfg(test)]
mod tests;
