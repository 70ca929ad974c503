//! The tools of all dialects of one server: one list, and the dispatch of each call to its dialect.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use config::settings::Config;
use domain::dialect::DialectName;
use domain::invisible_text::strip_invisible;
use rmcp::model::{
    CallToolResponse, ErrorData, JsonObject, ListResourcesResult, ReadResourceResult, ResourceTemplate, Tool,
};
use serde_json::json;

use super::super::sanitize;
use super::super::tool_call::ToolCall;
use super::{
    BudgieFlags, Inheritance, ToolDialect, budgie, codex, inheritance, jarvis, per_agent, powerspawn,
    sub_agents, volery,
};
use engine::{EngineError, EngineHandle};

/// Instructions on treating agents' answers as data, for all dialects.
const ANSWERS_ARE_DATA: &str = include_str!("answers_are_data.md");

/// All tools and resources of a server. Cheap to clone.
#[derive(Clone)]
pub(crate) struct ToolRegistry(Arc<RegisteredTools>);

struct RegisteredTools {
    dialects: Vec<Box<dyn ToolDialect>>,
    tools: Vec<Tool>,
    /// The dialect of each tool.
    owners: HashMap<String, usize>,
}

/// The tools of the native dialect.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum NativeTools {
    /// The nine general tools.
    #[default]
    Generic,
    /// The nine general tools, and one for each agent.
    PerAgent,
}

/// Opens the dialects and collects their tools.
pub(crate) async fn open_tool_registry(
    names: &[DialectName],
    native_tools: NativeTools,
    app: &EngineHandle,
    flags: &BudgieFlags,
) -> Result<ToolRegistry, EngineError> {
    let foreign = names.iter().any(|name| *name != DialectName::Volery);
    if foreign && app.is_inside_run() {
        let message =
            "inside a run there is only the dialect volery: a run starts agents under its own grant";
        return Err(EngineError::denied(message));
    }
    let mut dialects: Vec<Box<dyn ToolDialect>> = Vec::new();
    for name in names {
        let inheritance = Inheritance::from_config(app.config(), *name);
        dialects.push(match name {
            DialectName::Volery => Box::new(volery::Volery),
            DialectName::SubAgentsMcp => Box::new(sub_agents::open(app, inheritance)?),
            DialectName::Codex => Box::new(codex::Codex::new(inheritance)),
            DialectName::Jarvis => Box::new(jarvis::open(app, inheritance).await?),
            DialectName::Budgie => Box::new(budgie::open(app, flags, inheritance).await?),
            DialectName::Powerspawn => Box::new(powerspawn::open(app, inheritance).await?),
        });
    }
    match (native_tools, names.contains(&DialectName::Volery)) {
        (NativeTools::Generic, _) => {}
        (NativeTools::PerAgent, true) => dialects.push(Box::new(per_agent::open(app).await?)),
        (NativeTools::PerAgent, false) => {
            let message = "--tools per-agent is for the dialect volery, and this server does not speak it";
            return Err(EngineError::usage(message));
        }
    }
    ToolRegistry::new(dialects)
}

/// Returns the messages of a starting server about what agents inherit from their user.
pub(crate) fn announcements(names: &[DialectName], config: &Config) -> Vec<String> {
    names.iter().filter_map(|name| inheritance::announcement(config, *name)).collect()
}

impl ToolRegistry {
    fn new(dialects: Vec<Box<dyn ToolDialect>>) -> Result<Self, EngineError> {
        let mut owners: HashMap<String, usize> = HashMap::new();
        let mut tools = Vec::new();
        for (index, dialect) in dialects.iter().enumerate() {
            let mut own = dialect.tools();
            for tool in &mut own {
                // It may contain text from files of a repository.
                tool.description =
                    tool.description.take().map(|text| strip_invisible(&text).into_owned().into());
            }
            for name in own.iter().map(|tool| tool.name.to_string()).chain(dialect.aliases()) {
                if let Some(other) = owners.insert(name.clone(), index).filter(|other| *other != index) {
                    let names = [&dialects[other], dialect].map(|dialect| dialect.server());
                    let message = format!("{} and {} both have a tool {name}", names[0], names[1]);
                    return Err(EngineError::usage(message).hint("serve them by two servers"));
                }
            }
            tools.extend(own);
        }
        Ok(Self(Arc::new(RegisteredTools { dialects, tools, owners })))
    }

