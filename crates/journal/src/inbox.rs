//! Cancel orders and answers for a run, one file each, posted by any process: the first one wins.
//!
//! A file is complete and durable before `link` gives it its name, so the worker, which watches the directory, reads
//! only complete messages. Anything else in the directory is ignored with a reason.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use domain::Timestamp;
use domain::id::QuestionId;
use domain::run::{AnswerOrigin, CancelRequest};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::durable::{fresh_path, open_plain};
use crate::run_dir::RunDir;
use crate::store_error::{StoreError, failed};

/// The maximum size of a message.
const MESSAGE_BYTES_MAX: usize = 256 << 10;
const CANCEL: &str = "cancel";
const CANCEL_NOW: &str = "cancel-now";

/// Whether a message was the first of its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PostOutcome {
    First,
    AlreadyThere,
}

/// The content of one file of the inbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InboxMessage<T> {
    Nothing,
    Valid(T),
    /// The file is not a valid message.
    Ignored {
        reason: String,
    },
}

/// A person's answer to a question of the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InboxAnswer {
    pub allow: bool,
    #[serde(default)]
    pub text: String,
    pub by: String,
    /// Absent in answers of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "from")]
    pub origin: Option<AnswerOrigin>,
    pub at: Timestamp,
    /// Rules that the person grants for the rest of the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub granted_rules: Vec<String>,
}

/// Orders the run to be cancelled. An order to kill at once is accepted even after an order to stop.
pub fn post_cancel(dir: &RunDir, order: &CancelRequest) -> Result<PostOutcome, StoreError> {
    let posted = post::<CancelRequest>(dir, CANCEL, order)?;
    let patient = matches!(read::<CancelRequest>(dir, CANCEL), InboxMessage::Valid(first) if !first.now);
    match posted {
        PostOutcome::AlreadyThere if order.now && patient => post::<CancelRequest>(dir, CANCEL_NOW, order),
        PostOutcome::First | PostOutcome::AlreadyThere => Ok(posted),
    }
}

/// Returns the most urgent order to cancel.
pub fn read_cancel(dir: &RunDir) -> InboxMessage<CancelRequest> {
    match read(dir, CANCEL_NOW) {
        InboxMessage::Valid(order) => InboxMessage::Valid(order),
        InboxMessage::Nothing => read(dir, CANCEL),
        InboxMessage::Ignored { reason } => match read(dir, CANCEL) {
            InboxMessage::Nothing => InboxMessage::Ignored { reason },
            other @ (InboxMessage::Valid(_) | InboxMessage::Ignored { .. }) => other,
        },
    }
}

pub fn post_answer(
    dir: &RunDir,
    question: &QuestionId,
    answer: &InboxAnswer,
) -> Result<PostOutcome, StoreError> {
    post::<InboxAnswer>(dir, &answer_name(question), answer)
}

pub fn read_answer(dir: &RunDir, question: &QuestionId) -> InboxMessage<InboxAnswer> {
    read(dir, &answer_name(question))
}

fn answer_name(question: &QuestionId) -> String {
    format!("answer-{question}")
}

fn post<T: Serialize + DeserializeOwned>(
    dir: &RunDir,
    name: &str,
    message: &T,
) -> Result<PostOutcome, StoreError> {
    let target = dir.inbox_dir().join(name);
    let bytes = serde_json::to_vec(message)
        .map_err(|source| StoreError::Malformed { path: target.clone(), source })?;
    if bytes.len() > MESSAGE_BYTES_MAX {
        return Err(StoreError::TooLarge { bytes: bytes.len(), max: MESSAGE_BYTES_MAX });
    }
    // Outside the inbox, so that the worker, which watches the inbox, wakes only for messages.
    let temporary = fresh_path(dir.path(), "letter");
    let posted = dir
        .disk()
        .create_durable(&temporary, &bytes)
        .map_err(|error| dir.or_no_such_run(error))
        .and_then(|()| claim::<T>(dir, &temporary, name));
    // After a failure it may not exist; if it remains, it is removed with the run.
    let _ = fs::remove_file(&temporary);
    let posted = posted?;
    dir.disk().sync_dir(&dir.inbox_dir())?;
    Ok(posted)
}

fn claim<T: DeserializeOwned>(dir: &RunDir, temporary: &Path, name: &str) -> Result<PostOutcome, StoreError> {
    let target = dir.inbox_dir().join(name);
    match fs::hard_link(temporary, &target) {
        Ok(()) => Ok(PostOutcome::First),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match read::<T>(dir, name) {
            InboxMessage::Valid(_) => Ok(PostOutcome::AlreadyThere),
            // An invalid file must not block a valid message.
            InboxMessage::Ignored { .. } | InboxMessage::Nothing => {
                fs::rename(temporary, &target).map_err(failed("write", &target))?;
                Ok(PostOutcome::First)
            }
        },
        Err(error) => Err(failed("write", &target)(error)),
    }
}

fn read<T: DeserializeOwned>(dir: &RunDir, name: &str) -> InboxMessage<T> {
    let path = dir.inbox_dir().join(name);
    let ignored =
        |why: String| InboxMessage::Ignored { reason: format!("{} is ignored: {why}", path.display()) };
    let file = match open_plain(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return InboxMessage::Nothing,
        Err(error) => return ignored(error.to_string()),
    };
    let mut bytes = Vec::new();
    if let Err(error) = file.take(MESSAGE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes) {
        return ignored(error.to_string());
    }
    if bytes.len() > MESSAGE_BYTES_MAX {
        return ignored(format!("it has more than {MESSAGE_BYTES_MAX} bytes"));
    }
    match serde_json::from_slice(&bytes) {
        Ok(message) => InboxMessage::Valid(message),
        Err(error) => ignored(error.to_string()),
    }
}

#[cfg(test)]
mod tests;
