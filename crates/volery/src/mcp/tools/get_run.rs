//! `get_run`: returns one run, with pages of its result, events and output.

use domain::run::StdStream;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::event_page;
use super::super::tool_call::ToolCall;
use super::catalog::{Hints, NativeTool, ToolReply};
use super::changed_files::{ChangedFiles, GET_RUN_FILES_MAX};
use super::run_report::RunReport;
use engine::{EngineError, ReadOutput};

/// The size limit of a page of the result, in escaped JSON.
const PAGE_BYTES_MAX: usize = 100_000;
const EVENTS_DEFAULT: usize = 50;
/// The size limit of a page of events.
const EVENTS_BYTES_MAX: usize = 32 << 10;

pub(super) struct GetRun;

/// Look at one run: how it stands, its result, what it has said so far, its events and its raw output. Works for runs
/// of any client, also long after they ended. Never waits; to wait for a result use wait_runs.
///
/// A long result comes in pages: begin with result_offset 0 and go on with result_next_offset.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Input {
    /// The run_id, or the last digits of it that people are shown.
    run_id: String,
    /// Where in the result to begin, in bytes. Left out: at the beginning.
    result_offset: Option<u64>,
    /// How much of the result to return at most, in bytes. Left out: what your client shows well.
    #[schemars(range(min = 1000, max = 100_000))]
    result_max: Option<usize>,
    /// Also return the events of the run from this number on. 0 is the first.
    events_from: Option<u64>,
    /// How many events at most. Left out: 50.
    #[schemars(range(min = 1, max = 200))]
    events_max: Option<usize>,
    /// Also return what the agent wrote to this stream.
    output: Option<OutputStream>,
    /// Where in the stream to begin, in bytes. Left out: at the beginning.
    output_offset: Option<u64>,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum OutputStream {
    Stdout,
    Stderr,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Output {
    #[serde(flatten)]
    run: RunReport,
    directory: String,
    caller: String,
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<String>,
    /// The run that started this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_run_id: Option<String>,
    /// The runs that this one started.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    children: Vec<Child>,
    /// What happened, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<serde_json::Map<String, Value>>")]
    events: Vec<Value>,
    /// Give it as events_from for the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_event: Option<u64>,
    /// The page of the stream that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<StreamPage>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Child {
    run_id: String,
    agent: String,
    status: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct StreamPage {
    text: String,
    /// Give it as output_offset for the next page.
    next_offset: u64,
    /// The run has ended and this page reaches the end of the stream.
    complete: bool,
}

impl NativeTool for GetRun {
    const NAME: &'static str = "get_run";
    const TITLE: &'static str = "Look at a run";
    const HINTS: Hints = Hints::READ_ONLY;
    const SEARCH_HINT: &'static str = "status, full result, events and output of a sub-agent run";
    const RESULT_CHARS_MAX: Option<u64> = Some(200_000);

    type Input = Input;
    type Output = Output;

    async fn call(call: &ToolCall<'_>, input: Input) -> Result<ToolReply<Output>, EngineError> {
        let offset = input.result_offset.unwrap_or(0);
        let page_bytes = input.result_max.unwrap_or(call.client.result_bytes).min(PAGE_BYTES_MAX);
        let events_max = input.events_max.unwrap_or(EVENTS_DEFAULT);
        let request = engine::GetRun {
            run: input.run_id.clone(),
            result_offset: offset,
            result_max: page_bytes as u64,
            events_from: input.events_from,
            events_max,
        };
        let detail = call.handler.engine.ask(request).await?;
        let output = match input.output {
            Some(stream) => {
                Some(page(call, &input.run_id, stream, input.output_offset.unwrap_or(0), page_bytes).await?)
            }
            None => None,
        };
        let (events, cut_at) = event_page::page(detail.events, EVENTS_BYTES_MAX);
        let run = detail.run;
        let changed_files =
            run.changes.as_ref().map(|changes| ChangedFiles::from_changes(changes, GET_RUN_FILES_MAX));
        let next_event = cut_at.or(detail.next_event);
        let mut report =
            RunReport { changed_files, ..RunReport::with_result_bytes(run.clone(), offset, page_bytes) };
        call.handler.returned_results.record([&report]);
        report.next = report.next.or_else(|| next_page(&report.run_id, next_event, output.as_ref()));
        Ok(ToolReply::Done(Output {
            directory: run.directory.clone(),
            caller: run.caller.clone(),
            created_at: run.created_at.clone(),
            ended_at: run.ended_at.clone(),
            parent_run_id: run.parent.map(|parent| parent.to_string()),
            children: run.children.iter().map(Child::from).collect(),
            run: report,
            events,
            next_event,
            output,
        }))
    }
}

/// Returns how to get the rest of events or output.
fn next_page(run_id: &str, next_event: Option<u64>, output: Option<&StreamPage>) -> Option<String> {
    let more = match (next_event, output) {
        (Some(event), _) => format!("events_from {event} for more events"),
        (None, Some(page)) if !page.complete => format!("output_offset {} for more output", page.next_offset),
        (None, Some(_) | None) => return None,
    };
    Some(format!("Call get_run with run_id {run_id:?} and {more}."))
}

impl From<&engine::ChildView> for Child {
    fn from(child: &engine::ChildView) -> Self {
        Self { run_id: child.run_id.to_string(), agent: child.agent.clone(), status: child.status.clone() }
    }
}

async fn page(
    call: &ToolCall<'_>,
    run: &str,
    stream: OutputStream,
    offset: u64,
    bytes_max: usize,
) -> Result<StreamPage, EngineError> {
    let stream = match stream {
        OutputStream::Stdout => StdStream::Stdout,
        OutputStream::Stderr => StdStream::Stderr,
    };
    // A sixth, so that it fits even if every byte must be escaped: text with replaced bytes cannot be cut by byte offsets.
    let request = ReadOutput { run: run.to_owned(), stream, offset, max: bytes_max / 6 };
    let page = call.handler.engine.ask(request).await?;
    Ok(StreamPage { text: page.text, next_offset: page.next_offset, complete: page.complete })
}
