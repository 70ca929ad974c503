//! A server with one tool, for an agent that may not write files: the text that it submits is its answer. The agent's own
//! program starts it inside the run, and it passes the answer to the run's worker.
//!
//! Separate from the native server, whose list of tools is the same for everybody. Small enough to implement the protocol
//! itself: one request at a time, and no state but the connection.

use std::io::{self, BufRead, Read, Write};
use std::process::ExitCode;

use domain::run::CallerOrigin;
use serde_json::{Value, json};

use engine::{CallerContext, EngineError, EngineHandle};

/// The longest line that is read.
const LINE_BYTES_MAX: u64 = 1 << 20;
/// The protocol version for a client that names none.
const PROTOCOL: &str = "2025-06-18";
const TOOL: &str = "submit_result";
/// The tool's definition, and its result when the answer was accepted.
const DEFINITION: &str = include_str!("submit/tool.json");
const ACCEPTED: &str = include_str!("submit/accepted.md");

/// The error codes of JSON-RPC.
const NOT_JSON: i64 = -32700;
const NO_METHOD: i64 = -32601;
const WRONG_PARAMS: i64 = -32602;

/// Serves on standard input and output until the client closes them.
pub(crate) fn serve_submit_tool() -> ExitCode {
    match serve(io::stdin().lock(), io::stdout().lock(), &mut submit_text) {
        Ok(()) => ExitCode::SUCCESS,
        // The client is gone, so nobody would read a message.
        Err(_) => ExitCode::FAILURE,
    }
}

fn submit_text(text: String) -> Result<(), EngineError> {
    let directory = std::env::current_dir().unwrap_or_else(|_| "/".into());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| EngineError::internal(error.to_string()))?;
    runtime.block_on(async {
        let app =
            EngineHandle::open(CallerContext { door: CallerOrigin::Mcp, caller: String::new(), directory })?;
        app.ask(engine::SubmitResult { text }).await
    })
}

/// Answers each line.
fn serve(
    mut input: impl BufRead,
    mut output: impl Write,
    submit_text: &mut dyn FnMut(String) -> Result<(), EngineError>,
) -> io::Result<()> {
    loop {
        let mut line = Vec::new();
        let read = input.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(());
        }
        if !line.ends_with(b"\n") && read as u64 == LINE_BYTES_MAX {
            input.skip_until(b'\n')?;
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let Some(answer) = answer(&line, submit_text) else { continue };
        output.write_all(format!("{answer}\n").as_bytes())?;
        output.flush()?;
    }
}

/// Returns the answer to a line, if it needs one.
fn answer(line: &[u8], submit_text: &mut dyn FnMut(String) -> Result<(), EngineError>) -> Option<Value> {
    let failed = |id: &Value, code: i64, message: &str| json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}});
    let Ok(request) = serde_json::from_slice::<Value>(line) else {
        return Some(failed(&Value::Null, NOT_JSON, "this is no JSON, or too long"));
    };
    // Notifications and unexpected responses are not answered.
    let id = request.get("id").filter(|id| !id.is_null())?;
    let params = &request["params"];
    let result = match request["method"].as_str()? {
        "initialize" => initialize_result(params),
        "ping" => json!({}),
        "tools/list" => json!({"tools": [tool()]}),
        "tools/call" => match (params["name"].as_str(), params["arguments"]["result"].as_str()) {
            (Some(TOOL), Some(text)) => tool_result(submit_text(text.to_owned())),
            (Some(TOOL), None) => {
                tool_result(Err(EngineError::usage("result is missing: the answer as a text")))
            }
            _ => return Some(failed(id, WRONG_PARAMS, "the only tool is submit_result")),
        },
        method => return Some(failed(id, NO_METHOD, &format!("{method} is not known here"))),
    };
    Some(json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

fn initialize_result(params: &Value) -> Value {
    let version = params["protocolVersion"].as_str().unwrap_or(PROTOCOL);
    json!({
        "protocolVersion": version,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "volery-answer", "version": env!("CARGO_PKG_VERSION")},
    })
}

fn tool() -> Value {
    serde_json::from_str(DEFINITION).expect("it is JSON, which a test checks")
}

fn tool_result(submission: Result<(), EngineError>) -> Value {
    let (text, is_error) = match submission {
        Ok(()) => (ACCEPTED.trim_end().to_owned(), false),
        Err(error) => (error.to_string(), true),
    };
    json!({"content": [{"type": "text", "text": text}], "isError": is_error})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_tool_is_listed_called_and_explained_and_nothing_else_is_there() {
        let lines = [
            json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-03-26"}}),
            json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
            json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}),
            json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call",
                "params": {"name": "submit_result", "arguments": {"result": "forty-two"}}}),
            json!({"jsonrpc": "2.0", "id": 4, "method": "tools/call",
                "params": {"name": "submit_result", "arguments": {}}}),
            json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "other"}}),
            json!({"jsonrpc": "2.0", "id": 6, "method": "prompts/list"}),
        ];
        let mut input: String = lines.iter().map(|line| format!("{line}\n")).collect();
        input.push_str("no json\n\n");
        let (mut output, mut submitted) = (Vec::new(), Vec::new());
        let mut collect = |text: String| {
            submitted.push(text);
            Ok(())
        };
        serve(input.as_bytes(), &mut output, &mut collect).unwrap();
        let answers: Vec<Value> = String::from_utf8(output)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(submitted, ["forty-two"]);
        assert_eq!(answers.len(), 7, "{answers:?}");
        assert_eq!(answers[0]["result"]["protocolVersion"], json!("2025-03-26"));
        assert_eq!(answers[1]["result"]["tools"][0]["name"], json!("submit_result"));
        assert_eq!(answers[2]["result"]["isError"], json!(false));
        assert_eq!(answers[3]["result"]["isError"], json!(true));
        assert_eq!(answers[4]["error"]["code"], json!(WRONG_PARAMS));
        assert_eq!(answers[5]["error"]["code"], json!(NO_METHOD));
        assert_eq!((&answers[6]["error"]["code"], &answers[6]["id"]), (&json!(NOT_JSON), &Value::Null));
    }
}
