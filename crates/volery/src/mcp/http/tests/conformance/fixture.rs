//! The handler of the fixture catalog. Tasks are handled by the real handler.

use std::sync::Arc;
use std::time::Duration;

use rmcp::handler::server::ServerHandler;
use rmcp::model::*;
use rmcp::service::{RequestContext, RoleServer, SubscriptionContext};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::broadcast;

use super::catalog::{self, PNG, WAV};
use super::input_rounds::{self, Round};
use super::task_tools;
use crate::mcp::handler::Handler;
use crate::mcp::tests::scripted_engine::ScriptedEngine;

/// The changes that listeners are notified of.
#[derive(Debug, Clone, Copy)]
pub(super) enum ListChange {
    Tools,
    Prompts,
}

pub(super) struct Fixture {
    pub(super) handler: Handler,
    pub(super) engine: Arc<ScriptedEngine>,
    pub(super) changes: broadcast::Sender<ListChange>,
}

/// Parses a protocol value from JSON.
pub(super) fn parse<T: DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    serde_json::from_value(value).map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

/// Parses a complete result.
fn complete<T: DeserializeOwned>(mut value: Value) -> Result<T, ErrorData> {
    value["resultType"] = json!("complete");
    parse(value)
}

const BETWEEN: Duration = Duration::from_millis(50);

impl Fixture {
    async fn tool(
        &self,
        name: &str,
        arguments: &Value,
        context: &RequestContext<RoleServer>,
    ) -> Result<Value, ErrorData> {
        let text = |text: &str| json!({"type": "text", "text": text});
        let resource = |uri: &str, kind: &str, text: &str| json!({"type": "resource", "resource": {"uri": uri, "mimeType": kind, "text": text}});
        let image = json!({"type": "image", "data": PNG, "mimeType": "image/png"});
        let content = match name {
            "test_simple_text" => vec![text("This is a simple text response for testing.")],
            "test_image_content" => vec![image],
            "test_audio_content" => vec![json!({"type": "audio", "data": WAV, "mimeType": "audio/wav"})],
            "test_embedded_resource" => {
                vec![resource(
                    "test://embedded-resource",
                    "text/plain",
                    "This is an embedded resource content.",
                )]
            }
            "test_multiple_content_types" => vec![
                text("Multiple content types test:"),
                image,
                resource(
                    "test://mixed-content-resource",
                    "application/json",
                    r#"{"test":"data","value":123}"#,
                ),
            ],
            "test_error_handling" => {
                let content = text("This tool intentionally returns an error for testing");
                return Ok(json!({"content": [content], "isError": true}));
            }
            "test_tool_with_progress" => vec![text(&self.progress(context).await)],
            "test_tool_with_logging" => vec![text(&self.logging(context).await)],
            "test_missing_capability" => {
                let can = context.client_capabilities().map(|can| json!(can)).unwrap_or_default();
                if can.get("sampling").is_none() {
                    let needed: ClientCapabilities = parse(json!({"sampling": {}}))?;
                    return Err(ErrorData::missing_required_client_capability(needed));
                }
                vec![text("it is there")]
            }
            "test_trigger_tool_change" | "test_trigger_prompt_change" => {
                let change = if name.contains("tool") { ListChange::Tools } else { ListChange::Prompts };
                // There may be no listener.
                let _ = self.changes.send(change);
                vec![text("changed")]
            }
            "greet" => vec![text(&format!("Hello, {}!", arguments["name"].as_str().unwrap_or("World")))],
            "test_reconnection" | "test_logging_tool" | "test_custom_header" | "json_schema_2020_12_tool" => {
                vec![text("done")]
            }
            _ => return Err(ErrorData::invalid_params(format!("there is no tool {name}"), None)),
        };
        Ok(json!({"content": content}))
    }

    async fn progress(&self, context: &RequestContext<RoleServer>) -> String {
        let token = context.meta.get_progress_token();
        for done in [0.0, 50.0, 100.0] {
            if let Some(token) = token.clone() {
                let param = ProgressNotificationParam::new(token, done).with_total(100.0);
                // The client may be gone.
                let _ = context.peer.notify_progress(param).await;
            }
            tokio::time::sleep(BETWEEN).await;
        }
        "progressed".to_owned()
    }

