//! Orders and answers to a run, one file each, posted by any door: the first one wins.
//!
//! A file is complete and durable before it gets its name by `link`, so the worker, who watches the directory,
//! reads whole letters only. Whatever else lies there is ignored with a reason.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use domain::Timestamp;
use domain::id::QuestionId;
use domain::run::CancelOrder;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::durable::{fresh_path, open_plain};
use crate::run_dir::RunDir;
use crate::store_error::{StoreError, failed};

/// The most bytes of a letter.
const LETTER_BYTES_MAX: usize = 256 << 10;
const CANCEL: &str = "cancel";
const CANCEL_NOW: &str = "cancel-now";

/// Whether a letter was the first of its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Posted {
    First,
    AlreadyThere,
}

/// What lies in a place of the inbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Letter<T> {
    Nothing,
    Valid(T),
    /// Something is there that is not a letter.
    Ignored {
        reason: String,
    },
}

/// Somebody's answer to a question of the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InboxAnswer {
    pub allow: bool,
    #[serde(default)]
    pub text: String,
    pub by: String,
    pub at: Timestamp,
}

/// Orders the run to be cancelled. An order to kill at once is taken even after one to stop.
pub fn post_cancel(dir: &RunDir, order: &CancelOrder) -> Result<Posted, StoreError> {
    let posted = post::<CancelOrder>(dir, CANCEL, order)?;
    let patient = matches!(read::<CancelOrder>(dir, CANCEL), Letter::Valid(first) if !first.now);
    match posted {
        Posted::AlreadyThere if order.now && patient => post::<CancelOrder>(dir, CANCEL_NOW, order),
        Posted::First | Posted::AlreadyThere => Ok(posted),
    }
}

/// Returns the order to cancel, the most urgent one.
pub fn read_cancel(dir: &RunDir) -> Letter<CancelOrder> {
    match read(dir, CANCEL_NOW) {
        Letter::Valid(order) => Letter::Valid(order),
        Letter::Nothing => read(dir, CANCEL),
        Letter::Ignored { reason } => match read(dir, CANCEL) {
            Letter::Nothing => Letter::Ignored { reason },
            other @ (Letter::Valid(_) | Letter::Ignored { .. }) => other,
        },
    }
}

/// Answers a question of the run.
pub fn post_answer(dir: &RunDir, question: &QuestionId, answer: &InboxAnswer) -> Result<Posted, StoreError> {
    post::<InboxAnswer>(dir, &answer_name(question), answer)
}

/// Returns the answer to a question.
pub fn read_answer(dir: &RunDir, question: &QuestionId) -> Letter<InboxAnswer> {
    read(dir, &answer_name(question))
}

fn answer_name(question: &QuestionId) -> String {
    format!("answer-{question}")
}

fn post<T: Serialize + DeserializeOwned>(dir: &RunDir, name: &str, letter: &T) -> Result<Posted, StoreError> {
    let target = dir.inbox_dir().join(name);
    let bytes = serde_json::to_vec(letter)
        .map_err(|source| StoreError::Malformed { path: target.clone(), source })?;
    if bytes.len() > LETTER_BYTES_MAX {
        return Err(StoreError::TooLarge { bytes: bytes.len(), max: LETTER_BYTES_MAX });
    }
    // Beside the inbox, so that whoever watches it wakes for letters only.
    let temporary = fresh_path(dir.path(), "letter");
    let posted = dir
        .disk()
        .create_durable(&temporary, &bytes)
        .map_err(|error| dir.or_no_such_run(error))
        .and_then(|()| claim::<T>(dir, &temporary, name));
    // After a failure it may not be there; if it stays, it goes with the run.
    let _ = fs::remove_file(&temporary);
    let posted = posted?;
    dir.disk().sync_dir(&dir.inbox_dir())?;
    Ok(posted)
}

fn claim<T: DeserializeOwned>(dir: &RunDir, temporary: &Path, name: &str) -> Result<Posted, StoreError> {
    let target = dir.inbox_dir().join(name);
    match fs::hard_link(temporary, &target) {
        Ok(()) => Ok(Posted::First),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match read::<T>(dir, name) {
            Letter::Valid(_) => Ok(Posted::AlreadyThere),
            // Rubbish must not keep a real letter out.
            Letter::Ignored { .. } | Letter::Nothing => {
                fs::rename(temporary, &target).map_err(failed("write", &target))?;
                Ok(Posted::First)
            }
        },
        Err(error) => Err(failed("write", &target)(error)),
    }
}

fn read<T: DeserializeOwned>(dir: &RunDir, name: &str) -> Letter<T> {
    let path = dir.inbox_dir().join(name);
    let ignored = |why: String| Letter::Ignored { reason: format!("{} is ignored: {why}", path.display()) };
    let file = match open_plain(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Letter::Nothing,
        Err(error) => return ignored(error.to_string()),
    };
    let mut bytes = Vec::new();
    if let Err(error) = file.take(LETTER_BYTES_MAX as u64 + 1).read_to_end(&mut bytes) {
        return ignored(error.to_string());
    }
    if bytes.len() > LETTER_BYTES_MAX {
        return ignored(format!("it has more than {LETTER_BYTES_MAX} bytes"));
    }
    match serde_json::from_slice(&bytes) {
        Ok(letter) => Letter::Valid(letter),
        Err(error) => ignored(error.to_string()),
    }
}

#[cfg(test)]
mod tests;
