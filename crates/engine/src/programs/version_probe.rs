//! Runs a program with `--version`, if no package has its version: in an empty home, without input, and with a short
//! time limit.

use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant};

use backends::program::LocatedProgram;
use domain::invisible_text::strip_invisible_in_place;
use domain::run::Exit;
use domain::size::head;
use process::{CaptureRequest, capture};

/// The slowest program that was seen takes two seconds and a half.
const TIME_MAX: Duration = Duration::from_secs(6);
const OUTPUT_BYTES_MAX: usize = 16 << 10;
const VERSION_BYTES_MAX: usize = 64;
const MESSAGE_BYTES_MAX: usize = 120;

/// Returns the version that a program prints, or why it does not. The program gets no variable but the search path
/// and this folder, which is its home, and it may leave files there.
pub(crate) fn probe_version(
    found: &LocatedProgram,
    path: &OsString,
    home: &Path,
    tag: u64,
) -> Result<String, String> {
    let (program, rest) = found.argv.split_first().ok_or("there is nothing to start")?;
    let args: Vec<OsString> = rest.iter().map(Into::into).chain([OsString::from("--version")]).collect();
    let env = [("PATH", path.clone()), ("HOME", home.into()), ("TMPDIR", home.into())]
        .map(|(name, value)| (OsString::from(name), value));
    let captured = capture(&CaptureRequest {
        program: Path::new(program),
        args: &args,
        env: &env,
        directory: home,
        tag,
        input: &[],
        deadline: Instant::now() + TIME_MAX,
        output_bytes_max: OUTPUT_BYTES_MAX,
    });
    let captured = captured.map_err(|error| format!("asked with --version, {error}"))?;
    let how = match captured.exit {
        Exit::Code(0) => {
            let version = version_in(&String::from_utf8_lossy(&captured.stdout));
            return version.ok_or_else(|| "asked with --version, it says something else".to_owned());
        }
        Exit::Code(code) => format!("asked with --version, it exits with {code}"),
        Exit::Signal(signal) => format!("asked with --version, it is ended by signal {signal}"),
    };
    let last = captured.stderr.lines().rfind(|line| !line.trim().is_empty());
    let mut message = last.unwrap_or_default().trim().to_owned();
    strip_invisible_in_place(&mut message);
    Err(if message.is_empty() { how } else { format!("{how}: {}", head(&message, MESSAGE_BYTES_MAX)) })
}

/// Finds the first word that is a version: numbers with a point between them.
fn version_in(text: &str) -> Option<String> {
    let words = text.split(|character: char| character.is_whitespace() || "(),;:\"'".contains(character));
    let words = words.map(|word| word.trim_start_matches(['v', 'V']).trim_end_matches('.'));
    let mut versions = words.filter(|word| {
        let mut parts = word.splitn(3, '.');
        let whole = parts.next().is_some_and(is_number);
        whole
            && parts.next().is_some_and(|part| part.starts_with(|character: char| character.is_ascii_digit()))
    });
    versions.find(|word| word.len() <= VERSION_BYTES_MAX).map(ToOwned::to_owned)
}

fn is_number(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests;
