//! `codex/event`: the notifications of `codex mcp-server` during a call, each with the id of its request.

use rmcp::model::{CustomNotification, RequestId};
use serde_json::{Value, json};

use super::super::super::tool_call::ToolCall;
use engine::RunView;

/// Builds a notification about progress.
pub(super) fn background_event(request: &RequestId, message: &str) -> CustomNotification {
    event(request, json!({ "type": "background_event", "message": message }))
}

/// Sends the event for the start of a task.
pub(super) async fn task_started(call: &ToolCall<'_>) {
    send(call, json!({ "type": "task_started" })).await;
}

/// Sends the last message of Codex and the end of the task, or an error.
pub(super) async fn task_ended(call: &ToolCall<'_>, run: &RunView, content: &str, failed: bool) {
    if failed {
        return send(call, json!({ "type": "error", "message": run.explanation })).await;
    }
    send(call, json!({ "type": "agent_message", "message": content })).await;
    send(call, json!({ "type": "task_complete", "last_agent_message": content })).await;
}

async fn send(call: &ToolCall<'_>, message: Value) {
    let event = event(&call.context.id, message);
    // A client that is gone is noticed elsewhere.
    let _ = call.context.peer.send_notification(event.into()).await;
}

fn event(request: &RequestId, message: Value) -> CustomNotification {
    let params = json!({ "_meta": { "requestId": request }, "id": request.to_string(), "msg": message });
    CustomNotification::new("codex/event", Some(params))
}
