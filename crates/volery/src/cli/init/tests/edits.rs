//! Edits of text: the rest of a file survives.

use backends::client_setup::{ConfigEntry, Syntax};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::edit::{EditError, SyntaxEdit, apply, undo};

fn entries() -> Vec<ConfigEntry> {
    let server = json!({"command": "volery", "args": ["serve"], "timeout": 600_000, "trust": true});
    vec![
        ConfigEntry::key(&["mcpServers", "volery"], server),
        ConfigEntry::item(&["enabledMcpjsonServers"], "volery"),
        ConfigEntry::item(&["permissions", "allow"], "mcp__volery"),
    ]
}

fn table() -> Vec<ConfigEntry> {
    let server = json!({"command": "volery", "args": ["serve"], "tool_timeout_sec": 600});
    vec![ConfigEntry::key(&["mcp_servers", "volery"], server)]
}

/// A comment that is valid anywhere and cannot be confused with text.
fn comment() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => Just(String::new()),
        1 => "[a-z]{1,6}".prop_map(|text| format!("/* note {text} */")),
        1 => "[a-z]{1,6}".prop_map(|text| format!("// note {text}\n")),
    ]
}

fn space() -> BoxedStrategy<String> {
    let blank = prop_oneof![Just(""), Just(" "), Just("\n"), Just("\r\n"), Just("\t"), Just("\n\n  ")];
    let spaced = (blank.clone(), comment(), blank);
    spaced.prop_map(|(before, comment, after)| format!("{before}{comment}{after}")).boxed()
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        2 => "[a-zé]{1,4}",
        1 => Just("mcpServers".to_owned()),
        1 => Just("permissions".to_owned()),
        1 => Just("allow".to_owned()),
        1 => Just("enabledMcpjsonServers".to_owned()),
        1 => Just("volery".to_owned()),
    ]
}

/// Returns texts of one JSON value, with comments and in any spacing.
fn json_value() -> BoxedStrategy<String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        any::<i32>().prop_map(|number| number.to_string()),
        "[ -~äß]{0,8}".prop_map(|text| Value::String(text).to_string()),
    ]
    .boxed();
    let nested = leaf.prop_recursive(3, 16, 4, |inner| {
        let list = vec((space(), inner.clone(), space()), 0..4).prop_map(|items| {
            let items: Vec<String> =
                items.into_iter().map(|(a, value, b)| format!("{a}{value}{b}")).collect();
            format!("[{}]", items.join(","))
        });
        prop_oneof![list.boxed(), json_object(inner)]
    });
    nested.boxed()
}

fn json_object(value: BoxedStrategy<String>) -> BoxedStrategy<String> {
    let member = (space(), key(), space(), value, space());
    let parts = (vec(member.boxed(), 0..5), any::<bool>(), space());
    let object = parts.prop_map(|(members, comma, end)| {
        // Another test covers duplicate keys.
        let mut seen = std::collections::BTreeSet::new();
        let members: Vec<String> = members
            .into_iter()
            .filter(|member| seen.insert(member.1.clone()))
            .map(|(a, key, b, value, c)| format!("{a}\"{key}\":{b}{value}{c}"))
            .collect();
        let comma = if comma && !members.is_empty() { "," } else { "" };
        format!("{{{}{comma}{end}}}", members.join(","))
    });
    object.boxed()
}

fn json_text() -> impl Strategy<Value = String> {
    let mark = prop_oneof![9 => Just(""), 1 => Just("\u{feff}")];
    (mark, space(), json_object(json_value()), space())
        .prop_map(|(mark, before, object, after)| format!("{mark}{before}{object}{after}"))
}

