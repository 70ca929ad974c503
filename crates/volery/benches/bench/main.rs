//! Measures the program as its users meet it, each figure beside its physical floor, taken in the same rounds so
//! that both see the same load. Prints one table and writes it as JSON. Never fails because of a time.
//!
//! `cargo bench --profile dist -p volery`, with ` -- start call limits agents tree crowd memory output growth lost` for some
//! of it. `VOLERY_BENCH_BEFORE` may name another program, such as that of the last version: each group is measured with it
//! too, right before, and the table has its figures beside the own ones.

mod bench_env;
mod figure;
mod floor;
mod growth;
mod lost_workers;
mod rounds;

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use bench_env::BenchEnv;
use figure::Figure;

/// A group of figures: its name on the command line, and how it is measured.
type Group = (&'static str, fn(&BenchEnv) -> anyhow::Result<Vec<Figure>>);

const GROUPS: [Group; 10] = [
    ("start", rounds::start),
    ("call", rounds::call),
    ("limits", rounds::limits),
    ("agents", rounds::agents),
    ("tree", rounds::tree),
    ("crowd", rounds::crowd),
    ("memory", rounds::memory),
    ("output", rounds::output),
    ("growth", growth::growth),
    ("lost", lost_workers::lost),
];

fn main() -> anyhow::Result<()> {
    // Cargo adds its own flags, such as `--bench`.
    let selected: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let mut out = std::io::stdout().lock();
    let unknown = selected.iter().find(|word| !GROUPS.iter().any(|(name, _)| name == word));
    ensure!(
        unknown.is_none(),
        "there is no group {unknown:?}; the groups are {:?}",
        GROUPS.map(|(name, _)| name)
    );
    let other = before();
    let (mut figures, mut before) = (Vec::new(), Vec::new());
    // All are deleted at the end: after large deletions, ext4 without a journal takes several times as long to create a file,
    // so the second program would pay for the files of the first.
    let mut envs = Vec::new();
    for (name, measure) in GROUPS {
        if selected.is_empty() || selected.iter().any(|word| word == name) {
            for (program, figures) in [
                (other.as_deref(), &mut before),
                (Some(Path::new(env!("CARGO_BIN_EXE_volery"))), &mut figures),
            ] {
                let Some(program) = program else { continue };
                writeln!(std::io::stderr(), "measuring: {name} of {}", program.display())?;
                let env = BenchEnv::new(scratch, program)?;
                figures.extend(measure(&env).with_context(|| format!("measure {name}"))?);
                envs.push(env);
            }
        }
    }
    let path = scratch.with_file_name("bench.json");
    std::fs::write(&path, figure::json(&figures, &before)?)?;
    writeln!(out, "{}\n{}", figure::machine(), figure::table(&figures, &before))?;
    writeln!(out, "written to {}", path.display())?;
    Ok(())
}

/// Returns the program to compare with.
#[expect(clippy::disallowed_methods, reason = "the benchmark's own setting, which is none of the program's")]
fn before() -> Option<PathBuf> {
    std::env::var_os("VOLERY_BENCH_BEFORE").map(PathBuf::from)
}
