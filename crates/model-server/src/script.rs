//! What the server shall answer: replies, one per request, in the order in which they are asked for.

use serde::Deserialize;
use serde_json::Value;

/// The answer to one request, or to several.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    pub body: Body,
    /// How long nothing is sent at first.
    pub delay_ms: u64,
    pub times: Times,
    pub usage: Usage,
}

/// How many requests get the same reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Times {
    Number(u32),
    /// All that come: what an agent that tries again must meet.
    Always,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    Answer(Answer),
    Fault(Fault),
}

/// What the model says and does in one turn.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Answer {
    pub thinking: Option<String>,
    pub text: Option<String>,
    pub calls: Vec<ToolCall>,
    pub end: End,
}

/// How an answer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum End {
    #[default]
    Whole,
    /// The model had no tokens left: all is sent, and said to be incomplete.
    Length,
    /// After half of the text, in the middle of an event, the connection is dropped; without a text, before any reply.
    Cut,
    /// After half of the text nothing more comes; without a text, nothing at all.
    Hang,
}

/// A tool that the model wants to be called.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolCall {
    pub name: String,
    /// An object, or a string for a tool whose input is free text (only OpenAI Responses has those).
    #[serde(default = "no_arguments")]
    pub arguments: Value,
    /// The group of the tool; only OpenAI Responses has those.
    #[serde(default)]
    pub namespace: Option<String>,
}

/// A refusal of the API.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    pub status: u16,
    #[serde(default = "refused")]
    pub message: String,
    /// The vendor's word for it; by default the one that belongs to the status.
    #[serde(default)]
    pub kind: Option<String>,
    #[serde(default)]
    pub retry_after_s: Option<u64>,
}

/// What a reply claims to have cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    #[serde(default)]
    pub input: u64,
    #[serde(default)]
    pub output: u64,
    /// The part of the input that came from a cache.
    #[serde(default)]
    pub cached: u64,
}

impl Default for Usage {
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

impl Reply {
    fn of(body: Body) -> Self {
        Self { body, delay_ms: 0, times: Times::Number(1), usage: Usage::default() }
    }

    /// Answers with a text.
    pub fn say(text: &str) -> Self {
        Self::of(Body::Answer(Answer { text: Some(text.to_owned()), ..Answer::default() }))
    }

    /// Answers with a value as JSON, as models do that were given a schema.
    pub fn say_json(value: &Value) -> Self {
        Self::say(&value.to_string())
    }

    /// Calls a tool.
    pub fn call(name: &str, arguments: Value) -> Self {
        Self::of(Body::Answer(Answer::default())).and_call(name, arguments)
    }

    /// Refuses with a status.
    pub fn error(status: u16, message: &str) -> Self {
        Self::of(Body::Fault(Fault { status, message: message.to_owned(), kind: None, retry_after_s: None }))
    }

    /// Says half of a text, then drops the connection.
    pub fn cut(text: &str) -> Self {
        Self::say(text).ending(End::Cut)
    }

    /// Never answers.
    pub fn hang() -> Self {
        Self::of(Body::Answer(Answer::default())).ending(End::Hang)
    }

    /// Says half of a text, then nothing more.
    pub fn stall(text: &str) -> Self {
        Self::say(text).ending(End::Hang)
    }

    /// Calls one more tool in the same turn.
    #[must_use]
    pub fn and_call(self, name: &str, arguments: Value) -> Self {
        self.with(ToolCall { name: name.to_owned(), arguments, namespace: None })
    }

    /// Calls one more tool in the same turn, one of a group.
    #[must_use]
    pub fn and_call_in(self, namespace: &str, name: &str, arguments: Value) -> Self {
        let namespace = Some(namespace.to_owned());
        self.with(ToolCall { name: name.to_owned(), arguments, namespace })
    }

    /// Thinks aloud before it answers.
    #[must_use]
    pub fn thinking(mut self, thought: &str) -> Self {
        if let Body::Answer(answer) = &mut self.body {
            answer.thinking = Some(thought.to_owned());
        }
        self
    }