fn toml_text() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        Just("# note one".to_owned()),
        Just(String::new()),
        ("[a-z]{1,3}", any::<i16>()).prop_map(|(key, number)| format!("{key} = {number} # note two")),
        "[a-z]{1,3}".prop_map(|key| format!("  {key} = [1, 2, # note three\n 3]")),
        "[a-z]{1,3}".prop_map(|key| format!("{key}.b = \"\"\"x\ny\"\"\"")),
        "[a-z]{1,3}".prop_map(|key| format!("[{key}]")),
        "[a-z]{1,3}".prop_map(|key| format!("[mcp_servers.{key}] # note four")),
        "[a-z]{1,3}".prop_map(|key| format!("[[{key}]]")),
        "[a-z]{1,3}".prop_map(|key| format!("mcp_servers.{key}.command = \"x\"")),
        Just("mcp_servers = { a = { command = \"x\" } }".to_owned()),
        Just("[mcp_servers.volery]\ncommand = \"old\"".to_owned()),
        Just(
            "[mcp_servers.volery] # note five\n# note six\ncommand = \"old\" # note seven\nmine = 1"
                .to_owned()
        ),
        Just("mcp_servers.volery = { command = \"old\", mine = 1 } # note eight".to_owned()),
    ];
    (vec(line, 0..8), any::<bool>(), any::<bool>()).prop_map(|(lines, end, windows)| {
        let text = lines.join("\n") + if end { "\n" } else { "" };
        if windows { text.replace('\n', "\r\n") } else { text }
    })
}

fn notes(text: &str) -> Vec<&str> {
    let mut notes: Vec<&str> = text
        .match_indices("note ")
        .map(|(at, _)| text[at..].split(['\n', '*', '\r']).next().unwrap())
        .collect();
    notes.sort_unstable();
    notes
}

