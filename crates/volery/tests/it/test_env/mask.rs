//! Texts of the program with what differs from run to run replaced, so that a snapshot can hold them whole.

use std::path::Path;
use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::Value;

use super::TestEnv;

/// What is replaced, in this order. A short id keeps its width, so that the columns of a table stay as they are.
static MASKS: LazyLock<Vec<(Regex, &'static str)>> = LazyLock::new(|| {
    let masks = [
        (r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}", "[run id]"),
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "[session id]"),
        (r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "[time]"),
        (r"\b\d{4}-\d\d-\d\d\b", "[day]"),
        (r"\b[0-9a-f]{64}\b", "[digest]"),
        (r"\b[0-9a-f]{8}\b", "[run-id]"),
        (r"\b\d+(\.\d+)?(ms|s|m\d\ds|h\d\dm|d\d\dh)\b|\b\d+\.\d s\b", "[span]"),
        (r"\b\d+[mhd] ago\b", "[span] ago"),
        (r"\b(127\.0\.0\.1|localhost):[1-9]\d{3,4}\b", "$1:[port]"),
        (r"\bPATH \(/[^)]*\)", "PATH ([folders])"),
        // What holds the processes of a run depends on the machine.
        (r"(?m)^contained .*(\n +(limit on|missing:) .*)*$", "contained   [as this machine can]"),
    ];
    masks.map(|(pattern, name)| (Regex::new(pattern).unwrap(), name)).into()
});

/// The version of a program, or an address, which has a part more.
static VERSION: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\b\d+\.\d+\.\d+(\.\d+)?\b").unwrap());

/// Returns the first paragraph of a page, which has no lists of arguments and variables of a vendor's program.
pub(crate) fn first_paragraph(page: &str) -> &str {
    page.split("\n\n").next().unwrap_or_default()
}

impl TestEnv {
    /// Returns a text without this test's folder, the folder of the programs, versions, ids, moments and lengths of time.
    pub(crate) fn masked(&self, text: &str) -> String {
        let root = self.path("");
        let programs = Path::new(env!("CARGO_BIN_EXE_volery")).parent().unwrap();
        let text = text.replace(root.to_str().unwrap().trim_end_matches('/'), "[stage]");
        let text = text.replace(programs.canonicalize().unwrap().to_str().unwrap(), "[programs]");
        let text = text.replace(programs.to_str().unwrap(), "[programs]");
        let version = |found: &Captures| match found.get(1) {
            Some(_) => found[0].to_owned(),
            None => "[version]".to_owned(),
        };
        let text = VERSION.replace_all(&text, version).into_owned();
        MASKS.iter().fold(text, |text, (pattern, name)| pattern.replace_all(&text, *name).into_owned())
    }

    /// Returns the texts in an answer of the program, a list of them in as many lines, masked in the same way.
    pub(crate) fn masked_texts(&self, answer: &Value) -> String {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
        let texts = match answer {
            Value::Array(list) => list.iter().map(text).collect::<Vec<_>>().join("\n"),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
                text(answer)
            }
        };
        self.masked(&texts)
    }
}
