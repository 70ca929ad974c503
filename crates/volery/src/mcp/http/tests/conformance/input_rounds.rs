//! Tools that need input of the client: in rounds in the newer generation, by server requests in the older.

use rmcp::model::{CallToolRequestParams, ErrorData, InputRequiredResult, InputResponses, ServerRequest};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::fixture::parse;

/// The result of a round.
pub(super) enum Round {
    Ask(InputRequiredResult),
    Text(String),
}

/// A question for a form with one field.
pub(super) fn form(message: &str, field: &str, kind: &str) -> Value {
    json!({"method": "elicitation/create", "params": {
        "message": message,
        "requestedSchema": {"type": "object", "properties": {field: {"type": kind}}, "required": [field]},
    }})
}

fn sample(prompt: &str, tokens: u32) -> Value {
    json!({"method": "sampling/createMessage", "params": {
        "messages": [{"role": "user", "content": {"type": "text", "text": prompt}}],
        "maxTokens": tokens,
    }})
}

fn roots() -> Value {
    json!({"method": "roots/list", "params": {}})
}

pub(super) fn ask(requests: Value, state: Option<&str>) -> Result<Round, ErrorData> {
    let mut result = json!({"resultType": "input_required", "inputRequests": requests});
    if let Some(state) = state {
        result["requestState"] = json!(sealed(state));
    }
    parse(result).map(Round::Ask)
}