    /// Ends otherwise than whole.
    #[must_use]
    pub fn ending(mut self, end: End) -> Self {
        if let Body::Answer(answer) = &mut self.body {
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

    /// Says when to come again, in a refusal.
    #[must_use]
    pub fn retry_after_s(mut self, seconds: u64) -> Self {
        if let Body::Fault(fault) = &mut self.body {
            fault.retry_after_s = Some(seconds);
        }
        self
    }

    /// Names the kind of a refusal as a vendor would.
    #[must_use]
    pub fn kind(mut self, kind: &str) -> Self {
        if let Body::Fault(fault) = &mut self.body {
            fault.kind = Some(kind.to_owned());
        }
        self
    }

    /// Answers this many requests the same.
    #[must_use]
    pub fn times(mut self, number: u32) -> Self {
        self.times = Times::Number(number);
        self
    }

    /// Answers all further requests the same.
    #[must_use]
    pub fn always(mut self) -> Self {
        self.times = Times::Always;
        self
    }

    /// Claims to have used these tokens.
    #[must_use]
    pub fn using(mut self, usage: Usage) -> Self {
        self.usage = usage;
        self
    }

    fn with(mut self, call: ToolCall) -> Self {
        if let Body::Answer(answer) = &mut self.body {
            answer.calls.push(call);
        }
        self
    }
}

/// A script that cannot be understood.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    #[error("read the script: {0}")]
    Json(#[from] serde_json::Error),
    #[error("read reply {number} of the script: {reason}")]
    Reply { number: usize, reason: &'static str },
}

/// Reads a script: a JSON list of replies.
///
/// `[{"say":"hi"}, {"calls":[{"name":"Bash","arguments":{"command":"ls"}}]}, {"error":{"status":429,"retry_after_s":2},
/// "times":3}, {"say":"Hello world","end":"cut"}, {"end":"hang","times":"always"}]`; every reply may have `delay_ms`,
/// `times`, `usage` and `thinking`.
pub fn parse_script(text: &str) -> Result<Vec<Reply>, ScriptError> {
    let written: Vec<Written> = serde_json::from_str(text)?;
    let reply = |(number, written): (usize, Written)| {
        written.into_reply().map_err(|reason| ScriptError::Reply { number: number + 1, reason })
    };
    written.into_iter().enumerate().map(reply).collect()
}

/// A reply as it is written in a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    say: Option<String>,
    thinking: Option<String>,
    #[serde(default)]
    calls: Vec<ToolCall>,
    end: Option<String>,
    error: Option<Fault>,
    #[serde(default)]
    delay_ms: u64,
    times: Option<Value>,
    usage: Option<Usage>,
}

impl Written {
    fn into_reply(self) -> Result<Reply, &'static str> {
        let times = match self.times {
            None => Times::Number(1),
            Some(Value::String(word)) if word == "always" => Times::Always,
            Some(value) => {
                let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
                Times::Number(number.ok_or("times is a number or \"always\"")?)
            }
        };
        let end = match self.end.as_deref() {
            None | Some("whole") => End::Whole,
            Some("length") => End::Length,
            Some("cut") => End::Cut,
            Some("hang") => End::Hang,
            Some(_) => return Err("end is one of whole, length, cut, hang"),
        };
        let nothing = self.say.is_none() && self.thinking.is_none() && self.calls.is_empty();
        let body = match self.error {
            Some(fault) if nothing && self.end.is_none() => Body::Fault(fault),
            Some(_) => return Err("an error says and calls nothing"),
            None if nothing && matches!(end, End::Whole | End::Length) => {
                return Err("it neither says nor calls anything, and is no error");
            }
            None => Body::Answer(Answer { thinking: self.thinking, text: self.say, calls: self.calls, end }),
        };
        Ok(Reply { body, delay_ms: self.delay_ms, times, usage: self.usage.unwrap_or_default() })
    }
}
