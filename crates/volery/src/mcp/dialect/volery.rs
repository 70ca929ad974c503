//! The native dialect.

use domain::dialect::DialectName;
use futures::FutureExt;
use futures::future::BoxFuture;
use rmcp::model::{
    CallToolResponse, ErrorData, JsonObject, ListResourcesResult, ReadResourceResult, ResourceTemplate, Tool,
};

use super::super::tool_call::ToolCall;
use super::super::{resources, tools};
use super::{DialectResources, ToolDialect};

/// Instructions for the calling model on delegating.
const INSTRUCTIONS: &str = include_str!("../instructions.md");

#[derive(Debug)]
pub(super) struct Volery;

impl ToolDialect for Volery {
    fn name(&self) -> DialectName {
        DialectName::Volery
    }

    fn server(&self) -> String {
        "volery".to_owned()
    }

    fn instructions(&self) -> String {
        INSTRUCTIONS.to_owned()
    }

    fn tools(&self) -> Vec<Tool> {
        tools::list()
    }

    fn call<'a>(
        &'a self,
        call: ToolCall<'a>,
        tool: &'a str,
        arguments: JsonObject,
    ) -> BoxFuture<'a, Result<CallToolResponse, ErrorData>> {
        tools::call(call, tool, arguments).boxed()
    }

    fn has_tasks(&self) -> bool {
        true
    }

    fn resources(&self) -> Option<&dyn DialectResources> {
        Some(self)
    }
}

impl DialectResources for Volery {
    fn scheme(&self) -> &'static str {
        resources::SCHEME
    }

    fn list<'a>(&'a self, call: &'a ToolCall<'a>) -> BoxFuture<'a, Result<ListResourcesResult, ErrorData>> {
        resources::list(call).boxed()
    }

    fn templates(&self) -> Vec<ResourceTemplate> {
        resources::templates()
    }

    fn read<'a>(
        &'a self,
        call: &'a ToolCall<'a>,
        uri: &'a str,
    ) -> BoxFuture<'a, Result<ReadResourceResult, ErrorData>> {
        resources::read(call, uri).boxed()
    }
}
