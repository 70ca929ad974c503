//! Which braces are filled.

use proptest::prelude::*;
use serde_json::json;

use super::{Inputs, fill_placeholders};

fn inputs() -> Inputs {
    let values = [
        ("name", json!("ada")),
        ("count", json!(3)),
        ("list", json!(["a", 1])),
        ("none", json!(null)),
        ("out-dir", json!("{input:name}")),
    ];
    values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

#[test]
fn every_spelling_is_filled() {
    for (text, expected) in [
        ("Hi {input:name}!", "Hi ada!"),
        ("{input:name?}{input:missing?}", "ada"),
        ("{input:name:x} {input:missing:a b} {input:missing|a/b} {input:none:d}", "ada a b a/b d"),
        ("{name} {count} {list}", "ada 3 [\"a\",1]"),
        ("${inputs.name}/${ inputs.count }", "ada/3"),
        ("${inputs.missing ?? 'd e'} ${inputs.missing ?? 0} ${inputs.missing ?? \"?? x\"}", "d e 0 ?? x"),
        ("${inputs.missing || inputs.name} ${inputs.name ?? 'x'}", "ada ada"),
        ("${json(inputs.name)} ${json(inputs.missing ?? null)}", "\"ada\" null"),
        ("${exists(inputs.name)} ${exists(inputs.none)}", "true false"),
        // A value is not filled again.
        ("{input:out-dir}", "{input:name}"),
        ("$${inputs.name} {{name}}", "$ada {ada}"),
    ] {
        assert_eq!(fill_placeholders(text, &inputs()), (expected.to_owned(), Vec::new()), "{text}");
    }
}

#[test]
fn inputs_without_a_value_are_reported_once_and_stay() {
    let text = "{input:b} ${inputs.a} {input:b} ${inputs.none} ${json(inputs.c)} {d}";
    let unfilled = ["b", "a", "none", "c"].map(ToOwned::to_owned).to_vec();
    assert_eq!(fill_placeholders(text, &inputs()), (text.to_owned(), unfilled));
}

#[test]
fn other_braces_are_left_alone() {
    for text in [
        "{\"name\": 1} {env:HOME} {output:x} ${HOME} ${event.reason} ${state.name} {directive_name} {none}",
        "{name\n} {input:} {input:name!} {input:missing!} ${inputs.} ${inputs.a.b} ${} {} { name } ${exists(name)}",
        "${inputs.missing ?? } ${inputs.missing ?? state.x} ${json(state.x)} ${'x'} {",
    ] {
        assert_eq!(fill_placeholders(text, &inputs()), (text.to_owned(), Vec::new()));
    }
}

proptest! {
    #[test]
    fn any_text_is_survived(text in "([{}$a-c:?|'\"(). ]|input:|inputs\\.|\\?\\?|\\PC){0,80}") {
        let values: Inputs = [("a".to_owned(), json!("A"))].into();
        let (filled, unfilled) = fill_placeholders(&text, &values);
        prop_assert!(unfilled.iter().all(|name| name != "a" && text.contains(name.as_str())));
        if !text.contains('{') {
            prop_assert_eq!(&filled, &text);
        }
    }

    #[test]
    fn a_text_without_placeholders_is_unchanged(text in "([{}$\" \n:]|[x-z]){0,80}") {
        prop_assert_eq!(fill_placeholders(&text, &inputs()), (text, Vec::new()));
    }

    #[test]
    fn a_value_arrives_unchanged(value in "\\PC{0,60}", before in "[^{}$]{0,20}", after in "[^{}$]{0,20}") {
        let values: Inputs = [("x".to_owned(), json!(value))].into();
        for placeholder in ["{x}", "{input:x}", "{input:x|d}", "${inputs.x}", "${inputs.x ?? 'd'}"] {
            let filled = fill_placeholders(&format!("{before}{placeholder}{after}"), &values).0;
            prop_assert_eq!(filled, format!("{before}{value}{after}"));
        }
    }
}
