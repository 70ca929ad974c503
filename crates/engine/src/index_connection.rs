//! The connection to the index that a door holds between queries. A server that opened the index for each query would
//! read the index's log from the beginning each time, and so would every command that runs at the same time.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use journal::index::{Index, IndexError, OpenedIndex};

/// One connection, lent to one query at a time. A query that finds it lent opens another, so that no query waits for
/// a rebuild.
#[derive(Debug, Default)]
pub(crate) struct IndexConnection(Mutex<Option<Index>>);

impl IndexConnection {
    pub(crate) fn open(&self, home: &Path) -> Result<OpenedIndex, IndexError> {
        let connection = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Another process may have replaced the file or begun a rebuild in the meantime.
        match connection.and_then(Index::reopen) {
            Some(opened) => Ok(opened),
            None => Index::open(home),
        }
    }

    /// Puts a connection back for the next query.
    pub(crate) fn put_back(&self, index: Index) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(index);
    }
}
