//! The connection to the index that a door keeps between questions. A server that opened the index for each question
//! would read the index's log from the beginning each time, and so would every command that runs next to it.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use journal::index::{Index, IndexError, Opened};

/// One connection, lent to one question at a time. A question that finds it lent opens another, so that no question
/// waits for a rebuild.
#[derive(Debug, Default)]
pub(super) struct IndexConnection(Mutex<Option<Index>>);

impl IndexConnection {
    pub(super) fn open(&self, home: &Path) -> Result<Opened, IndexError> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Another process may have replaced the file or begun a rebuild in the meantime.
        match kept.and_then(Index::reopen) {
            Some(opened) => Ok(opened),
            None => Index::open(home),
        }
    }

    /// Keeps a connection for the next question.
    pub(super) fn put_back(&self, index: Index) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(index);
    }
}