    #[expect(deprecated, reason = "the older generation is asked for it by the suite")]
    async fn logging(&self, context: &RequestContext<RoleServer>) -> String {
        for line in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
            let param = LoggingMessageNotificationParam::new(LoggingLevel::Info, json!(line));
            // The client may be gone.
            let _ = context.peer.notify_logging_message(param).await;
            tokio::time::sleep(BETWEEN).await;
        }
        "logged".to_owned()
    }
}

#[expect(deprecated, reason = "what only the older generation has is in the catalogue as well")]
impl ServerHandler for Fixture {
    fn get_info(&self) -> ServerConfig {
        let capabilities = json!({
            "tools": {"listChanged": true},
            "prompts": {"listChanged": true},
            "resources": {"subscribe": true},
            "completions": {},
            "logging": {},
            "extensions": {TASKS_EXTENSION_ID: {}},
        });
        ServerConfig::new(parse(capabilities).expect("capabilities"))
            .with_server_info(Implementation::new("volery-conformance", "1"))
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(parse(catalog::tools())?))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        let tools: Vec<Tool> = parse(catalog::tools()).ok()?;
        tools.into_iter().find(|tool| tool.name == name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if let Some(round) = input_rounds::round(&request, &context) {
            return Ok(match round? {
                Round::Ask(ask) => CallToolResponse::InputRequired(ask),
                Round::Text(text) => CallToolResult::success(vec![ContentBlock::text(text)]).into(),
            });
        }
        let arguments = json!(request.arguments);
        if let Some(answer) = input_rounds::older(&context, &request.name, &arguments).await {
            return Ok(CallToolResult::success(vec![ContentBlock::text(answer?)]).into());
        }
        let plain = self.tool(&request.name, &arguments, &context).await;
        match (task_tools::job(self, &request, context).await, plain) {
            (Some(job), _) => job,
            (None, plain) => Ok(complete::<CallToolResult>(plain?)?.into()),
        }
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        self.handler.get_task(request, context).await
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.handler.update_task(request, context).await
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.handler.cancel_task(request, context).await
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut changes = self.changes.subscribe();
        loop {
            tokio::select! {
                () = context.cancelled() => return Ok(()),
                change = changes.recv() => {
                    // Fails if the client did not subscribe to it.
                    let _ = match change {
                        Ok(ListChange::Tools) => context.sink().notify_tool_list_changed().await,
                        Ok(ListChange::Prompts) => context.sink().notify_prompt_list_changed().await,
                        Err(_) => return Ok(()),
                    };
                }
            }
        }
    }

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult::with_all_items(parse(catalog::prompts())?))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        if request.name == "test_input_required_result_prompt" {
            let context = input_rounds::filled(request.input_responses.as_ref(), "user_context", "context");
            let Some(context) = context else {
                let question = input_rounds::form("What context should the prompt use?", "context", "string");
                return match input_rounds::ask(json!({"user_context": question}), None)? {
                    Round::Ask(ask) => Ok(GetPromptResponse::InputRequired(ask)),
                    Round::Text(_) => unreachable!("it was asked"),
                };
            };
            let content = json!({"type": "text", "text": format!("Context: {context}")});
            let result: GetPromptResult =
                complete(json!({"messages": [{"role": "user", "content": content}]}))?;
            return Ok(result.into());
        }
        let Some(prompt) = catalog::prompt(&request.name, &json!(request.arguments)) else {
            return Err(ErrorData::invalid_params("there is no such prompt", None));
        };
        Ok(complete::<GetPromptResult>(prompt)?.into())
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(parse(catalog::resources())?))
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(parse(catalog::templates())?))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        match catalog::resource(&request.uri) {
            Some(resource) => Ok(ReadResourceResponse::Complete(complete(resource)?)),
            None => Err(ErrorData::resource_not_found("no such resource", Some(json!({"uri": request.uri})))),
        }
    }

    async fn subscribe(
        &self,
        _request: SubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn unsubscribe(
        &self,
        _request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn set_level(
        &self,
        _request: SetLevelRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn complete(
        &self,
        _request: CompleteRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        complete(json!({"completion": {"values": [], "total": 0, "hasMore": false}}))
    }
}
