//! The shape of an answer for programs that know no schema: it is asked for in the prompt, and the answer is read as a
//! value. Whether the value satisfies all of the schema is for whoever holds a validator.

use domain::run::{AgentEnd, Failure, RunSpec};
use serde_json::Value;

use crate::contract::{Answer, Conclusion};

/// Stands between the prompt and the schema.
const REQUEST: &str = include_str!("worded_schema.md");

/// Returns the prompt of a run, with the shape of the answer if one is asked for.
pub fn prompt(spec: &RunSpec) -> String {
    match &spec.setup.output_schema {
        Some(schema) => format!("{}{REQUEST}{schema}\n", spec.prompt),
        None => spec.prompt.clone(),
    }
}

/// Reads the answer of a run that succeeded as a value; without one it did not succeed.
pub fn read_value(conclusion: &mut Conclusion) {
    if conclusion.end != AgentEnd::Done {
        return;
    }
    let text = match &conclusion.answer {
        Answer::Text(text) => text.as_str(),
        Answer::Stdout | Answer::Nothing => "",
    };
    match value_of(text) {
        Some(value) => conclusion.structured = Some(value),
        None => {
            let reason = "the agent answered in words and gave no value".to_owned();
            conclusion.end = AgentEnd::Failed(Failure::without_value(reason));
        }
    }
}

/// Returns the value that a text is, also within a fence of code.
fn value_of(text: &str) -> Option<Value> {
    let text = text.trim();
    let fenced = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    let inner = fenced.map_or(text, |inner| inner.strip_prefix("json").unwrap_or(inner));
    serde_json::from_str(inner.trim()).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_is_read_with_and_without_a_fence_and_words_are_none() {
        for text in ["{\"count\": 3}", " ```json\n{\"count\": 3}\n``` ", "```\n{\"count\": 3}\n```"] {
            let mut conclusion = Conclusion::new(AgentEnd::Done, Answer::Text(text.to_owned()));
            read_value(&mut conclusion);
            assert_eq!((conclusion.end, conclusion.structured), (AgentEnd::Done, Some(json!({"count": 3}))));
        }
        let mut words = Conclusion::new(AgentEnd::Done, Answer::Text("three of them".to_owned()));
        read_value(&mut words);
        assert!(matches!(words.end, AgentEnd::Failed(Failure::Schema { .. })), "{words:?}");
    }

    #[test]
    fn the_schema_follows_the_prompt() {
        let mut spec = crate::sample::spec("copilot");
        assert_eq!(prompt(&spec), "do it");
        spec.setup.output_schema = Some(json!({"type": "object"}));
        let text = prompt(&spec);
        assert!(text.starts_with("do it\n") && text.ends_with("{\"type\":\"object\"}\n"), "{text}");
    }
}