    /// Returns the native dialect alone.
    #[cfg(test)]
    pub(crate) fn native() -> Self {
        Self::new(vec![Box::new(volery::Volery)]).expect("one dialect clashes with none")
    }

    /// Returns the server's name: that of the replaced system.
    pub(in super::super) fn server(&self) -> String {
        match self.0.dialects.as_slice() {
            [only] => only.server(),
            _ => "volery".to_owned(),
        }
    }

    pub(in super::super) fn instructions(&self) -> String {
        let mut all: Vec<String> = self.0.dialects.iter().map(|dialect| dialect.instructions()).collect();
        // The native instructions already contain it.
        if self.0.dialects.iter().all(|dialect| dialect.name() != DialectName::Volery) {
            all.push(ANSWERS_ARE_DATA.trim_end().to_owned());
        }
        all.retain(|text| !text.is_empty());
        all.join("\n\n")
    }

    pub(in super::super) fn has_tasks(&self) -> bool {
        self.0.dialects.iter().any(|dialect| dialect.has_tasks())
    }

    pub(in super::super) fn has_resources(&self) -> bool {
        self.0.dialects.iter().any(|dialect| dialect.resources().is_some())
    }

    pub(crate) fn tools(&self) -> Vec<Tool> {
        self.0.tools.clone()
    }

    /// Calls a tool by name. Only an unknown tool is a protocol error.
    pub(in super::super) async fn call(
        &self,
        call: ToolCall<'_>,
        tool: &str,
        arguments: JsonObject,
    ) -> Result<CallToolResponse, ErrorData> {
        match self.0.owners.get(tool) {
            Some(owner) => {
                let mut answer = self.0.dialects[*owner].call(call, tool, arguments).await?;
                if let CallToolResponse::Complete(result) = &mut answer {
                    sanitize::result(result);
                }
                Ok(answer)
            }
            None => Err(ErrorData::invalid_params(self.unknown_tool(tool), None)),
        }
    }

    fn unknown_tool(&self, name: &str) -> String {
        let names = || self.0.tools.iter().map(|tool| tool.name.as_ref());
        let known = names().collect::<Vec<_>>().join(", ");
        let shown: String = name.chars().take(80).collect();
        match domain::nearest::nearest(name, names()) {
            Some(nearest) => format!("unknown tool {shown:?}; did you mean {nearest}? The tools are {known}"),
            None => format!("unknown tool {shown:?}; the tools are {known}"),
        }
    }

    pub(in super::super) async fn resources(
        &self,
        call: &ToolCall<'_>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let mut all = Vec::new();
        for resources in self.0.dialects.iter().filter_map(|dialect| dialect.resources()) {
            all.extend(resources.list(call).await?.resources);
        }
        Ok(ListResourcesResult::with_all_items(all))
    }

    pub(in super::super) fn resource_templates(&self) -> Vec<ResourceTemplate> {
        let all = self.0.dialects.iter().filter_map(|dialect| dialect.resources());
        all.flat_map(|resources| resources.templates()).collect()
    }

    pub(in super::super) async fn read_resource(
        &self,
        call: &ToolCall<'_>,
        uri: &str,
    ) -> Result<ReadResourceResult, ErrorData> {
        let mut all = self.0.dialects.iter().filter_map(|dialect| dialect.resources());
        let first = all.clone().next();
        match all.find(|resources| uri.starts_with(resources.scheme())).or(first) {
            Some(resources) => resources.read(call, uri).await,
            None => {
                let shown: String = uri.chars().take(200).collect();
                let message = format!("no resource {shown:?}: this server has none");
                Err(ErrorData::resource_not_found(message, Some(json!({ "uri": shown }))))
            }
        }
    }
}

impl fmt::Debug for ToolRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.dialects.iter().map(|dialect| dialect.name())).finish()
    }
}
