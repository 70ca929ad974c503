//! The traits of a dialect.

use domain::dialect::DialectName;
use futures::future::BoxFuture;
use rmcp::model::{
    CallToolResponse, ErrorData, JsonObject, ListResourcesResult, ReadResourceResult, ResourceTemplate, Tool,
};

use super::super::tool_call::ToolCall;

/// The tools of one system.
pub(crate) trait ToolDialect: Send + Sync + 'static {
    fn name(&self) -> DialectName;

    /// The server name of that system.
    fn server(&self) -> String;

    /// The server's instructions for the calling model.
    fn instructions(&self) -> String;

    /// The tools, in a fixed order. Called once.
    fn tools(&self) -> Vec<Tool>;

    /// Additional names of tools that are not in the list.
    fn aliases(&self) -> Vec<String> {
        Vec::new()
    }

    fn call<'a>(
        &'a self,
        call: ToolCall<'a>,
        tool: &'a str,
        arguments: JsonObject,
    ) -> BoxFuture<'a, Result<CallToolResponse, ErrorData>>;

    /// Whether a call can be answered with a task.
    fn has_tasks(&self) -> bool {
        false
    }

    fn resources(&self) -> Option<&dyn DialectResources> {
        None
    }
}

/// The resources of a dialect.
pub(crate) trait DialectResources: Send + Sync {
    /// The prefix of the URIs.
    fn scheme(&self) -> &'static str;

    fn list<'a>(&'a self, call: &'a ToolCall<'a>) -> BoxFuture<'a, Result<ListResourcesResult, ErrorData>>;

    fn templates(&self) -> Vec<ResourceTemplate>;

    fn read<'a>(
        &'a self,
        call: &'a ToolCall<'a>,
        uri: &'a str,
    ) -> BoxFuture<'a, Result<ReadResourceResult, ErrorData>>;
}
