//! The script of the server: replies, one per request, in order, and replies to requests that meet a condition.

use serde::Deserialize;
use serde_json::Value;

use crate::request_condition::RequestCondition;

/// The reply to one request, or to several.
#[derive(Debug, Clone, PartialEq)]
pub struct ScriptedReply {
    pub body: ReplyBody,
    /// The delay before anything is sent.
    pub delay_ms: u64,
    pub times: Times,
    pub usage: ScriptedUsage,
    /// The usage that Anthropic's protocol sends instead: anything, or `null` for none.
    pub usage_json: Option<Value>,
    /// It answers matching requests only, before any reply without a condition.
    pub when: Option<RequestCondition>,
}

/// How many requests get the same reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Times {
    Number(u32),
    /// All further requests, for agents that retry.
    Always,
}

#[derive(Debug, Clone, PartialEq)]
pub enum ReplyBody {
    Answer(ModelAnswer),
    Fault(Fault),
}

/// The text and the tool calls of the model in one turn.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ModelAnswer {
    pub thinking: Option<String>,
    /// Encrypted reasoning; only Anthropic's protocol has it.
    pub redacted_thinking: Option<String>,
    pub text: Option<String>,
    pub calls: Vec<ScriptedCall>,
    pub end: AnswerEnd,
    /// Why the model stopped, in the words of Anthropic's protocol, instead of the reason that fits the answer.
    pub stop_reason: Option<String>,
}

/// How an answer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AnswerEnd {
    #[default]
    Whole,
    /// The model ran out of tokens: everything is sent and marked incomplete.
    Length,
    /// The connection is dropped after half of the text, in the middle of an event; without a text, before any reply.
    Cut,
    /// Nothing is sent after half of the text; without a text, nothing at all.
    Hang,
    /// The body ends properly, without the last three events: the end of a block, the reason and the end.
    Unfinished,
}

/// A tool call of the model.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedCall {
    pub name: String,
    /// An object, or a string for a tool whose input is free text (only OpenAI Responses has those).
    #[serde(default = "no_arguments")]
    pub arguments: Value,
    /// The namespace of the tool; only OpenAI Responses has those.
    #[serde(default)]
    pub namespace: Option<String>,
    /// The id of the call in Anthropic's protocol; empty: none is sent.
    #[serde(default)]
    pub id: Option<String>,
    /// What Anthropic's protocol streams instead of `arguments`, valid or not.
    #[serde(default)]
    pub raw_arguments: Option<String>,
}

impl ScriptedCall {
    /// Calls a tool without arguments.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            arguments: no_arguments(),
            namespace: None,
            id: None,
            raw_arguments: None,
        }
    }
}

/// An error response of the API.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    pub status: u16,
    #[serde(default = "refused")]
    pub message: String,
    /// The vendor's name of the error; by default the one that belongs to the status.
    #[serde(default)]
    pub kind: Option<String>,
    #[serde(default)]
    pub retry_after_s: Option<u64>,
}

/// The token usage that a reply reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedUsage {
    #[serde(default)]
    pub input: u64,
    #[serde(default)]
    pub output: u64,
    /// The part of the input that came from a cache.
    #[serde(default)]
    pub cached: u64,
}

impl Default for ScriptedUsage {
    fn default() -> Self {
        Self { input: 100, output: 10, cached: 0 }
    }
}

fn no_arguments() -> Value {
    Value::Object(serde_json::Map::new())
}

fn refused() -> String {
    "refused by the script".to_owned()
}

impl ScriptedReply {
    fn new(body: ReplyBody) -> Self {
        Self {
            body,
            delay_ms: 0,
            times: Times::Number(1),
            usage: ScriptedUsage::default(),
            usage_json: None,
            when: None,
        }
    }

    /// Answers with a text.
    pub fn say(text: &str) -> Self {
        Self::new(ReplyBody::Answer(ModelAnswer { text: Some(text.to_owned()), ..ModelAnswer::default() }))
    }

    /// Answers with a value as JSON, like a model that was given a schema.
    pub fn say_json(value: &Value) -> Self {
        Self::say(&value.to_string())
    }

