//! Decides whether the user trusts what a project's files would execute and grant.

mod agent_grants;
pub mod project_executables;
mod records;

pub use agent_grants::{AgentGrant, agent_grants, is_in_project};
pub use records::{TrustError, TrustStore};
