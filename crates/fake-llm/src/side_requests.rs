//! Side requests: requests to the model that an agent sends in addition to its work, and their answers. They take
//! nothing from the script.

use crate::model_request::ModelRequest;

/// Recognises a side request by its text, and answers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SideRule {
    /// Matches in the instructions or in the last text from the user.
    pub contains: String,
    pub answer: String,
}

/// Side requests of known agents: a text that occurs in them, and an answer that satisfies the agent.
const BUILT_IN_RULES: [(&str, &str); 8] = [
    // claude: quota check, title of a conversation, detection of a new topic.
    ("Write the title", "A title"),
    ("Please write a 5-10 word title", "A title"),
    ("isNewTopic", "{\"isNewTopic\":false,\"title\":null}"),
    // opencode.
    ("You are a title generator", "A title"),
    // goose: the name of a session; over ACP also the name of each tool call.
    ("four words or less", "A short name"),
    ("Summarize this tool call", "using a tool"),
    // gemini with `auto` as model: which model answers.
    ("complexity_reasoning", "{\"complexity_reasoning\":\"easy\",\"complexity_score\":1}"),
    ("Task Routing AI", "{\"reasoning\":\"easy\",\"model_choice\":\"flash\"}"),
];

/// Returns the answer to a side request; `None` if the request is the agent's work.
///
/// A request that offers tools is always work.
pub(crate) fn answer(ask: &ModelRequest, rules: &[SideRule]) -> Option<String> {
    if !ask.tools.is_empty() {
        return None;
    }
    let user = ask.last_user_text();
    let mentions = |text: &str| ask.system.contains(text) || user.contains(text);
    if let Some(rule) = rules.iter().find(|rule| mentions(&rule.contains)) {
        return Some(rule.answer.clone());
    }
    if user == "quota" {
        return Some("ok".to_owned());
    }
    BUILT_IN_RULES.iter().find(|(text, _)| mentions(text)).map(|(_, answer)| (*answer).to_owned())
}
