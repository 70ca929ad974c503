//! Which requests to the model an agent makes beside its work, and what it gets: they take nothing from the script.

use crate::ask::Ask;

/// Recognises a side request by its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SideRule {
    /// Occurs in the instructions or in the last text of the user.
    pub contains: String,
    pub answer: String,
}

/// What agents were seen to ask beside their work: the text, and an answer that satisfies them.
const KNOWN: [(&str, &str); 8] = [
    // claude: quota check, title of a conversation, what the user turned to.
    ("Write the title", "A title"),
    ("Please write a 5-10 word title", "A title"),
    ("isNewTopic", "{\"isNewTopic\":false,\"title\":null}"),
    // opencode.
    ("You are a title generator", "A title"),
    // goose: the name of a session; over ACP also that of each use of a tool.
    ("four words or less", "A short name"),
    ("Summarize this tool call", "using a tool"),
    // gemini with `auto` as model: which model shall answer.
    ("complexity_reasoning", "{\"complexity_reasoning\":\"easy\",\"complexity_score\":1}"),
    ("Task Routing AI", "{\"reasoning\":\"easy\",\"model_choice\":\"flash\"}"),
];

/// Returns the answer to a side request; `None` if the request is the agent's work.
///
/// A request that offers tools is always work.
pub(crate) fn answer(ask: &Ask, own: &[SideRule]) -> Option<String> {
    if !ask.tools.is_empty() {
        return None;
    }
    let user = ask.last_user_text();
    let asked = |text: &str| ask.system.contains(text) || user.contains(text);
    if let Some(rule) = own.iter().find(|rule| asked(&rule.contains)) {
        return Some(rule.answer.clone());
    }
    if user == "quota" {
        return Some("ok".to_owned());
    }
    KNOWN.iter().find(|(text, _)| asked(text)).map(|(_, answer)| (*answer).to_owned())
}
