//! Writes the tables of differences into the pages `docs/coming-from-*.md`, from the doc comments of tests.

use std::path::Path;

use tidy::differences::{page, rows, table, with_table};
use tidy::source_tree::SourceTree;

fn main() -> std::io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let tree = SourceTree::read(&root)?;
    let (rows, _) = rows(&tree);
    let mut systems: Vec<&str> = rows.iter().map(|row| row.system.as_str()).collect();
    systems.sort_unstable();
    systems.dedup();
    for system in systems {
        let path = page(system);
        let written = tree.get(&path).and_then(|file| with_table(&file.text, &table(&rows, system)));
        if let Some(text) = written {
            std::fs::write(root.join(path), text)?;
        }
    }
    Ok(())
}