/// Returns a field of a form that the client has filled in.
pub(super) fn filled(responses: Option<&InputResponses>, key: &str, field: &str) -> Option<String> {
    let response = responses?.get(key)?;
    match response.get("content")?.get(field)? {
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// Runs a tool of the newer generation; `None` for other tools.
pub(super) fn round(
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Option<Result<Round, ErrorData>> {
    let responses = request.input_responses.as_ref();
    let has = |key: &str| responses.is_some_and(|responses| responses.contains_key(key));
    let reply = |text: &str| Ok(Round::Text(text.to_owned()));
    let name = form("What is your name?", "name", "string");
    Some(match &*request.name {
        "test_input_required_result_elicitation" | "test_streaming_elicitation" => {
            match filled(responses, "user_name", "name") {
                Some(name) => reply(&format!("Hello, {name}!")),
                None => ask(json!({"user_name": name}), None),
            }
        }
        "test_input_required_result_sampling" if has("capital_question") => {
            reply(&responses.map(|all| all["capital_question"].to_string()).unwrap_or_default())
        }
        "test_input_required_result_sampling" => {
            ask(json!({"capital_question": sample("What is the capital of France?", 100)}), None)
        }
        "test_input_required_result_list_roots" if has("client_roots") => {
            reply(&responses.map(|all| all["client_roots"].to_string()).unwrap_or_default())
        }
        "test_input_required_result_list_roots" => ask(json!({"client_roots": roots()}), None),
        "test_input_required_result_request_state" | "test_input_required_result_tampered_state" => {
            match (&request.request_state, has("confirm")) {
                (Some(state), _) => opened(state).and_then(|_| reply("state-ok")),
                (None, _) => {
                    ask(json!({"confirm": form("Please confirm", "ok", "boolean")}), Some("confirm"))
                }
            }
        }
        "test_input_required_result_multiple_inputs" => match &request.request_state {
            Some(state) => opened(state).and_then(|_| reply("all is there")),
            None => {
                let greeting = sample("Generate a greeting", 50);
                ask(json!({"user_name": name, "greeting": greeting, "client_roots": roots()}), Some("all"))
            }
        },
        "test_input_required_result_multi_round" => match request.request_state.as_deref().map(opened) {
            Some(Err(error)) => Err(error),
            Some(Ok(round)) if round == "2" => reply("three rounds"),
            Some(Ok(_)) => {
                let colour = form("Step 2: What is your favorite color?", "color", "string");
                ask(json!({"step2": colour}), Some("2"))
            }
            None => ask(json!({"step1": form("Step 1: What is your name?", "name", "string")}), Some("1")),
        },
        "test_input_required_result_capabilities" => {
            let can = context.client_capabilities().unwrap_or_default();
            let mut requests = json!({});
            if can.elicitation.is_some() {
                requests["user_name"] = name;
            }
            if serde_json::to_value(&can).is_ok_and(|can| can.get("sampling").is_some()) {
                requests["capital_question"] = sample("What is the capital of France?", 100);
            }
            ask(requests, None)
        }
        _ => return None,
    })
}

/// Signs a state, so that tampering is detected.
fn sealed(state: &str) -> String {
    let seal: String = Sha256::digest(format!("only the fixture knows {state}"))
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect();
    format!("{state}.{seal}")
}

fn opened(state: &str) -> Result<String, ErrorData> {
    let plain = state.split('.').next().unwrap_or_default();
    match sealed(plain) == state {
        true => Ok(plain.to_owned()),
        false => Err(ErrorData::invalid_params("this state was not made here", None)),
    }
}

/// Sends a server request to a client of the older generation and returns its answer.
pub(super) async fn request(
    context: &RequestContext<RoleServer>,
    request: Value,
) -> Result<Value, ErrorData> {
    let request: ServerRequest = parse(request)?;
    let answer = context.peer.send_request(request).await;
    let answer = answer.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
    serde_json::to_value(answer).map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

/// Runs a tool of the older generation; `None` for other tools.
pub(super) async fn older(
    context: &RequestContext<RoleServer>,
    tool: &str,
    arguments: &Value,
) -> Option<Result<String, ErrorData>> {
    let elicit = |message: &str, properties: Value, required: Value| {
        json!({"method": "elicitation/create", "params": {
            "message": message,
            "requestedSchema": {"type": "object", "properties": properties, "required": required},
        }})
    };
    let (question, before) = match tool {
        "test_sampling" => (sample(arguments["prompt"].as_str().unwrap_or_default(), 100), "LLM response"),
        "test_elicitation" => {
            let fields = json!({
                "username": {"type": "string", "description": "User's response"},
                "email": {"type": "string", "description": "User's email address"},
            });
            let message = arguments["message"].as_str().unwrap_or_default();
            (elicit(message, fields, json!(["username", "email"])), "User response")
        }
        "test_elicitation_sep1034_defaults" => {
            let fields = json!({
                "name": {"type": "string", "default": "John Doe"},
                "age": {"type": "integer", "default": 30},
                "score": {"type": "number", "default": 95.5},
                "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
                "verified": {"type": "boolean", "default": true},
            });
            (elicit("Please review", fields, json!([])), "Elicitation completed")
        }
        "test_elicitation_sep1330_enums" => {
            let titled = |first: &str| {
                json!([
                    {"const": "value1", "title": format!("First {first}")},
                    {"const": "value2", "title": format!("Second {first}")},
                    {"const": "value3", "title": format!("Third {first}")},
                ])
            };
            let options = json!(["option1", "option2", "option3"]);
            let fields = json!({
                "untitledSingle": {"type": "string", "enum": options},
                "titledSingle": {"type": "string", "oneOf": titled("Option")},
                "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"],
                    "enumNames": ["Option One", "Option Two", "Option Three"]},
                "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
                "titledMulti": {"type": "array", "items": {"anyOf": titled("Choice")}},
            });
            (elicit("Please choose", fields, json!([])), "Elicitation completed")
        }
        _ => return None,
    };
    let answer = request(context, question).await;
    Some(answer.map(|answer| {
        let text = answer["content"]["text"].as_str().map(str::to_owned);
        let action = || {
            format!("action={}, content={}", answer["action"].as_str().unwrap_or_default(), answer["content"])
        };
        format!("{before}: {}", text.unwrap_or_else(action))
    }))
}
