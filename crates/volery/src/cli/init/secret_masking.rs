//! Masks secrets in the diffs of configuration files, because models read them too.

use backends::client_setup::Syntax;
use domain::secret::value_without_secrets;
use serde_json::Value;

use super::edit::SyntaxEdit;

const MASK: &str = "[hidden]";
/// Shorter secrets may be parts of ordinary words, and are only masked in quotes.
const BARE_MIN: usize = 8;

/// Masks the secrets of these files in a text.
pub(super) fn mask_secrets(text: &str, syntax: Syntax, files: [&str; 2]) -> String {
    let mut secrets = Vec::new();
    for file in files {
        if let Ok(value) = syntax.value(file) {
            collect(&value, &value_without_secrets(&value, MASK), &mut secrets);
        }
    }
    // The longest first, so that a secret that contains another is masked whole.
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    secrets.dedup();
    secrets.iter().fold(text.to_owned(), |text, secret| {
        let escaped = Value::from(secret.as_str()).to_string();
        let text = text.replace(&escaped, &format!("\"{MASK}\"")).replace(&format!("'{secret}'"), MASK);
        if secret.len() < BARE_MIN { text } else { text.replace(secret.as_str(), MASK) }
    })
}

/// Collects the texts that masking changed.
fn collect(value: &Value, hidden: &Value, secrets: &mut Vec<String>) {
    match (value, hidden) {
        (Value::Object(value), Value::Object(hidden)) => {
            let pairs = value.iter().filter_map(|(key, value)| Some((value, hidden.get(key)?)));
            pairs.for_each(|(value, hidden)| collect(value, hidden, secrets));
        }
        (Value::Array(value), Value::Array(hidden)) => {
            value.iter().zip(hidden).for_each(|(value, hidden)| collect(value, hidden, secrets));
        }
        (Value::String(text), hidden) if value != hidden && !text.is_empty() => secrets.push(text.clone()),
        _ => {}
    }
}
