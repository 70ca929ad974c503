//! Puts a question of a run to the client's user, where the client can: as a request of ours in the older generation of
//! the protocol, as an answer that wants more input in the newer one. Nothing depends on it: a client that does not
//! answer hands the question to its model, and `answer_run` and people can answer it too.

use domain::harmless::harmless;
use domain::id::RunId;
use rmcp::model::{
    ClientResult, ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema,
    ErrorData, InputRequest, InputRequests, InputRequiredResult, InputResponses, ProtocolVersion,
    ServerRequest,
};
use serde_json::Value;

use super::call::Call;
use crate::app::{Answer, AppError, ErrorKind, GetRun, RunView, WaitingView};

/// How the client is asked, if it can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// By a request of ours, while the call goes on.
    Request,
    /// By the answer to the call, which the client then repeats with what its user said.
    Answer,
}

/// Returns how questions are put to the user of this client; `None`: not at all.
pub(super) fn way(call: &Call<'_>) -> Option<Way> {
    if !call.takes_questions() || call.unasked {
        return None;
    }
    let modern =
        call.context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28);
    Some(if modern { Way::Answer } else { Way::Request })
}

/// Asks the client's user about a run that waits, and hands the answer on. Returns whether there was one.
pub(super) async fn ask(call: &Call<'_>, run: &RunView) -> bool {
    let (Some(question), Ok(params)) = (question_of(run), params(run)) else { return false };
    // Not by the library's own method, which would bring a parser of addresses along.
    let request = ServerRequest::ElicitRequest(ElicitRequest::new(params));
    match call.context.peer.send_request(request).await {
        Ok(ClientResult::ElicitResult(result)) => answer(call, run.run_id, question.to_owned(), result).await,
        Ok(_) | Err(_) => false,
    }
}

/// Returns an answer to a call that asks the client's user first; nothing where that is not the way, or nothing is asked.
pub(super) fn input_required(call: &Call<'_>, run: &RunView) -> Option<InputRequiredResult> {
    if way(call) != Some(Way::Answer) {
        return None;
    }
    // The run's id is a handle that nobody guesses, and all else is in the journal.
    let requests = questions(run).ok().filter(|requests| !requests.is_empty())?;
    Some(InputRequiredResult::new(Some(requests), Some(run.run_id.to_string())))
}

/// Takes a call that is repeated with what the user said. Returns the run that it is about, and whether somebody answered.
pub(super) async fn resume(
    call: &Call<'_>,
    state: &str,
    responses: Option<InputResponses>,
) -> Result<(RunId, bool), ErrorData> {
    let unknown = || ErrorData::invalid_params("this requestState is not one of this server's", None);
    let run: RunId = state.parse().map_err(|_| unknown())?;
    let ask = GetRun { run: run.to_string(), ..GetRun::default() };
    call.door.app.get_run(ask).await.map_err(|_| unknown())?;
    let mut answered = false;
    for (question, response) in responses.unwrap_or_default() {
        let result: ElicitResult = serde_json::from_value(response).map_err(|error| {
            ErrorData::invalid_params(format!("the response to {question:?} cannot be read: {error}"), None)
        })?;
        answered |= answer(call, run, question, result).await;
    }
    Ok((run, answered))
}

/// Hands an answer on to the run. Whoever closes the question without an answer leaves it open.
async fn answer(call: &Call<'_>, run: RunId, question: String, result: ElicitResult) -> bool {
    if result.action == ElicitationAction::Cancel {
        return false;
    }
    match call.door.app.answer(to_answer(call, run, question, &result)).await {
        Ok(_) => true,
        // Answered in the meantime, or never asked.
        Err(AppError { kind: ErrorKind::NotFound | ErrorKind::Usage, .. }) => true,
        Err(_) => false,
    }
}

/// Returns what somebody said, as an answer to a question.
pub(super) fn to_answer(call: &Call<'_>, run: RunId, question: String, result: &ElicitResult) -> Answer {
    let text = result.content.as_ref().and_then(|content| content.get("answer")).and_then(Value::as_str);
    Answer {
        run: run.to_string(),
        question: Some(question),
        allow: Some(result.action == ElicitationAction::Accept),
        text: text.filter(|text| !text.is_empty()).map(str::to_owned),
        by: call.client.by(),
    }
}

/// Returns what a run asks, as requests for input.
pub(super) fn questions(run: &RunView) -> Result<InputRequests, ErrorData> {
    let Some(question) = question_of(run) else { return Ok(InputRequests::new()) };
    let request = InputRequest::Elicitation(ElicitRequest::new(params(run)?));
    Ok(InputRequests::from([(question.to_owned(), request)]))
}

fn question_of(run: &RunView) -> Option<&str> {
    match &run.waiting {
        Some(WaitingView::Answer { question, .. }) => Some(question),
        Some(WaitingView::Slot { .. } | WaitingView::Session { .. }) | None => None,
    }
}

fn params(run: &RunView) -> Result<ElicitRequestParams, ErrorData> {
    let text = match &run.waiting {
        Some(WaitingView::Answer { text, .. }) => text.as_str(),
        Some(WaitingView::Slot { .. } | WaitingView::Session { .. }) | None => "",
    };
    let requested_schema = ElicitationSchema::builder()
        .optional_string_with("answer", |schema| {
            schema.description("What to answer; leave empty to just approve.")
        })
        .build()
        .map_err(|error| ErrorData::internal_error(error, None))?;
    let message = harmless(&format!("The agent {} asks: {text}", run.agent)).into_owned();
    Ok(ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema })
}
