//! A scripted model server, for agents that are tested without a network and for `volery doctor --live`. It
//! implements the protocols of four vendors on loopback, gives the answers of a script, and records every request for
//! the test to inspect.
//!
//! It checks no keys, knows no models and computes nothing. It renders the same script in whichever protocol a client
//! uses. Side requests of agents (titles, token counts, model lists) take nothing from the script.
//!
//! The program links it for `doctor --live`: 0.1 MB of code that no other command touches. A helper program next to it
//! would be 0.6 MB, and missing wherever only `volery` was installed. Parts that only tests need are in `testkit`.

mod agent_dirs;
mod connection;
mod http;
mod model_request;
mod request_condition;
mod script;
mod server;
mod side_requests;
mod vendor_environment;
mod verification;
mod wire;

pub use agent_dirs::AgentDirs;
pub use model_request::{Message, ModelRequest, ToolResult};
pub use request_condition::RequestCondition;
pub use script::{
    AnswerEnd, Fault, ModelAnswer, ReplyBody, ScriptError, ScriptedCall, ScriptedReply, ScriptedUsage, Times,
    parse_script,
};
pub use server::{RecordedRequest, RequestPurpose, ScriptedServer};
pub use side_requests::SideRule;
pub use vendor_environment::{CliEnvironment, vendor_environment};
pub use verification::RequestChecks;
pub use wire::WireFormat;

#[cfg(test)]
mod tests;
