//! The dialects that one server speaks: their tools in one list, each call to the dialect that knows it.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use definition::config::Config;
use domain::dialect::DialectName;
use domain::harmless::harmless;
use rmcp::model::{
    CallToolResponse, ErrorData, JsonObject, ListResourcesResult, ReadResourceResult, ResourceTemplate, Tool,
};
use serde_json::json;

use super::super::call::Call;
use super::super::clean;
use super::{
    BudgieFlags, Dialect, Inheritance, budgie, codex, inheritance, jarvis, per_agent, powerspawn, sub_agents,
    volery,
};
use crate::app::{App, AppError};

/// How to take what agents say, whatever the tools are called.
const DATA: &str = include_str!("answers_are_data.md");

/// Everything that a server offers. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Surface(Arc<Offered>);

struct Offered {
    dialects: Vec<Box<dyn Dialect>>,
    tools: Vec<Tool>,
    /// Which dialect knows a tool.
    owners: HashMap<String, usize>,
}

/// Which tools the native dialect has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum NativeTools {
    /// The same nine for every project.
    #[default]
    Generic,
    /// One for each agent beside them.
    PerAgent,
}

/// Makes the surface of the dialects that were asked for.
pub(crate) async fn open(
    names: &[DialectName],
    native_tools: NativeTools,
    app: &App,
    flags: &BudgieFlags,
) -> Result<Surface, AppError> {
    let foreign = names.iter().any(|name| *name != DialectName::Volery);
    if foreign && app.is_inside_run() {
        let message =
            "inside a run there is only the dialect volery: a run starts agents under its own grant";
        return Err(AppError::denied(message));
    }
    let mut dialects: Vec<Box<dyn Dialect>> = Vec::new();
    for name in names {
        let gives = Inheritance::of(app.config(), *name);
        dialects.push(match name {
            DialectName::Volery => Box::new(volery::Volery),
            DialectName::SubAgentsMcp => Box::new(sub_agents::open(app.config(), gives)?),
            DialectName::Codex => Box::new(codex::Codex::new(gives)),
            DialectName::Jarvis => Box::new(jarvis::open(app, gives).await?),
            DialectName::Budgie => Box::new(budgie::open(app, flags, gives).await?),
            DialectName::Powerspawn => Box::new(powerspawn::open(app, gives).await?),
        });
    }
    match (native_tools, names.contains(&DialectName::Volery)) {
        (NativeTools::Generic, _) => {}
        (NativeTools::PerAgent, true) => dialects.push(Box::new(per_agent::open(app).await?)),
        (NativeTools::PerAgent, false) => {
            let message = "--tools per-agent is for the dialect volery, and this server does not speak it";
            return Err(AppError::usage(message));
        }
    }
    Surface::new(dialects)
}

/// Returns what a server of these dialects says when it starts: what agents get from their user.
pub(crate) fn announcements(names: &[DialectName], config: &Config) -> Vec<String> {
    names.iter().filter_map(|name| inheritance::announcement(config, *name)).collect()
}

impl Surface {
    fn new(dialects: Vec<Box<dyn Dialect>>) -> Result<Self, AppError> {
        let mut owners: HashMap<String, usize> = HashMap::new();
        let mut tools = Vec::new();
        for (index, dialect) in dialects.iter().enumerate() {
            let mut own = dialect.tools();
            for tool in &mut own {
                // It may hold what files of a repository say.
                tool.description = tool.description.take().map(|text| harmless(&text).into_owned().into());
            }
            for name in own.iter().map(|tool| tool.name.to_string()).chain(dialect.aliases()) {
                if let Some(other) = owners.insert(name.clone(), index).filter(|other| *other != index) {
                    let names = [&dialects[other], dialect].map(|dialect| dialect.server());
                    let message = format!("{} and {} both have a tool {name}", names[0], names[1]);
                    return Err(AppError::usage(message).hint("serve them by two servers"));
                }
            }
            tools.extend(own);
        }
        Ok(Self(Arc::new(Offered { dialects, tools, owners })))
    }

    /// The native dialect alone.
    #[cfg(test)]
    pub(crate) fn native() -> Self {
        Self::new(vec![Box::new(volery::Volery)]).expect("one dialect clashes with none")
    }

    /// Returns what the server is called: what the system is called that it stands in for.
    pub(in super::super) fn server(&self) -> String {
        match self.0.dialects.as_slice() {
            [only] => only.server(),
            _ => "volery".to_owned(),
        }
    }

    pub(in super::super) fn instructions(&self) -> String {
        let mut all: Vec<String> = self.0.dialects.iter().map(|dialect| dialect.instructions()).collect();
        // The native dialect says it in its own words.
        if self.0.dialects.iter().all(|dialect| dialect.name() != DialectName::Volery) {
            all.push(DATA.trim_end().to_owned());
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

    /// Calls a tool by name. Only an unknown tool is an error of the protocol.
    pub(in super::super) async fn call(
        &self,
        call: Call<'_>,
        tool: &str,
        arguments: JsonObject,
    ) -> Result<CallToolResponse, ErrorData> {
        match self.0.owners.get(tool) {
            Some(owner) => {
                let mut answer = self.0.dialects[*owner].call(call, tool, arguments).await?;
                if let CallToolResponse::Complete(result) = &mut answer {
                    clean::result(result);
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
        call: &Call<'_>,
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
        call: &Call<'_>,
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

impl fmt::Debug for Surface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.dialects.iter().map(|dialect| dialect.name())).finish()
    }
}
