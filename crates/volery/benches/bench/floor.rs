//! What the machine itself costs: a bare process, an fsync.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// Returns how many milliseconds something takes.
pub(crate) fn timed<T>(action: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<(f64, T)> {
    let began = Instant::now();
    let value = action()?;
    Ok((began.elapsed().as_secs_f64() * 1_000.0, value))
}

/// Starts a program with nothing around it; the standard library uses `posix_spawn` for this.
#[expect(clippy::disallowed_methods, reason = "the bare process is what is measured")]
pub(crate) fn start(argv: &[&str]) -> anyhow::Result<Child> {
    let mut command = Command::new(argv[0]);
    command.args(&argv[1..]).stdin(Stdio::null()).stdout(Stdio::null());
    Ok(command.spawn()?)
}

/// Starts a program and waits for its end.
pub(crate) fn spawn(argv: &[&str]) -> anyhow::Result<f64> {
    let (ms, _) = timed(|| Ok(start(argv)?.wait()?))?;
    Ok(ms)
}

/// Starts a program this many times at once and waits for all of them.
pub(crate) fn spawn_all(argv: &[&str], count: usize) -> anyhow::Result<f64> {
    let (ms, ()) = timed(|| {
        let children = (0..count).map(|_| start(argv)).collect::<anyhow::Result<Vec<Child>>>()?;
        for mut child in children {
            child.wait()?;
        }
        Ok(())
    })?;
    Ok(ms)
}

/// Makes one line durable in a file of this directory.
pub(crate) fn fsync(directory: &Path) -> anyhow::Result<f64> {
    let mut file = File::options().append(true).create(true).open(directory.join("floor"))?;
    file.write_all(&[b'x'; 200])?;
    let (ms, ()) = timed(|| Ok(file.sync_data()?))?;
    Ok(ms)
}
