//! What a file says, without the secrets that stand in it: for pages that are only looked at. What is executed is never
//! taken from here.

use serde_json::Value;

use super::written::{keys_of_services, names_secret, without_written_secrets};
use crate::mcp_server::is_option;

/// Returns the words of a command, in which an option may say what the next word is.
pub fn words_without_secrets(words: &[String], mask: &str) -> Vec<String> {
    let before = std::iter::once(None).chain(words.iter().map(|word| Some(word.as_str())));
    let named = before.zip(words).map(|(before, word)| (before.filter(|word| is_option(word)), word));
    named
        .map(|(option, word)| {
            without_written_secrets(&word.as_str().into(), option, mask).as_str().to_owned()
        })
        .collect()
}

/// Returns command lines, whose words are parted by white space.
pub fn lines_without_secrets(lines: &str, mask: &str) -> String {
    let hidden: Vec<String> = lines.split('\n').map(|line| line_without_secrets(line, mask)).collect();
    hidden.join("\n")
}

/// Returns a value of a file, whose keys say what the texts below them are.
pub fn value_without_secrets(value: &Value, mask: &str) -> Value {
    named_value(value, None, mask)
}

/// Returns prose. Only what begins as the keys of services do is hidden, since whoever writes about tokens and passwords
/// names none.
pub fn prose_without_keys(text: &str, mask: &str) -> String {
    let mut hidden = text.to_owned();
    for range in keys_of_services(text).into_iter().rev() {
        hidden.replace_range(range, mask);
    }
    hidden
}

fn line_without_secrets(line: &str, mask: &str) -> String {
    let mut hidden = String::new();
    let mut option: Option<&str> = None;
    for part in line.split_inclusive(char::is_whitespace) {
        let word = part.trim_matches(|letter: char| letter.is_whitespace() || AROUND.contains(letter));
        match option.filter(|option| names_secret(option)) {
            Some(option) if !word.is_empty() => {
                let shown = without_written_secrets(&word.into(), Some(option), mask);
                hidden.push_str(&part.replacen(word, shown.as_str(), 1));
            }
            Some(_) | None => hidden.push_str(part),
        }
        option = Some(word).filter(|word| is_option(word));
    }
    without_written_secrets(&hidden.as_str().into(), None, mask).as_str().to_owned()
}

/// What stands around the words of a line without being a part of them.
const AROUND: &str = "\"',[]";

fn named_value(value: &Value, name: Option<&str>, mask: &str) -> Value {
    match value {
        Value::String(text) if name.is_some_and(names_secret) => {
            without_written_secrets(&text.as_str().into(), name, mask).as_str().into()
        }
        Value::String(text) => lines_without_secrets(text, mask).into(),
        Value::Array(items) => {
            let words: Option<Vec<String>> =
                items.iter().map(|item| item.as_str().map(ToOwned::to_owned)).collect();
            match words {
                Some(words) if name.is_none_or(|name| !names_secret(name)) => {
                    words_without_secrets(&words, mask).into()
                }
                Some(_) | None => items.iter().map(|item| named_value(item, name, mask)).collect(),
            }
        }
        Value::Object(entries) => entries
            .iter()
            .map(|(key, value)| (key.clone(), named_value(value, Some(key), mask)))
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
    fn keys_of_a_value_tell_which_texts_are_secret() {
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
