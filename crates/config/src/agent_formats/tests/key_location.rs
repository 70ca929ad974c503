//! The location of keys in every syntax.

use crate::agent_formats::locate_key;

#[test]
fn a_key_is_found_in_every_kind_of_file_and_no_other_for_it() {
    let yaml = "---\nefforts: x\ninner:\n  effort: low\neffort: high\n---\neffort: none\n";
    assert_eq!(locate_key("a.md", yaml, "effort"), Some((5, 1)));
    assert_eq!(locate_key("a.toml", "a = 1\neffort = \"high\"\n", "effort"), Some((2, 1)));
    let json = "{\n  \"tools\": [\"effort\", {\"effort\": 0}],\n  \"effort\" : 1\n}";
    assert_eq!(locate_key("a.json", json, "effort"), Some((3, 3)));
    assert_eq!(locate_key("a.json", "{\"a\": {\"effort\": 1}, \"effort\": 2}", "effort"), Some((1, 22)));
    for (file, text) in [
        ("a.md", "---\ndescription: effort\n---\n"),
        ("a.md", "effort: high\n"),
        ("a.json", "{\"effort\""),
        ("a.json", "[]"),
        ("a.toml", "[inner]\neffort = 1\n"),
    ] {
        assert_eq!(locate_key(file, text, "effort"), None, "{file} {text}");
    }
}
