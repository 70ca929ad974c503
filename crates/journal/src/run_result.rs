//! The answer of a run. The ending holds small ones; larger ones are in `result.txt`, which outlives the spools. An
//! answer is text: invalid bytes are replaced, and only the spool still has the original bytes.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

use domain::run::{ResultText, StdStream};

use crate::durable::{Disk, create_private};
use crate::run_dir::RunDir;
use crate::spool::SpoolReader;
use crate::store_error::{StoreError, failed};

/// The maximum size of an answer that is stored in the ending.
pub const INLINE_BYTES_MAX: usize = 64 << 10;
/// The smallest page, in which any character fits.
const PAGE_BYTES_MIN: usize = 4;

/// Where an answer comes from.
#[derive(Debug, Clone, Copy)]
pub enum ResultSource<'a> {
    Bytes(&'a [u8]),
    /// The whole output of a stream.
    Spool(StdStream),
}

/// A part of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultPage {
    pub text: String,
    /// The offset from which to continue, if there is more.
    pub next_offset: Option<u64>,
    /// The size of the whole answer.
    pub bytes: u64,
}

/// Stores an answer, durably if it needs a file, and returns its entry in the ending.
pub fn store_result(dir: &RunDir, source: ResultSource<'_>) -> Result<ResultText, StoreError> {
    match source {
        ResultSource::Bytes(bytes) => {
            let text = String::from_utf8_lossy(bytes);
            match inline(&text) {
                Some(result) => Ok(result),
                None => store_file(dir, |out| {
                    out.write_all(text.as_bytes()).map_err(failed("write", &dir.result_path()))
                }),
            }
        }
        ResultSource::Spool(stream) => store_spool(dir, &SpoolReader::new(dir, stream)),
    }
}

/// Reads a part of an answer. Pages end between characters.
pub fn read_result(
    dir: &RunDir,
    result: &ResultText,
    offset: u64,
    max: usize,
) -> Result<ResultPage, StoreError> {
    let max = max.max(PAGE_BYTES_MIN);
    match result {
        ResultText::Nothing => Ok(ResultPage { text: String::new(), next_offset: None, bytes: 0 }),
        ResultText::Inline(text) => {
            let from = usize::try_from(offset).unwrap_or(usize::MAX).min(text.len());
            let to = from.saturating_add(max).min(text.len());
            Ok(page(&text.as_bytes()[from..to], from as u64, text.len() as u64))
        }
        ResultText::File { bytes } => {
            let path = dir.result_path();
            let file = File::open(&path).map_err(|error| dir.or_no_such_run(failed("open", &path)(error)))?;
            let size = file.metadata().map_err(failed("look at", &path))?.len();
            // The file may be a hard link to a spool that continued to grow.
            let total = size.min(*bytes);
            let from = offset.min(total);
            let length = usize::try_from(total - from).unwrap_or(usize::MAX).min(max);
            let mut buffer = vec![0; length];
            file.read_exact_at(&mut buffer, from).map_err(failed("read", &path))?;
            Ok(page(&buffer, from, total))
        }
    }
}

fn inline(text: &str) -> Option<ResultText> {
    match text.len() {
        0 => Some(ResultText::Nothing),
        1..=INLINE_BYTES_MAX => Some(ResultText::Inline(text.to_owned())),
        _ => None,
    }
}

fn store_spool(dir: &RunDir, spool: &SpoolReader) -> Result<ResultText, StoreError> {
    if spool.retained_bytes()? <= INLINE_BYTES_MAX as u64 {
        let mut bytes = Vec::new();
        spool.copy_to(&mut bytes)?;
        return store_result(dir, ResultSource::Bytes(&bytes));
    }
    if spool.is_one_file()? && is_text(spool)? {
        let (from, to) = (spool.head_path(), dir.result_path());
        remove_old(dir)?;
        if fs::hard_link(&from, &to).is_ok() {
            let file = File::open(&to).map_err(failed("open", &to))?;
            return make_durable(dir, &file);
        }
        // On a filesystem without links, a copy has the same effect.
    }
    store_file(dir, |out| {
        let mut text = LossyTextWriter { out, pending: Vec::new() };
        spool.copy_to(&mut text)?;
        text.finish().map_err(failed("write", &dir.result_path()))
    })
}

fn is_text(spool: &SpoolReader) -> Result<bool, StoreError> {
    let mut check = Utf8Check { pending: Vec::new(), valid: true };
    spool.copy_to(&mut check)?;
    Ok(check.valid && check.pending.is_empty())
}

fn store_file(
    dir: &RunDir,
    fill: impl FnOnce(&mut dyn Write) -> Result<(), StoreError>,
) -> Result<ResultText, StoreError> {
    let path = dir.result_path();
    remove_old(dir)?;
    let file = create_private(&path).map_err(failed("create", &path))?;
    fill(&mut DiskWriter { disk: dir.disk(), file: &file })?;
    make_durable(dir, &file)
}

fn make_durable(dir: &RunDir, file: &File) -> Result<ResultText, StoreError> {
    let path = dir.result_path();
    dir.disk().sync(file).map_err(failed("make durable", &path))?;
    dir.disk().sync_dir(dir.path())?;
    let bytes = file.metadata().map_err(failed("look at", &path))?.len();
    Ok(ResultText::File { bytes })
}

/// Removes the result of an earlier epoch. Nobody has seen it, because the run had not ended.
fn remove_old(dir: &RunDir) -> Result<(), StoreError> {
    let path = dir.result_path();
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", &path)(error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn page(bytes: &[u8], from: u64, total: u64) -> ResultPage {
    let more = from + (bytes.len() as u64) < total;
    let whole = if more { &bytes[..bytes.len() - incomplete_tail(bytes)] } else { bytes };
    let next_offset = more.then_some(from + whole.len() as u64);
    ResultPage { text: String::from_utf8_lossy(whole).into_owned(), next_offset, bytes: total }
}

/// Returns how many bytes at the end belong to an incomplete character.
fn incomplete_tail(bytes: &[u8]) -> usize {
    for back in 1..=bytes.len().min(3) {
        let needed = match bytes[bytes.len() - back] {
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            0x80..=0xbf => continue,
            _ => return 0,
        };
        return if needed > back { back } else { 0 };
    }
    0
}

/// Checks whether the bytes written to it are valid UTF-8.
struct Utf8Check {
    pending: Vec<u8>,
    valid: bool,
}

impl Write for Utf8Check {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut joined = std::mem::take(&mut self.pending);
        joined.extend_from_slice(bytes);
        if let (true, Err(error)) = (self.valid, std::str::from_utf8(&joined)) {
            self.valid = error.error_len().is_none();
            self.pending = joined.split_off(error.valid_up_to());
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Forwards text and replaces invalid bytes by `U+FFFD`, so that an offset means the same to every reader.
struct LossyTextWriter<'a> {
    out: &'a mut dyn Write,
    /// The beginning of a character whose remaining bytes have not arrived yet.
    pending: Vec<u8>,
}

impl LossyTextWriter<'_> {
    fn finish(self) -> io::Result<()> {
        self.out.write_all(String::from_utf8_lossy(&self.pending).as_bytes())
    }
}

impl Write for LossyTextWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut joined = std::mem::take(&mut self.pending);
        joined.extend_from_slice(bytes);
        self.pending = joined.split_off(joined.len() - incomplete_tail(&joined));
        self.out.write_all(String::from_utf8_lossy(&joined).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

struct DiskWriter<'a> {
    disk: &'a Disk,
    file: &'a File,
}

impl Write for DiskWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.disk.write(self.file, bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
