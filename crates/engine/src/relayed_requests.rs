//! The requests that an agent may make from inside its run. Its door sends them to the run's worker, which answers with
//! the rights of the run.

use std::sync::Arc;

use domain::invisible_text::strip_invisible_in_value;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::api::{
    AnswerRequest, CancelRunsRequest, EngineError, GetRun, HealthRequest, ListAgents, ListRuns, ReadEvents,
    ReadOutput, ShowAgent, StartRequest, SubmitResult, WaitRequest,
};
use crate::ask::{Ask, OnProgress};
use crate::engine::Engine;
use crate::ipc::relay::Relay;

/// The key of a request's name in its message.
const NAME_KEY: &str = "ask";

/// A request that passes between processes, and so between versions: its name and fields may not change.
pub(crate) trait Relayed:
    Ask<Answer: Serialize + DeserializeOwned> + Serialize + DeserializeOwned
{
    const NAME: &'static str;
}

macro_rules! relayed_requests {
    (
        supervisor: { $($supervised:ty => $supervised_name:literal,)* }
        engine: { $($request:ty => $name:literal,)* }
    ) => {
        $(impl Relayed for $supervised {
            const NAME: &'static str = $supervised_name;
        })*

        $(impl Relayed for $request {
            const NAME: &'static str = $name;
        })*

        /// Answers a request that arrived in a message.
        pub(crate) async fn serve(
            engine: &Arc<Engine>,
            message: Value,
            progress: OnProgress<'_>,
        ) -> Result<Value, EngineError> {
            let name = message_name(&message).to_owned();
            match name.as_str() {
                $($supervised_name)|* => {
                    Err(EngineError::internal(format!("{name} goes through the supervisor")))
                }
                $($name => answer::<$request>(engine, message, progress).await,)*
                _ => {
                    Err(EngineError::usage(format!("the worker of this run does not know the request {name}")))
                }
            }
        }
    };
}

relayed_requests! {
    // The supervisor knows the remaining budget of the tree, and it alone writes the run's events.
    supervisor: {
        StartRequest => "start",
        SubmitResult => "submit_result",
    }
    engine: {
        ListAgents => "list_agents",
        ShowAgent => "show_agent",
        WaitRequest => "wait",
        GetRun => "get_run",
        ListRuns => "list_runs",
        CancelRunsRequest => "cancel",
        AnswerRequest => "answer",
        HealthRequest => "health",
        ReadOutput => "read_output",
        ReadEvents => "read_events",
    }
}

/// Sends a request to the worker of this door's run.
pub(crate) async fn relay<R: Relayed>(
    request: R,
    relay: &Relay,
    progress: OnProgress<'_>,
) -> Result<R::Answer, EngineError> {
    let mut message =
        serde_json::to_value(&request).map_err(|error| EngineError::internal(error.to_string()))?;
    message[NAME_KEY] = R::NAME.into();
    relay.ask(message, progress).await
}

/// Returns an answer without invisible characters. Inside a run, a model reads the answers.
pub(crate) fn without_invisible<T: Serialize + DeserializeOwned>(answer: &T) -> Result<T, EngineError> {
    let failed = |error: serde_json::Error| EngineError::internal(error.to_string());
    let mut value = serde_json::to_value(answer).map_err(failed)?;
    strip_invisible_in_value(&mut value);
    serde_json::from_value(value).map_err(failed)
}

/// Returns the name of the request in a message.
pub(crate) fn message_name(message: &Value) -> &str {
    message[NAME_KEY].as_str().unwrap_or_default()
}

/// Returns the request in a message.
pub(crate) fn parse<R: Relayed>(message: Value) -> Result<R, EngineError> {
    let mut fields = message;
    if let Some(fields) = fields.as_object_mut() {
        fields.remove(NAME_KEY);
    }
    serde_json::from_value(fields)
        .map_err(|error| EngineError::usage(format!("could not read the request {}: {error}", R::NAME)))
}

async fn answer<R: Relayed>(
    engine: &Arc<Engine>,
    message: Value,
    progress: OnProgress<'_>,
) -> Result<Value, EngineError> {
    let answer = parse::<R>(message)?.answer(engine, progress).await?;
    serde_json::to_value(answer).map_err(|error| EngineError::internal(error.to_string()))
}
