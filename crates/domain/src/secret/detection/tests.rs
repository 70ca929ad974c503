//! What is detected as a secret, and what is not.

use proptest::prelude::*;

use super::*;

fn hidden(text: &str) -> String {
    hidden_as(text, None)
}

fn hidden_as(text: &str, name: Option<&str>) -> String {
    mask_literal_secrets(&text.into(), name, "*").as_str().to_owned()
}

#[test]
fn a_value_after_a_secret_name_is_found_in_every_spelling() {
    for (text, expected) in [
        ("--api-key=abc", "--api-key=*"),
        ("--apiKey=abc", "--apiKey=*"),
        ("API_KEY=abc", "API_KEY=*"),
        ("-eGITHUB_TOKEN=abc", "-eGITHUB_TOKEN=*"),
        ("Authorization: Bearer abc", "Authorization: Bearer *"),
        ("--header=X-Api-Key: abc", "--header=X-Api-Key: *"),
        ("https://h.example/mcp?a=1&token=abc&b=2", "https://h.example/mcp?a=1&token=*&b=2"),
        ("postgres://user:abc@h.example/db", "postgres://user:*@h.example/db"),
        ("{\"password\": \"abc\"", "{\"password\": \"*\""),
    ] {
        assert_eq!(hidden(text), expected);
    }
    assert_eq!(hidden_as("abc", Some("--token")), "*");
    assert_eq!(hidden_as("Basic abc", Some("authorization")), "Basic *");
}

#[test]
fn a_service_key_is_found_anywhere_in_a_text() {
    let github = format!("ghp_{}", "a1".repeat(18));
    let amazon = "AKIAABCDEFGHIJKLMNOP";
    let web = format!("eyJ{}.eyJ{}.c2ln", "a".repeat(20), "b".repeat(20));
    for key in [github.as_str(), amazon, &web, "sk-ant-api03-0123456789abcdef", "xoxb-1234567890"] {
        assert_eq!(hidden(&format!("x {key}, y")), "x *, y");
        assert_eq!(hidden(&format!("${{ANY:-{key}}}")), "${ANY:-*}");
    }
}

#[test]
fn references_files_numbers_and_other_names_are_no_secrets() {
    for text in [
        "--token=${TOKEN}",
        "Authorization: Bearer ${TOKEN}",
        "https://h.example/${KEY}?token=${TOKEN}",
        "https://user:${PASSWORD}@h.example",
        "--key-file=/k.pem",
        "--token=/run/secrets/token",
        "--max-tokens=100",
        "--max-token=100",
        "--tokenizer=gpt",
        "--public-key=abc",
        "--keyboard=de",
        "--api-key=<your key>",
        "--api-key",
        "sk-8",
        "@scope/task-runner-with-a-long-name",
        "http://127.0.0.1:8080/mcp",
        "C:\\files",
        "${AKIAABCDEFGHIJKLMNOP}",
        "",
    ] {
        assert_eq!(hidden(text), text);
    }
    assert_eq!(hidden_as("--verbose", Some("--token")), "--verbose");
    assert_eq!(hidden_as("${TOKEN}", Some("--token")), "${TOKEN}");
    assert_eq!(hidden_as("${TOKEN:-abc}", Some("--token")), "${TOKEN:-*}");
}

proptest! {
    #[test]
    fn any_text_is_masked_without_losing_its_variables(
        text in "([a-zA-Z0-9ä=:/@&?#\"' .*-]|\\$\\{|\\}|:-|token|key|sk-|://|Bearer |ghp_|[0-9a-f]{20}){0,20}",
        name in prop::option::of("[-a-zA-ZäÄ_]{0,12}|--token"),
    ) {
        let text = VariableText::from(text);
        let ranges = find_literal_secrets(&text, name.as_deref());
        let mut from = 0;
        for range in &ranges {
            prop_assert!(from <= range.start && range.start < range.end && range.end <= text.as_str().len());
            prop_assert!(text.as_str().is_char_boundary(range.start) && text.as_str().is_char_boundary(range.end));
            from = range.end;
        }
        let masked = mask_literal_secrets(&text, name.as_deref(), "***");
        prop_assert_eq!(text.variables().collect::<Vec<_>>(), masked.variables().collect::<Vec<_>>());
    }
}
