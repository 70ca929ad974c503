//! The bodies of the calls of an agent loop: one file for each call, in the folder `calls` of its run. The event of a
//! completed call has the file's size and digest and the beginning of its text, so the log stays small.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;

use domain::run::CallBody;
use domain::secret::Redactor;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::durable::open_plain;
use crate::event_texts::rewrite_value;
use crate::run_dir::RunDir;
use crate::store_error::{StoreError, failed};

/// The longest body. Longer ones are cut by their producers.
pub const BODY_BYTES_MAX: u64 = 64 << 20;

/// Writes the bodies of one run's calls. Only the worker that holds the run's lock may have one.
#[derive(Debug)]
pub struct CallFiles {
    dir: RunDir,
    redactor: Redactor,
    /// Files that are not durable yet.
    unsynced: Vec<(PathBuf, File)>,
    folder_is_new: bool,
}

impl CallFiles {
    pub fn new(dir: &RunDir, redactor: Redactor) -> Self {
        Self { dir: dir.clone(), redactor, unsynced: Vec::new(), folder_is_new: false }
    }

    /// Stores a text, without the secrets in it.
    pub fn store_text(&mut self, call: u32, text: &str) -> Result<CallBody, StoreError> {
        let masked = self.redactor.redact(text);
        self.store(call, masked.as_bytes())
    }

    /// Stores a JSON value, without the secrets in its texts. It works on the value, so that masking cannot break the
    /// JSON.
    pub fn store_json(&mut self, call: u32, mut value: Value) -> Result<CallBody, StoreError> {
        rewrite_value(&mut value, &mut |text| *text = self.redactor.redact(text));
        self.store(call, value.to_string().as_bytes())
    }

    /// Makes all bodies durable that were stored so far.
    pub fn sync(&mut self) -> Result<(), StoreError> {
        let disk = self.dir.disk();
        for (path, file) in self.unsynced.drain(..) {
            disk.sync(&file).map_err(failed("make durable", &path))?;
        }
        if std::mem::take(&mut self.folder_is_new) {
            disk.sync_dir(self.dir.path())?;
        }
        disk.sync_dir(&self.dir.calls_dir())
    }

    fn store(&mut self, call: u32, bytes: &[u8]) -> Result<CallBody, StoreError> {
        let size = bytes.len() as u64;
        if size > BODY_BYTES_MAX {
            let max = usize::try_from(BODY_BYTES_MAX).unwrap_or(usize::MAX);
            return Err(StoreError::TooLarge { bytes: bytes.len(), max });
        }
        let folder = self.dir.calls_dir();
        match DirBuilder::new().mode(0o700).create(&folder) {
            Ok(()) => self.folder_is_new = true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed("create", &folder)(error)),
        }
        let path = self.dir.call_path(call);
        // A worker that was killed may have left an incomplete file, which no event mentions.
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path);
        let file = file.map_err(failed("create", &path))?;
        self.dir.disk().write_all(&file, bytes).map_err(failed("write", &path))?;
        self.unsynced.push((path, file));
        Ok(CallBody { bytes: size, digest: digest(bytes) })
    }
}

/// Reads the body of a call, and checks that it is the one that the event describes.
pub fn read_call_body(dir: &RunDir, call: u32, body: &CallBody) -> Result<Vec<u8>, StoreError> {
    let path = dir.call_path(call);
    let file = open_plain(&path).map_err(failed("open", &path))?;
    let mut bytes = Vec::new();
    let limit = body.bytes.min(BODY_BYTES_MAX).saturating_add(1);
    file.take(limit).read_to_end(&mut bytes).map_err(failed("read", &path))?;
    if bytes.len() as u64 != body.bytes || digest(&bytes) != body.digest {
        return Err(StoreError::Damaged { path });
    }
    Ok(bytes)
}

fn digest(bytes: &[u8]) -> String {
    domain::hex::hex(&Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use domain::secret::Secret;
    use serde_json::json;

    use super::*;
    use crate::durable::Faults;
    use crate::fixtures::TestHome;

    #[test]
    fn a_body_is_read_back_and_a_changed_or_missing_one_is_noticed() {
        let test = TestHome::new();
        let dir = test.run().dir.clone();
        let mut files = CallFiles::new(&dir, Redactor::default());
        let body = files.store_text(3, "all of it").unwrap();
        files.sync().unwrap();
        assert_eq!(read_call_body(&dir, 3, &body).unwrap(), b"all of it");
        for damage in ["all of it, and more", "all of", "all of IT"] {
            fs::write(dir.call_path(3), damage).unwrap();
            let error = read_call_body(&dir, 3, &body).unwrap_err();
            assert!(matches!(error, StoreError::Damaged { .. }), "{error:?}");
        }
        fs::remove_file(dir.call_path(3)).unwrap();
        assert!(matches!(read_call_body(&dir, 3, &body), Err(StoreError::Io { .. })));
    }

    #[test]
    fn a_body_that_a_killed_worker_left_incomplete_is_replaced() {
        let test = TestHome::new();
        let dir = test.run().dir.clone();
        CallFiles::new(&dir, Redactor::default()).store_text(0, "a long text of an earlier worker").unwrap();
        let body = CallFiles::new(&dir, Redactor::default()).store_text(0, "short").unwrap();
        assert_eq!(read_call_body(&dir, 0, &body).unwrap(), b"short");
    }

    #[test]
    fn secrets_are_masked_inside_texts_and_json_stays_json() {
        let test = TestHome::new();
        let dir = test.run().dir.clone();
        let secret = "pass\"word-pass\"word";
        let mut files = CallFiles::new(&dir, Redactor::new(vec![Secret::new(secret)]));
        let text = files.store_text(0, &format!("it is {secret}")).unwrap();
        assert_eq!(read_call_body(&dir, 0, &text).unwrap(), b"it is [redacted]");
        let body = files.store_json(1, json!({"a": [format!("x {secret}")], "n": 1.5})).unwrap();
        let read: Value = serde_json::from_slice(&read_call_body(&dir, 1, &body).unwrap()).unwrap();
        assert_eq!(read, json!({"a": ["x [redacted]"], "n": 1.5}));
    }

    #[test]
    fn a_full_or_failing_disk_is_an_error() {
        let test = TestHome::new();
        let id = test.run().dir.id();
        let store = |faults| {
            let dir = test.broken(faults).run_dir(id);
            let mut files = CallFiles::new(&dir, Redactor::default());
            files.store_text(0, "12345").and_then(|_| files.sync())
        };
        let full = Faults { bytes_before_full: Some(4), ..Faults::default() };
        assert!(store(full).unwrap_err().is_full());
        for syncs in 0..3 {
            let faults = Faults { syncs_before_failure: Some(syncs), ..Faults::default() };
            assert_eq!(store(faults).is_err(), syncs < 2, "after {syncs}");
        }
    }
}
