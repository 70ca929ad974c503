//! Writes the tables that follow from the vendors' tables into the documents.

use std::path::Path;

use backends::vendor_tables::{PAGES, update};

fn main() -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for page in PAGES {
        let path = root.join(page);
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{page}: {error}"))?;
        let updated = update(&text).map_err(|error| format!("{page}: {error}"))?;
        std::fs::write(&path, updated).map_err(|error| format!("{page}: {error}"))?;
    }
    Ok(())
}
