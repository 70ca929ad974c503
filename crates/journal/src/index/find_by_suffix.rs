//! Query: runs whose id ends with some digits.

use domain::id::RunId;
use rusqlite::Connection;

use super::open::{Index, IndexError};
use super::run_key::{self, RunKey};

/// The maximum number of results: enough to show that a suffix is ambiguous.
pub const SUFFIX_MATCHES_MAX: u32 = 8;

pub(super) const SQL: &str =
    "SELECT id FROM run INDEXED BY run_by_ending WHERE ending >= ?1 AND ending < ?2 LIMIT ?3";

impl Index {
    /// Returns up to [`SUFFIX_MATCHES_MAX`] runs whose id ends with these lower-case hexadecimal digits, newest
    /// first.
    pub fn find_by_id_suffix(&self, hex_suffix: &str) -> Result<Vec<RunId>, IndexError> {
        if hex_suffix.is_empty() || !hex_suffix.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        {
            return Ok(Vec::new());
        }
        find(self.current()?, hex_suffix).map_err(|error| self.error("find a run by its ending", error))
    }
}

fn find(connection: &Connection, hex_suffix: &str) -> rusqlite::Result<Vec<RunId>> {
    let least = run_key::reversed_hex(hex_suffix);
    // `g` is the character after the greatest digit.
    let end = format!("{least}g");
    let mut statement = connection.prepare(SQL)?;
    let keys = statement.query_map((least, end, SUFFIX_MATCHES_MAX), |row| row.get(0))?;
    let mut keys = keys.collect::<rusqlite::Result<Vec<RunKey>>>()?;
    keys.sort_unstable_by(|one, other| other.cmp(one));
    Ok(keys.into_iter().filter_map(run_key::to_run_id).collect())
}