/// Checks that entries are added and removed, and that everything else stays.
fn check(syntax: Syntax, text: &str, entries: &[ConfigEntry]) -> Result<(), TestCaseError> {
    let before = syntax.value(text).unwrap();
    let (merged, done) = match apply(syntax, text, entries) {
        Ok(merged) => merged,
        Err(EditError::OtherShape { .. }) => return Ok(()),
        Err(error) => return Err(TestCaseError::fail(format!("{error}: {text:?}"))),
    };
    // A replaced value loses its comments; all others stay.
    let existing = before.pointer("/mcpServers/volery").or(before.pointer("/mcp_servers/volery"));
    let replaced = existing.is_some_and(|existing| !existing.is_object());
    if !replaced {
        prop_assert_eq!(notes(&merged), notes(text), "{:?}", merged);
    }
    let (again, nothing) = apply(syntax, &merged, entries).unwrap();
    prop_assert!(nothing.is_empty() && again == merged, "a second time changes {merged:?} to {again:?}");
    let undone = undo(syntax, &merged, &done).unwrap();
    prop_assert_eq!(syntax.value(&undone.text).unwrap(), before, "{:?}", merged);
    prop_assert!(undone.changed_since.is_empty());
    if !replaced {
        prop_assert_eq!(notes(&undone.text), notes(text), "{:?} from {:?}", undone.text, merged);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn undoing_an_edit_restores_json_with_comments(text in json_text()) {
        check(Syntax::Json, &text, &entries())?;
    }

    #[test]
    fn undoing_an_edit_restores_toml(text in toml_text()) {
        prop_assume!(Syntax::Toml.value(&text).is_ok());
        check(Syntax::Toml, &text, &table())?;
    }

    #[test]
    fn no_text_makes_an_edit_panic(text in "[ -~\n\"{}\\[\\],:#=é]{0,60}") {
        let _ = apply(Syntax::Json, &text, &entries());
        let _ = apply(Syntax::Toml, &text, &table());
    }
}

#[test]
fn spacing_and_comments_around_an_entry_stay() {
    let text = "// mine\n{\n\t\"z\": 1, // last letter first\n\t\"mcpServers\": {\n\t\t\"other\": {\"command\": \"x\"},\n\t},\n}\n";
    let (merged, _) = apply(Syntax::Json, text, &entries()[..1]).unwrap();
    let expected = text.replace(
        "\"x\"},\n",
        "\"x\"},\n\t\t\"volery\": {\n\t\t\t\"command\": \"volery\",\n\t\t\t\"args\": [\"serve\"],\n\t\t\t\"timeout\": 600000,\n\t\t\t\"trust\": true\n\t\t}\n",
    );
    assert_eq!(merged, expected);
}

#[test]
fn comments_at_the_end_of_toml_stay_before_the_added_table() {
    let text = "model = \"x\"\n\n[a]\nb = 1\n# the end\n";
    let (merged, done) = apply(Syntax::Toml, text, &table()).unwrap();
    let added = "\n[mcp_servers.volery]\ncommand = \"volery\"\nargs = [\"serve\"]\ntool_timeout_sec = 600\n";
    assert_eq!(merged, format!("{text}{added}"));
    assert_eq!(undo(Syntax::Toml, &merged, &done).unwrap().text, text);
}

#[test]
fn a_value_that_was_there_before_comes_back() {
    let text = "{\"mcpServers\": {\"volery\": {\"command\": \"old\"}}}";
    let (merged, done) = apply(Syntax::Json, text, &entries()[..1]).unwrap();
    let back = undo(Syntax::Json, &merged, &done).unwrap();
    assert_eq!(Syntax::Json.value(&back.text), Syntax::Json.value(text));
}

#[test]
fn an_entry_that_somebody_changed_stays() {
    let (merged, done) = apply(Syntax::Json, "{}", &entries()[..1]).unwrap();
    let changed = merged.replace("600000", "5");
    let back = undo(Syntax::Json, &changed, &done).unwrap();
    assert_eq!((back.text, back.changed_since), (changed, vec!["mcpServers.volery".to_owned()]));
}

#[test]
fn an_entry_added_next_to_ours_stays_when_ours_is_undone() {
    let (merged, done) = apply(Syntax::Json, "{}", &entries()[..1]).unwrap();
    let mut value = Syntax::Json.value(&merged).unwrap();
    value["mcpServers"]["mine"] = json!({"command": "m"});
    let back = undo(Syntax::Json, &value.to_string(), &done).unwrap();
    let left = Syntax::Json.value(&back.text).unwrap();
    assert_eq!(left, json!({"mcpServers": {"mine": {"command": "m"}}}));
}

#[test]
fn an_unreadable_text_is_reported_with_its_position() {
    let position = |syntax: Syntax, text: &str| match apply(syntax, text, &entries()) {
        Err(EditError::Unreadable { line, column, .. }) => (line, column),
        other => panic!("{text:?} gave {other:?}"),
    };
    assert_eq!(position(Syntax::Json, "{\n  \"a\": ,\n}"), (2, 8));
    assert_eq!(position(Syntax::Json, "{'a': 1}"), (1, 2));
    assert_eq!(position(Syntax::Json, "{\"a\": 1 \"b\": 2}"), (1, 9));
    assert_eq!(position(Syntax::Toml, "a = 1\nb = = 2\n"), (2, 5));
    assert_eq!(position(Syntax::Toml, "[a]\n[a]\n").0, 2);
}

#[test]
fn a_value_of_another_type_is_left_alone() {
    for text in
        ["[]", "1", "{\"mcpServers\": []}", "{\"mcpServers\": null}", "{\"permissions\": {\"allow\": 1}}"]
    {
        let error = apply(Syntax::Json, text, &entries()).unwrap_err();
        assert!(matches!(error, EditError::OtherShape { .. }), "{text}: {error}");
    }
}

#[test]
fn the_last_of_two_equal_keys_counts() {
    let text = "{\"mcpServers\": {}, \"mcpServers\": {\"a\": {}}}";
    let (merged, done) = apply(Syntax::Json, text, &entries()[..1]).unwrap();
    let both: Value = serde_json::from_str(&merged).unwrap();
    assert_eq!(both["mcpServers"].as_object().unwrap().len(), 2, "{merged}");
    assert_eq!(undo(Syntax::Json, &merged, &done).unwrap().text, text);
}

#[test]
fn a_key_that_would_show_another_when_it_goes_stays() {
    let (merged, done) = apply(Syntax::Json, "{}", &entries()[1..2]).unwrap();
    let with_duplicate = merged.replace("{\n", "{\n  \"enabledMcpjsonServers\": 1,\n");
    let error = undo(Syntax::Json, &with_duplicate, &done).err().unwrap();
    assert!(matches!(error, EditError::Ambiguous { .. }), "{error}");
}
