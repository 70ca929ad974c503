//! Requests an answer in a given shape through the prompt, for programs that do not support schemas, and reads the
//! answer as a value. Other code, which has a validator, checks the value against the whole schema.

use domain::run::{AgentEnd, Failure, RunSpec};
use serde_json::Value;

use crate::contract::{AgentAnswer, Conclusion};

/// The text between the prompt and the schema.
const REQUEST: &str = include_str!("schema_prompt.md");

/// Returns the prompt of a run, followed by the shape of the answer if one is requested.
pub fn prompt_with_schema(spec: &RunSpec) -> String {
    match &spec.setup.output_schema {
        Some(schema) => format!("{}{REQUEST}{schema}\n", spec.prompt),
        None => spec.prompt.clone(),
    }
}

/// Reads the answer of a successful run as a value; without one the run has failed.
pub fn parse_answer(conclusion: &mut Conclusion) {
    if conclusion.end != AgentEnd::Done {
        return;
    }
    let text = match &conclusion.answer {
        AgentAnswer::Text(text) => text.as_str(),
        AgentAnswer::Stdout | AgentAnswer::Nothing => "",
    };
    match parse_value(text) {
        Some(value) => conclusion.structured = Some(value),
        None => {
            let reason = "the agent answered in words and gave no value".to_owned();
            conclusion.end = AgentEnd::Failed(Failure::missing_value(reason));
        }
    }
}

/// Parses a text as a value, also inside a code fence.
fn parse_value(text: &str) -> Option<Value> {
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
    fn a_value_is_read_with_and_without_a_fence_and_plain_text_is_not() {
        for text in ["{\"count\": 3}", " ```json\n{\"count\": 3}\n``` ", "```\n{\"count\": 3}\n```"] {
            let mut conclusion = Conclusion::new(AgentEnd::Done, AgentAnswer::Text(text.to_owned()));
            parse_answer(&mut conclusion);
            assert_eq!((conclusion.end, conclusion.structured), (AgentEnd::Done, Some(json!({"count": 3}))));
        }
        let mut words = Conclusion::new(AgentEnd::Done, AgentAnswer::Text("three of them".to_owned()));
        parse_answer(&mut words);
        assert!(matches!(words.end, AgentEnd::Failed(Failure::Schema { .. })), "{words:?}");
    }

    #[test]
    fn the_schema_follows_the_prompt() {
        let mut spec = crate::test_fixtures::spec("copilot");
        assert_eq!(prompt_with_schema(&spec), "do it");
        spec.setup.output_schema = Some(json!({"type": "object"}));
        let text = prompt_with_schema(&spec);
        assert!(text.starts_with("do it\n") && text.ends_with("{\"type\":\"object\"}\n"), "{text}");
    }
}
