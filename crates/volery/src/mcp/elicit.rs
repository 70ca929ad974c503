//! Asks the client's user a question of a run, if the client supports it: by a server request in the older generation of
//! the protocol, by an answer that requires input in the newer one. Optional: otherwise the client's model gets the
//! question, and can answer with `answer_run`, as people can with the command line.

use domain::id::RunId;
use domain::invisible_text::strip_invisible;
use domain::run::AnswerOrigin;
use rmcp::model::{
    ClientResult, ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema,
    ErrorData, InputRequest, InputRequests, InputRequiredResult, InputResponses, ProtocolVersion,
    ServerRequest,
};
use serde_json::Value;

use super::tool_call::ToolCall;
use engine::{AnswerRequest, EngineError, ErrorKind, GetRun, QuestionView, RunView};

/// How a client asks its user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ElicitationMode {
    /// By a server request, during the call.
    Request,
    /// By the answer to the call, which the client then repeats with the user's answer.
    Answer,
}

/// Returns how this client asks its user; `None` if it cannot.
pub(super) fn elicitation_mode(call: &ToolCall<'_>) -> Option<ElicitationMode> {
    if !call.supports_elicitation() || call.elicitation_declined {
        return None;
    }
    let modern =
        call.context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28);
    Some(if modern { ElicitationMode::Answer } else { ElicitationMode::Request })
}

/// Separates the id of a run below the called run from the id of its question, in the key of an input request.
const KEY_SEPARATOR: char = '/';

/// Asks the client's user a question, and sends the answer to the run that asks. Returns whether the user answered.
pub(super) async fn ask(call: &ToolCall<'_>, question: &QuestionView) -> bool {
    let Ok(params) = params(question) else { return false };
    // Not with the library's own method, which would add a URL parser as a dependency.
    let request = ServerRequest::ElicitRequest(ElicitRequest::new(params));
    match call.context.peer.send_request(request).await {
        Ok(ClientResult::ElicitResult(result)) => {
            answer(call, question.run_id, question.question.clone(), result).await
        }
        Ok(_) | Err(_) => false,
    }
}

/// Returns the answer that makes the client ask its user; `None` if it has another mode, or there is no question.
pub(super) fn input_required(call: &ToolCall<'_>, run: &RunView) -> Option<InputRequiredResult> {
    if elicitation_mode(call) != Some(ElicitationMode::Answer) {
        return None;
    }
    // The run's id cannot be guessed, and the journal has everything else.
    let requests = questions(run).ok().filter(|requests| !requests.is_empty())?;
    Some(InputRequiredResult::new(Some(requests), Some(run.run_id.to_string())))
}

/// Handles a call that is repeated with the user's answers. Returns its run, and whether there was an answer.
pub(super) async fn resume(
    call: &ToolCall<'_>,
    state: &str,
    responses: Option<InputResponses>,
) -> Result<(RunId, bool), ErrorData> {
    let unknown = || ErrorData::invalid_params("this requestState is not one of this server's", None);
    let run: RunId = state.parse().map_err(|_| unknown())?;
    let request = GetRun { run: run.to_string(), ..GetRun::default() };
    call.handler.engine.ask(request).await.map_err(|_| unknown())?;
    let mut answered = false;
    for (question, response) in responses.unwrap_or_default() {
        let result: ElicitResult = serde_json::from_value(response).map_err(|error| {
            ErrorData::invalid_params(format!("the response to {question:?} cannot be read: {error}"), None)
        })?;
        let (run, question) = parse_key(run, &question);
        answered |= answer(call, run, question, result).await;
    }
    Ok((run, answered))
}

/// Sends an answer to the run. If the user dismisses the question, it stays open.
async fn answer(call: &ToolCall<'_>, run: RunId, question: String, result: ElicitResult) -> bool {
    if result.action == ElicitationAction::Cancel {
        return false;
    }
    match call.handler.engine.ask(to_answer(call, run, question, &result)).await {
        Ok(_) => true,
        // Answered in the meantime, or unknown.
        Err(EngineError { kind: ErrorKind::NotFound | ErrorKind::Usage, .. }) => true,
        Err(_) => false,
    }
}

/// Converts the user's response to an answer.
pub(super) fn to_answer(
    call: &ToolCall<'_>,
    run: RunId,
    question: String,
    result: &ElicitResult,
) -> AnswerRequest {
    let text = result.content.as_ref().and_then(|content| content.get("answer")).and_then(Value::as_str);
    AnswerRequest {
        run: run.to_string(),
        question: Some(question),
        allow: Some(result.action == ElicitationAction::Accept),
        text: text.filter(|text| !text.is_empty()).map(str::to_owned),
        by: call.client.caller_name(),
        origin: AnswerOrigin::McpClient,
        granted_rules: Vec::new(),
    }
}

/// Returns the open question of a run, or of a run below it, as input requests.
pub(super) fn questions(run: &RunView) -> Result<InputRequests, ErrorData> {
    let Some(question) = run.needs_answer.first() else { return Ok(InputRequests::new()) };
    let request = InputRequest::Elicitation(ElicitRequest::new(params(question)?));
    Ok(InputRequests::from([(question_key(question), request)]))
}

/// Returns the key of a question among the input requests of the run that shows it.
pub(super) fn question_key(question: &QuestionView) -> String {
    match question.is_own() {
        true => question.question.clone(),
        false => format!("{}{KEY_SEPARATOR}{}", question.run_id, question.question),
    }
}

/// Returns the run and the question that a key names.
fn parse_key(run: RunId, key: &str) -> (RunId, String) {
    let below =
        key.split_once(KEY_SEPARATOR).and_then(|(below, question)| Some((below.parse().ok()?, question)));
    let (run, question) = below.unwrap_or((run, key));
    (run, question.to_owned())
}

fn params(question: &QuestionView) -> Result<ElicitRequestParams, ErrorData> {
    let requested_schema = ElicitationSchema::builder()
        .optional_string_with("answer", |schema| {
            schema.description("What to answer; leave empty to just approve.")
        })
        .build()
        .map_err(|error| ErrorData::internal_error(error, None))?;
    let who = match question.is_own() {
        true => format!("The agent {}", question.agent_path()),
        false => question.headline(),
    };
    let message = strip_invisible(&format!("{who} asks: {}", question.text)).into_owned();
    Ok(ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_a_question_leads_back_to_its_run() {
        let run_at = |second| {
            RunId::from_parts(domain::Timestamp::from_second(second).expect("a valid moment"), [7; 10])
        };
        let (root, child) = (run_at(1), run_at(2));
        let key = |run_id: RunId, agents: &[&str]| {
            question_key(&QuestionView {
                run_id,
                short_id: run_id.short(),
                agents: agents.iter().map(|agent| (*agent).to_owned()).collect(),
                question: "a0".to_owned(),
                text: "may I?".to_owned(),
                until: String::new(),
                allow_rules: Vec::new(),
            })
        };
        assert_eq!(key(root, &["chief"]), "a0");
        assert_eq!(parse_key(root, "a0"), (root, "a0".to_owned()));
        assert_eq!(parse_key(root, &key(child, &["chief", "fixer"])), (child, "a0".to_owned()));
        assert_eq!(parse_key(root, "x/a0"), (root, "x/a0".to_owned()), "no question has this id");
    }
}
