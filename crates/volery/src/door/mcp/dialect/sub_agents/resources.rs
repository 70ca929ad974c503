//! The agents as resources: `agents://list`, and `agents://NAME` for each file.

use futures::FutureExt;
use futures::future::BoxFuture;
use rmcp::model::{
    ErrorData, ListResourcesResult, ReadResourceResult, Resource, ResourceContents, ResourceTemplate,
};
use serde_json::json;

use super::super::super::call::Call;
use super::super::Resources;
use super::SubAgents;
use crate::app::{AppError, FoundAgent};

const SCHEME: &str = "agents://";
const LIST: &str = "agents://list";
const PLAIN: &str = "text/plain";
const MARKDOWN: &str = "text/markdown";

impl Resources for SubAgents {
    fn scheme(&self) -> &'static str {
        SCHEME
    }

    fn list<'a>(&'a self, call: &'a Call<'a>) -> BoxFuture<'a, Result<ListResourcesResult, ErrorData>> {
        async move {
            let found = self.agents(call).await.map_err(|error| failed(&error))?;
            let overview = Resource::new(LIST, "Agent List")
                .with_description("All agents that run_agent can be given.")
                .with_mime_type(PLAIN);
            let of_agent = |found: FoundAgent| {
                let name = found.agent.name.to_string();
                Resource::new(format!("{SCHEME}{name}"), name)
                    .with_description(found.agent.description)
                    .with_mime_type(MARKDOWN)
            };
            let all = std::iter::once(overview).chain(found.agents.into_iter().map(of_agent));
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
        call: &'a Call<'a>,
        uri: &'a str,
    ) -> BoxFuture<'a, Result<ReadResourceResult, ErrorData>> {
        async move {
            let shown = domain::size::head(uri, 200);
            let Some(name) = uri.strip_prefix(SCHEME).filter(|name| !name.is_empty()) else {
                return Err(not_found(format!("Invalid resource URI: {shown}"), shown));
            };
            let found = self.agents(call).await.map_err(|error| failed(&error))?;
            let (text, kind) = match found.agents.iter().find(|found| found.agent.name.as_str() == name) {
                Some(found) if uri != LIST => (found.agent.system_prompt.clone(), MARKDOWN),
                None if uri != LIST => return Err(not_found(format!("Agent not found: {name}"), shown)),
                _ => (overview(&found.agents), PLAIN),
            };
            Ok(ReadResourceResult::new(vec![ResourceContents::text(text, uri).with_mime_type(kind)]))
        }
        .boxed()
    }
}

fn overview(agents: &[FoundAgent]) -> String {
    let mut text = format!("Available Claude Code Sub-Agents ({} total):", agents.len());
    for FoundAgent { agent, modified_at } in agents {
        let modified = modified_at.map(|at| at.to_string()).unwrap_or_default();
        text.push_str(&format!(
            "\n\n## {name}\n**Description:** {}\n**File:** {}\n**Last Modified:** {modified}\n\
             **Resource URI:** {SCHEME}{name}",
            agent.description,
            agent.source.file,
            name = agent.name,
        ));
    }
    text
}

fn not_found(message: String, uri: &str) -> ErrorData {
    ErrorData::resource_not_found(message, Some(json!({ "uri": uri })))
}

fn failed(error: &AppError) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}
