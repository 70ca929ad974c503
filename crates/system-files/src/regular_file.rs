//! Opens files that others created. Never blocks: opening a named pipe would wait for its writer.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// Opens a regular file for reading, and nothing else.
pub fn open(path: &Path) -> io::Result<File> {
    // Even opening a pipe or a device has an effect on the process at its other end.
    check(&std::fs::metadata(path)?)?;
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    check(&file.metadata()?)?;
    Ok(file)
}

/// Reads a regular file of at most so many bytes.
pub fn read_bytes(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(4 << 10);
    open(path)?.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it is larger than {} KiB", bytes_max >> 10),
        ));
    }
    Ok(bytes)
}

/// Reads a regular file of at most so many bytes, which must be text.
pub fn read_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    let text = String::from_utf8(read_bytes(path, bytes_max)?);
    text.map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not valid UTF-8"))
}

fn check(found: &std::fs::Metadata) -> io::Result<()> {
    match found.is_file() {
        true => Ok(()),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file")),
    }
}

/// Returns whether a path leads through a link that resolves differently in each process, as `/proc/self/cwd` does.
#[cfg(target_os = "linux")]
pub fn resolves_per_process(path: &Path) -> bool {
    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let opened = openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS);
    opened.is_err_and(|error| error == rustix::io::Errno::LOOP)
}

/// No such links are known.
#[cfg(not(target_os = "linux"))]
pub fn resolves_per_process(_path: &Path) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType, Mode};

    use super::*;

    #[test]
    fn only_regular_files_are_opened_and_only_to_their_limit() {
        let temp_dir = tempfile::tempdir().unwrap();
        let at = |name: &str| temp_dir.path().join(name);
        std::fs::write(at("file"), "four").unwrap();
        assert_eq!(read_text(&at("file"), 4).unwrap(), "four");
        assert_eq!(read_text(&at("file"), 3).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        std::fs::write(at("bytes"), [0xff]).unwrap();
        assert_eq!(read_text(&at("bytes"), 4).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(open(&at("absent")).unwrap_err().kind(), io::ErrorKind::NotFound);
        rustix::fs::mknodat(CWD, at("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        std::os::unix::fs::symlink(at("pipe"), at("link")).unwrap();
        for other in [at("pipe"), at("link"), temp_dir.path().to_owned()] {
            assert_eq!(open(&other).unwrap_err().to_string(), "it is no regular file", "{other:?}");
        }
    }
}
