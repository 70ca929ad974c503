//! Decides whether the user trusts what a project's files would execute and grant.

mod agent_grants;
pub mod project_executables;
mod records;

pub(crate) use agent_grants::is_own_folder;
pub use agent_grants::{AgentGrant, agent_grants};
pub use records::{TrustError, TrustStore};
