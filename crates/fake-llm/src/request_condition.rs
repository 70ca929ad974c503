//! Conditions of replies: which requests a scripted reply answers, when several conversations run at once.

use serde::Deserialize;

use crate::model_request::ModelRequest;

/// What a request must be like. Members that are not set do not matter.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RequestCondition {
    /// The whole name of the model.
    pub model: Option<String>,
    /// A text in the instructions.
    pub system: Option<String>,
    /// A text in the first message.
    pub first: Option<String>,
    /// A text in the last message, or in a tool result that it contains.
    pub last: Option<String>,
    /// A text in the last tool result.
    pub result: Option<String>,
    /// The name of a tool that the model may call.
    pub tool: Option<String>,
    /// The number of messages.
    pub messages: Option<usize>,
}

impl RequestCondition {
    /// Matches requests whose last message contains this text.
    pub fn last(text: &str) -> Self {
        Self { last: Some(text.to_owned()), ..Self::default() }
    }

    /// Matches requests whose last tool result contains this text.
    pub fn result(text: &str) -> Self {
        Self { result: Some(text.to_owned()), ..Self::default() }
    }

    /// Matches requests whose first message contains this text.
    pub fn first(text: &str) -> Self {
        Self { first: Some(text.to_owned()), ..Self::default() }
    }

    pub(crate) fn matches(&self, request: &ModelRequest) -> bool {
        let Self { model, system, first, last, result, tool, messages } = self;
        let contains = |wanted: &Option<String>, text: &str| {
            wanted.as_ref().is_none_or(|wanted| text.contains(wanted.as_str()))
        };
        let text_of = |message: Option<&crate::Message>| {
            message.map_or(String::new(), |message| {
                let results = message.results.iter().map(|result| result.text.as_str());
                std::iter::once(message.text.as_str()).chain(results).collect::<Vec<_>>().join("\n")
            })
        };
        model.as_ref().is_none_or(|model| *model == request.model)
            && contains(system, &request.system)
            && contains(first, &text_of(request.messages.first()))
            && contains(last, &text_of(request.messages.last()))
            && contains(result, request.last_result().map_or("", |result| &result.text))
            && tool.as_ref().is_none_or(|tool| request.tools.contains(tool))
            && messages.is_none_or(|number| request.messages.len() == number)
    }
}
