//! Measures the program as its users meet it, each figure beside its physical floor, taken in the same rounds so
//! that both see the same load. Prints one table and writes it as JSON. Never fails because of a time.
//!
//! `cargo bench -p volery`, or `cargo bench -p volery -- start call crowd memory output lists` for some of it.

mod figure;
mod floor;
mod million;
mod rounds;
mod stage;

use std::io::Write;
use std::path::Path;

use anyhow::Context;

use figure::Figure;
use stage::Stage;

/// A group of figures: its name on the command line, and how it is measured.
type Group = (&'static str, fn(&Stage) -> anyhow::Result<Vec<Figure>>);

const GROUPS: [Group; 6] = [
    ("start", rounds::start),
    ("call", rounds::call),
    ("crowd", rounds::crowd),
    ("memory", rounds::memory),
    ("output", rounds::output),
    ("lists", million::lists),
];

fn main() -> anyhow::Result<()> {
    // Cargo adds its own flags, such as `--bench`.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let mut out = std::io::stdout().lock();
    let mut figures = Vec::new();
    for (name, measure) in GROUPS {
        if wanted.is_empty() || wanted.iter().any(|word| word == name) {
            writeln!(std::io::stderr(), "measuring: {name}")?;
            let stage = Stage::new(scratch)?;
            figures.extend(measure(&stage).with_context(|| format!("measure {name}"))?);
        }
    }
    let path = scratch.with_file_name("bench.json");
    std::fs::write(&path, figure::json(&figures)?)?;
    writeln!(out, "{}\n{}", figure::machine(), figure::table(&figures))?;
    writeln!(out, "written to {}", path.display())?;
    Ok(())
}
