//! Masks secrets in the content of files, for display only. Nothing from here is executed.

use serde_json::Value;

use super::detection::{find_service_keys, mask_literal_secrets, names_secret};
use crate::mcp_server::is_option;

/// Masks the words of a command, in which an option may precede its value.
pub fn words_without_secrets(words: &[String], mask: &str) -> Vec<String> {
    let before = std::iter::once(None).chain(words.iter().map(|word| Some(word.as_str())));
    let named = before.zip(words).map(|(before, word)| (before.filter(|word| is_option(word)), word));
    named
        .map(|(option, word)| mask_literal_secrets(&word.as_str().into(), option, mask).as_str().to_owned())
        .collect()
}

/// Masks command lines, whose words are separated by white space.
pub fn lines_without_secrets(lines: &str, mask: &str) -> String {
    let hidden: Vec<String> = lines.split('\n').map(|line| mask_line(line, mask)).collect();
    hidden.join("\n")
}

/// Masks a value of a file, whose keys name the texts below them.
pub fn value_without_secrets(value: &Value, mask: &str) -> Value {
    mask_value(value, None, mask)
}

/// Masks prose. Only words with the prefix of a service's key are masked, because texts about tokens and passwords do
/// not contain any.
pub fn prose_without_keys(text: &str, mask: &str) -> String {
    let mut hidden = text.to_owned();
    for range in find_service_keys(text).into_iter().rev() {
        hidden.replace_range(range, mask);
    }
    hidden
}

fn mask_line(line: &str, mask: &str) -> String {
    let mut hidden = String::new();
    let mut option: Option<&str> = None;
    for part in line.split_inclusive(char::is_whitespace) {
        let word =
            part.trim_matches(|letter: char| letter.is_whitespace() || SURROUNDING_MARKS.contains(letter));
        match option.filter(|option| names_secret(option)) {
            Some(option) if !word.is_empty() => {
                let shown = mask_literal_secrets(&word.into(), Some(option), mask);
                hidden.push_str(&part.replacen(word, shown.as_str(), 1));
            }
            Some(_) | None => hidden.push_str(part),
        }
        option = Some(word).filter(|word| is_option(word));
    }
    mask_literal_secrets(&hidden.as_str().into(), None, mask).as_str().to_owned()
}

/// Characters around the words of a line that are not part of them.
const SURROUNDING_MARKS: &str = "\"',[]";

fn mask_value(value: &Value, name: Option<&str>, mask: &str) -> Value {
    match value {
        Value::String(text) if name.is_some_and(names_secret) => {
            mask_literal_secrets(&text.as_str().into(), name, mask).as_str().into()
        }
        Value::String(text) => lines_without_secrets(text, mask).into(),
        Value::Array(items) => {
            let words: Option<Vec<String>> =
                items.iter().map(|item| item.as_str().map(ToOwned::to_owned)).collect();
            match words {
                Some(words) if name.is_none_or(|name| !names_secret(name)) => {
                    words_without_secrets(&words, mask).into()
                }
                Some(_) | None => items.iter().map(|item| mask_value(item, name, mask)).collect(),
            }
        }
        Value::Object(entries) => entries
            .iter()
            .map(|(key, value)| (key.clone(), mask_value(value, Some(key), mask)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_in_words_and_lines_are_hidden_and_the_rest_stays() {
        let words = ["curl", "-H", "Authorization: Bearer abc", "--api-key", "abc", "--name", "x"];
        let hidden = words_without_secrets(&words.map(ToOwned::to_owned), "*");
        assert_eq!(hidden, ["curl", "-H", "Authorization: Bearer *", "--api-key", "*", "--name", "x"]);
        let lines = "curl --api-key abc --name x\ncurl -H 'Authorization: Bearer abc'\n";
        let expected = "curl --api-key * --name x\ncurl -H 'Authorization: Bearer *'\n";
        assert_eq!(lines_without_secrets(lines, "*"), expected);
        let quoted = r#"agent a, MCP server b: ["x", "--token", "abc", "y"]"#;
        assert_eq!(lines_without_secrets(quoted, "*"), quoted.replace("abc", "*"));
        assert_eq!(lines_without_secrets("cargo test --locked", "*"), "cargo test --locked");
    }

    #[test]
    fn keys_of_a_value_decide_which_texts_are_secret() {
        let value = json!({"x": {"token": "abc", "tokens": 3, "names": ["abc"]}, "hook": {"command": "y --token abc"},
                           "passwords": ["abc"], "password": ["abc", {"a": "b"}]});
        let expected = json!({"x": {"token": "*", "tokens": 3, "names": ["abc"]}, "hook": {"command": "y --token *"},
                              "passwords": ["abc"], "password": ["*", {"a": "b"}]});
        assert_eq!(value_without_secrets(&value, "*"), expected);
    }

    #[test]
    fn prose_about_secrets_is_left_alone() {
        let key = "sk-ant-api03-0123456789abcdef";
        assert_eq!(
            prose_without_keys("Look for the token: is it safe?", "*"),
            "Look for the token: is it safe?"
        );
        assert_eq!(prose_without_keys(&format!("Use {key}, please."), "*"), "Use *, please.");
    }
}
