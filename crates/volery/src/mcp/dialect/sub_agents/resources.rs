//! The agents as resources: `agents://list`, and `agents://NAME` for each file.

use std::path::Path;

use futures::FutureExt;
use futures::future::BoxFuture;
use rmcp::model::{
    ErrorData, ListResourcesResult, ReadResourceResult, Resource, ResourceContents, ResourceTemplate,
};
use serde_json::json;
use system_files::regular_file;

use super::super::super::tool_call::ToolCall;
use super::super::DialectResources;
use super::{SubAgents, arguments};
use engine::{EngineError, FolderAgent};

const SCHEME: &str = "agents://";
const LIST: &str = "agents://list";
const PLAIN: &str = "text/plain";
const MARKDOWN: &str = "text/markdown";

impl DialectResources for SubAgents {
    fn scheme(&self) -> &'static str {
        SCHEME
    }

    fn list<'a>(&'a self, call: &'a ToolCall<'a>) -> BoxFuture<'a, Result<ListResourcesResult, ErrorData>> {
        async move {
            let found = self.agents(call).await.map_err(|error| failed(&error))?;
            let overview = Resource::new(LIST, "Agent List")
                .with_description("List of available Claude Code sub-agents")
                .with_mime_type(PLAIN);
            let agent_resource = |found: FolderAgent| {
                let name = found.agent.name.to_string();
                Resource::new(format!("{SCHEME}{name}"), format!("Agent: {name}"))
                    .with_description(found.agent.description)
                    .with_mime_type(MARKDOWN)
            };
            let all = std::iter::once(overview).chain(found.agents.into_iter().map(agent_resource));
            Ok(ListResourcesResult::with_all_items(all.collect()))
        }
        .boxed()
    }

    fn templates(&self) -> Vec<ResourceTemplate> {
        let agent = ResourceTemplate::new(format!("{SCHEME}{{name}}"), "agent")
            .with_description("The file of one agent.")
            .with_mime_type(MARKDOWN);
        vec![agent]
    }

    fn read<'a>(
        &'a self,
        call: &'a ToolCall<'a>,
        uri: &'a str,
    ) -> BoxFuture<'a, Result<ReadResourceResult, ErrorData>> {
        async move {
            let shown = domain::size::head(uri, 200);
            let Some(name) = uri.strip_prefix(SCHEME).filter(|name| arguments::is_agent_name(name)) else {
                let message = format!("Invalid resource URI: {shown}");
                return Err(ErrorData::resource_not_found(message, Some(json!({ "uri": shown }))));
            };
            let found = self.agents(call).await.map_err(|error| failed(&error))?;
            let agent = found.agents.iter().find(|found| found.agent.name.as_str() == name);
            let (text, kind) = match agent {
                _ if uri == LIST => (overview(&found.agents), PLAIN),
                Some(agent) => (definition(agent), MARKDOWN),
                None => (unknown(name, &found.agents), PLAIN),
            };
            Ok(ReadResourceResult::new(vec![ResourceContents::text(text, uri).with_mime_type(kind)]))
        }
        .boxed()
    }
}

fn overview(agents: &[FolderAgent]) -> String {
    if agents.is_empty() {
        return "No agents available. Check agent directory configuration.".to_owned();
    }
    let mut text = format!("Available Claude Code Sub-Agents ({} total):\n\n", agents.len());
    for found in agents {
        let agent = &found.agent;
        text.push_str(&format!(
            "## {name}\n**Description:** {}\n**File:** {}\n**Last Modified:** {}\n**Resource URI:** {SCHEME}{name}\n\n",
            agent.description,
            agent.source.file,
            modified(found),
            name = agent.name,
        ));
    }
    text
}

/// Returns the whole file of an agent, after the header of sub-agents-mcp.
fn definition(found: &FolderAgent) -> String {
    let agent = &found.agent;
    let (name, file) = (&agent.name, &agent.source.file);
    let content = match regular_file::read_bytes(Path::new(file), config::FILE_BYTES_MAX as u64) {
        Ok(read_bytes) => String::from_utf8_lossy(&read_bytes).into_owned(),
        Err(error) => return format!("Error loading agent '{name}': {error}"),
    };
    format!(
        "# Agent: {name}\n\n**Description:** {}\n**File Path:** {file}\n**Last Modified:** {}\n\
         **Content Length:** {} characters\n\n## Agent Definition\n\n{content}",
        agent.description,
        modified(found),
        arguments::chars(&content),
    )
}

fn unknown(name: &str, agents: &[FolderAgent]) -> String {
    let mut text = format!("Agent '{name}' not found.");
    if !agents.is_empty() {
        text.push_str("\n\nAvailable agents:");
    }
    for found in agents {
        text.push_str(&format!("\n- {}", found.agent.name));
    }
    text
}

/// Formats the modification time of a file as JavaScript does.
fn modified(found: &FolderAgent) -> String {
    found.modified_at.map(|at| at.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()).unwrap_or_default()
}

fn failed(error: &EngineError) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}
