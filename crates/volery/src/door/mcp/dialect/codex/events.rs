//! `codex/event`: what `codex mcp-server` told its client while it worked, each with the id of the request that it is about.

use rmcp::model::{CustomNotification, RequestId};
use serde_json::{Value, json};

use super::super::super::call::Call;
use crate::app::RunView;

/// What goes on, in words.
pub(super) fn going_on(request: &RequestId, message: &str) -> CustomNotification {
    event(request, json!({ "type": "background_event", "message": message }))
}

/// Tells that Codex begins.
pub(super) async fn began(call: &Call<'_>) {
    send(call, json!({ "type": "task_started" })).await;
}

/// Tells what Codex said at last, and that it has ended; or why there is no answer.
pub(super) async fn ended(call: &Call<'_>, run: &RunView, content: &str, failed: bool) {
    if failed {
        return send(call, json!({ "type": "error", "message": run.explanation })).await;
    }
    send(call, json!({ "type": "agent_message", "message": content })).await;
    send(call, json!({ "type": "task_complete", "last_agent_message": content })).await;
}

async fn send(call: &Call<'_>, message: Value) {
    let event = event(&call.context.id, message);
    // A client that is gone is noticed elsewhere.
    let _ = call.context.peer.send_notification(event.into()).await;
}

fn event(request: &RequestId, message: Value) -> CustomNotification {
    let params = json!({ "_meta": { "requestId": request }, "id": request.to_string(), "msg": message });
    CustomNotification::new("codex/event", Some(params))
}
