//! The question "which runs have an id that ends like this".

use domain::id::RunId;
use rusqlite::Connection;

use super::key::{self, Key};
use super::open::{Index, IndexError};

/// The most runs that are returned: enough to show that an ending is not enough.
pub const ENDING_MATCHES_MAX: u32 = 8;

pub(super) const SQL: &str =
    "SELECT id FROM run INDEXED BY run_by_ending WHERE ending >= ?1 AND ending < ?2 LIMIT ?3";

impl Index {
    /// Returns up to [`ENDING_MATCHES_MAX`] runs whose id ends with these lower-case hexadecimal digits, newest first.
    pub fn find_ending(&self, hex_ending: &str) -> Result<Vec<RunId>, IndexError> {
        if hex_ending.is_empty() || !hex_ending.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        {
            return Ok(Vec::new());
        }
        find(self.current()?, hex_ending).map_err(|error| self.error("find a run by its ending", error))
    }
}

fn find(connection: &Connection, hex_ending: &str) -> rusqlite::Result<Vec<RunId>> {
    let least = key::reversed(hex_ending);
    // The letter after the greatest digit.
    let end = format!("{least}g");
    let mut statement = connection.prepare(SQL)?;
    let keys = statement.query_map((least, end, ENDING_MATCHES_MAX), |row| row.get(0))?;
    let mut keys = keys.collect::<rusqlite::Result<Vec<Key>>>()?;
    keys.sort_unstable_by(|one, other| other.cmp(one));
    Ok(keys.into_iter().filter_map(key::run).collect())
}