    /// Calls a tool.
    pub fn call(name: &str, arguments: Value) -> Self {
        Self::new(ReplyBody::Answer(ModelAnswer::default())).and_call(name, arguments)
    }

    /// Responds with an error status.
    pub fn error(status: u16, message: &str) -> Self {
        Self::new(ReplyBody::Fault(Fault {
            status,
            message: message.to_owned(),
            kind: None,
            retry_after_s: None,
        }))
    }

    /// Sends half of a text, then drops the connection.
    pub fn cut(text: &str) -> Self {
        Self::say(text).ending(AnswerEnd::Cut)
    }

    /// Never answers.
    pub fn hang() -> Self {
        Self::new(ReplyBody::Answer(ModelAnswer::default())).ending(AnswerEnd::Hang)
    }

    /// Sends half of a text, then nothing more.
    pub fn stall(text: &str) -> Self {
        Self::say(text).ending(AnswerEnd::Hang)
    }

    /// Calls one more tool in the same turn.
    #[must_use]
    pub fn and_call(self, name: &str, arguments: Value) -> Self {
        self.push_call(ScriptedCall { arguments, ..ScriptedCall::new(name) })
    }

    /// Calls one more tool in the same turn, in a namespace.
    #[must_use]
    pub fn and_call_in(self, namespace: &str, name: &str, arguments: Value) -> Self {
        let namespace = Some(namespace.to_owned());
        self.push_call(ScriptedCall { arguments, namespace, ..ScriptedCall::new(name) })
    }

    /// Calls one more tool with arguments that may be broken.
    #[must_use]
    pub fn and_raw_call(self, name: &str, arguments: &str) -> Self {
        self.push_call(ScriptedCall { raw_arguments: Some(arguments.to_owned()), ..ScriptedCall::new(name) })
    }

    /// Sets the id of the last call; empty: none is sent.
    #[must_use]
    pub fn with_id(mut self, id: &str) -> Self {
        if let ReplyBody::Answer(answer) = &mut self.body
            && let Some(call) = answer.calls.last_mut()
        {
            call.id = Some(id.to_owned());
        }
        self
    }

    /// Answers only requests that meet a condition, before any reply without one.
    #[must_use]
    pub fn when(mut self, condition: RequestCondition) -> Self {
        self.when = Some(condition);
        self
    }

    /// Adds encrypted reasoning before the answer.
    #[must_use]
    pub fn redacted_thinking(mut self, data: &str) -> Self {
        if let ReplyBody::Answer(answer) = &mut self.body {
            answer.redacted_thinking = Some(data.to_owned());
        }
        self
    }

    /// Sets why the model stopped.
    #[must_use]
    pub fn stopping(mut self, reason: &str) -> Self {
        if let ReplyBody::Answer(answer) = &mut self.body {
            answer.stop_reason = Some(reason.to_owned());
        }
        self
    }

    /// Sets the reported usage to any JSON, or to none with `null`.
    #[must_use]
    pub fn using_json(mut self, usage: Value) -> Self {
        self.usage_json = Some(usage);
        self
    }

    /// Adds reasoning before the answer.
    #[must_use]
    pub fn thinking(mut self, thought: &str) -> Self {
        if let ReplyBody::Answer(answer) = &mut self.body {
            answer.thinking = Some(thought.to_owned());
        }
        self
    }

    /// Ends the answer in another way.
    #[must_use]
    pub fn ending(mut self, end: AnswerEnd) -> Self {
        if let ReplyBody::Answer(answer) = &mut self.body {
            answer.end = end;
        }
        self
    }

    /// Waits before anything is sent.
    #[must_use]
    pub fn after_ms(mut self, delay_ms: u64) -> Self {
        self.delay_ms = delay_ms;
        self
    }

    /// Adds a retry delay to an error.
    #[must_use]
    pub fn retry_after_s(mut self, seconds: u64) -> Self {
        if let ReplyBody::Fault(fault) = &mut self.body {
            fault.retry_after_s = Some(seconds);
        }
        self
    }

