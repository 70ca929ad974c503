//! Questions that an agent of Claude Code asks with its tool `AskUserQuestion`: their text for a person, and the person's answers
//! as the tool expects them.

use serde_json::{Map, Value, json};

/// Separates the answers of one line, because a line on a terminal cannot contain another line.
const ANSWER_SEPARATOR: char = ';';

/// Returns the text of the questions in the tool's input; `None` if there are none. Several questions get numbers.
pub(crate) fn question_text(input: &Value) -> Option<String> {
    let texts: Vec<String> = questions(input)
        .map(|question| {
            let labels = question["options"].as_array().into_iter().flatten();
            let labels: Vec<&str> = labels.filter_map(|option| option["label"].as_str()).collect();
            format!("{} ({})", question["question"].as_str().unwrap_or_default(), labels.join(", "))
        })
        .collect();
    match texts.as_slice() {
        [] => None,
        [only] => Some(only.clone()),
        several => {
            let numbered = several.iter().enumerate().map(|(at, text)| format!("{}. {text}", at + 1));
            let how = format!("(answer all {}, separated by {ANSWER_SEPARATOR})", texts.len());
            Some(numbered.chain([how]).collect::<Vec<_>>().join("\n"))
        }
    }
}

/// Returns the tool's input with the answers: one line or one separated part for each question, otherwise the whole text for
/// each.
pub(crate) fn with_answers(input: &Value, text: &str) -> Value {
    let text = text.trim();
    let count = questions(input).count();
    let parts = |separator: char| -> Option<Vec<&str>> {
        let parts: Vec<&str> = text.split(separator).map(str::trim).filter(|part| !part.is_empty()).collect();
        (count > 1 && parts.len() == count).then_some(parts)
    };
    let parts = parts('\n').or_else(|| parts(ANSWER_SEPARATOR)).unwrap_or_else(|| vec![text; count]);
    let names = questions(input).filter_map(|question| question["question"].as_str());
    let answers: Map<String, Value> =
        names.zip(parts).map(|(name, part)| (name.to_owned(), json!(part))).collect();
    let mut input = input.clone();
    input["answers"] = Value::Object(answers);
    input
}

fn questions(input: &Value) -> impl Iterator<Item = &Value> {
    let all = input["questions"].as_array().into_iter().flatten();
    all.filter(|question| question["question"].is_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool_input(questions: &[&str]) -> Value {
        let options = json!([{"label": "A"}, {"label": "B"}]);
        let questions: Vec<Value> =
            questions.iter().map(|text| json!({"question": text, "options": options})).collect();
        json!({ "questions": questions })
    }

    #[test]
    fn several_questions_have_numbers_and_say_how_to_answer() {
        assert_eq!(question_text(&tool_input(&[])), None);
        assert_eq!(question_text(&json!({"questions": [{"options": []}, 7]})), None);
        assert_eq!(question_text(&tool_input(&["Which?"])).as_deref(), Some("Which? (A, B)"));
        let two = "1. Which? (A, B)\n2. When? (A, B)\n(answer all 2, separated by ;)";
        assert_eq!(question_text(&tool_input(&["Which?", "When?"])).as_deref(), Some(two));
    }

    #[test]
    fn each_question_gets_its_own_answer() {
        let two = tool_input(&["Which?", "When?"]);
        let answers = |input: &Value, text: &str| with_answers(input, text)["answers"].clone();
        let own = json!({"Which?": "A", "When?": "B"});
        for text in ["A\nB", " A \n\nB\n", "A; B", "A;B;"] {
            assert_eq!(answers(&two, text), own, "{text:?}");
        }
        // The number of parts is another one, so nobody knows which part answers which question.
        for text in ["A", "A; B; A", "A\nB\nA"] {
            assert_eq!(answers(&two, text), json!({"Which?": text, "When?": text}), "{text:?}");
        }
        assert_eq!(answers(&tool_input(&["Which?"]), "A; B"), json!({"Which?": "A; B"}));
        let odd = json!({"questions": [{"options": []}, {"question": "Which?"}]});
        assert_eq!(answers(&odd, "A; B"), json!({"Which?": "A; B"}));
    }
}
