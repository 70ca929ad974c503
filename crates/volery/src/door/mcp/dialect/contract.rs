//! What a dialect provides.

use domain::dialect::DialectName;
use futures::future::BoxFuture;
use rmcp::model::{
    CallToolResponse, ErrorData, JsonObject, ListResourcesResult, ReadResourceResult, ResourceTemplate, Tool,
};

use super::super::call::Call;

/// The surface of one system.
pub(crate) trait Dialect: Send + Sync + 'static {
    fn name(&self) -> DialectName;

    /// The name that the server of that system has.
    fn server(&self) -> String;

    /// What the calling model is told about the server as a whole.
    fn instructions(&self) -> String;

    /// The tools, in an order that never changes. They are asked for once.
    fn tools(&self) -> Vec<Tool>;

    /// Names that a call may use for a tool beside the one in the list.
    fn aliases(&self) -> Vec<String> {
        Vec::new()
    }

    fn call<'a>(
        &'a self,
        call: Call<'a>,
        tool: &'a str,
        arguments: JsonObject,
    ) -> BoxFuture<'a, Result<CallToolResponse, ErrorData>>;

    /// Whether a call can be answered with a task.
    fn has_tasks(&self) -> bool {
        false
    }

    fn resources(&self) -> Option<&dyn Resources> {
        None
    }
}

/// What can be read beside the tools.
pub(crate) trait Resources: Send + Sync {
    /// How the addresses begin.
    fn scheme(&self) -> &'static str;

    fn list<'a>(&'a self, call: &'a Call<'a>) -> BoxFuture<'a, Result<ListResourcesResult, ErrorData>>;

    fn templates(&self) -> Vec<ResourceTemplate>;

    fn read<'a>(
        &'a self,
        call: &'a Call<'a>,
        uri: &'a str,
    ) -> BoxFuture<'a, Result<ReadResourceResult, ErrorData>>;
}