    /// Sets the vendor's name of an error.
    #[must_use]
    pub fn kind(mut self, kind: &str) -> Self {
        if let ReplyBody::Fault(fault) = &mut self.body {
            fault.kind = Some(kind.to_owned());
        }
        self
    }

    /// Gives the same reply to this many requests.
    #[must_use]
    pub fn times(mut self, number: u32) -> Self {
        self.times = Times::Number(number);
        self
    }

    /// Gives the same reply to all further requests.
    #[must_use]
    pub fn always(mut self) -> Self {
        self.times = Times::Always;
        self
    }

    /// Sets the reported token usage.
    #[must_use]
    pub fn using(mut self, usage: ScriptedUsage) -> Self {
        self.usage = usage;
        self
    }

    fn push_call(mut self, call: ScriptedCall) -> Self {
        if let ReplyBody::Answer(answer) = &mut self.body {
            answer.calls.push(call);
        }
        self
    }
}

/// Why a script is invalid.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    #[error("read the script: {0}")]
    Json(#[from] serde_json::Error),
    #[error("read reply {number} of the script: {reason}")]
    ScriptedReply { number: usize, reason: &'static str },
}

/// Reads a script: a JSON list of replies.
///
/// `[{"say":"hi"}, {"calls":[{"name":"Bash","arguments":{"command":"ls"}}]}, {"error":{"status":429,"retry_after_s":2},
/// "times":3}, {"say":"Hello world","end":"cut"}, {"end":"hang","times":"always"}]`; every reply may have `delay_ms`,
/// `times`, `usage`, `thinking` and `when`, such as `{"when": {"last": "ENOENT", "model": "m"}}`.
pub fn parse_script(text: &str) -> Result<Vec<ScriptedReply>, ScriptError> {
    let written: Vec<Written> = serde_json::from_str(text)?;
    let reply = |(number, written): (usize, Written)| {
        written.into_reply().map_err(|reason| ScriptError::ScriptedReply { number: number + 1, reason })
    };
    written.into_iter().enumerate().map(reply).collect()
}

/// A reply as it is written in a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    say: Option<String>,
    thinking: Option<String>,
    redacted_thinking: Option<String>,
    stop_reason: Option<String>,
    #[serde(default)]
    calls: Vec<ScriptedCall>,
    end: Option<String>,
    when: Option<RequestCondition>,
    usage_json: Option<Value>,
    error: Option<Fault>,
    #[serde(default)]
    delay_ms: u64,
    times: Option<Value>,
    usage: Option<ScriptedUsage>,
}

impl Written {
    fn into_reply(self) -> Result<ScriptedReply, &'static str> {
        let times = match self.times {
            None => Times::Number(1),
            Some(Value::String(text)) if text == "always" => Times::Always,
            Some(value) => {
                let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
                Times::Number(number.ok_or("times is a number or \"always\"")?)
            }
        };
        let end = match self.end.as_deref() {
            None | Some("whole") => AnswerEnd::Whole,
            Some("length") => AnswerEnd::Length,
            Some("cut") => AnswerEnd::Cut,
            Some("hang") => AnswerEnd::Hang,
            Some("unfinished") => AnswerEnd::Unfinished,
            Some(_) => return Err("end is one of whole, length, cut, hang, unfinished"),
        };
        let nothing = self.say.is_none() && self.thinking.is_none() && self.calls.is_empty();
        let body = match self.error {
            Some(fault) if nothing && self.end.is_none() => ReplyBody::Fault(fault),
            Some(_) => return Err("an error says and calls nothing"),
            None if nothing && matches!(end, AnswerEnd::Whole | AnswerEnd::Length) => {
                return Err("it neither says nor calls anything, and is no error");
            }
            None => ReplyBody::Answer(ModelAnswer {
                thinking: self.thinking,
                redacted_thinking: self.redacted_thinking,
                text: self.say,
                calls: self.calls,
                end,
                stop_reason: self.stop_reason,
            }),
        };
        Ok(ScriptedReply {
            body,
            delay_ms: self.delay_ms,
            times,
            usage: self.usage.unwrap_or_default(),
            usage_json: self.usage_json,
            when: self.when,
        })
    }
}
