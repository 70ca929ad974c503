//! The documents have the tables that follow from the vendors' tables.

use std::path::Path;

use super::*;

#[test]
fn the_documents_have_the_tables_of_the_vendors() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for page in PAGES {
        let text = std::fs::read_to_string(root.join(page)).unwrap();
        assert!(text.contains(BEGIN.0), "{page} has no vendor table");
        assert_eq!(update(&text).as_ref(), Ok(&text), "{page}: run scripts/vendor-tables");
    }
}

#[test]
fn a_stale_table_is_replaced_and_the_rest_stays() {
    let page = format!("before\n{}patience{}\nold\n{END}\nafter\n", BEGIN.0, BEGIN.1);
    let updated = update(&page).unwrap();
    assert!(updated.starts_with("before\n<!-- vendor table patience"), "{updated}");
    assert!(updated.ends_with(&format!("{END}\nafter\n")), "{updated}");
    assert!(updated.contains("| `codex` | 240 s | 8 KiB |") && !updated.contains("old"), "{updated}");
    assert_eq!(update(&updated), Ok(updated));
    assert!(update(&page.replace("patience", "prices")).unwrap_err().contains("prices"));
    assert!(update(&page.replace(END, "")).is_err());
}
