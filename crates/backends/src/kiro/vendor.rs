//! What is known about Kiro's program.

use domain::agent::AgentFormat;
use domain::inherit::Inherited;

use crate::agent_files::{AgentFiles, UserFolder};
use crate::contract::PriceList;
use crate::logins::{LoginLocation, Logins};
use crate::vendor::{Feature, PermissionTranslation, Quirk, SessionNaming, Vendor};

pub(super) const LOGINS: Logins = Logins {
    // A login is in the database that also holds every conversation, so that its file shows nothing.
    locations: &[LoginLocation::Variable("KIRO_API_KEY")],
    advice: "run `kiro-cli login`, or set KIRO_API_KEY",
    keyring: true,
};

pub static VENDOR: Vendor = Vendor {
    name: "kiro",
    program: &super::versions::PROGRAM,
    variables: super::VARIABLES,
    logins: LOGINS,
    prices: PriceList::Unlisted,
    sessions: SessionNaming::ByDirectory,
    features: &[
        Feature::SkipsProjectContext,
        Feature::OutputSchema,
        Feature::McpServers,
        Feature::Delegation,
        Feature::Containers,
        Feature::ReadsOwnFiles,
    ],
    quirks: &[Quirk::PlainTextOutput],
    extra_args: super::EXTRA_ARGS,
    // Kiro does so by itself if it gets the name of its own agent.
    inherits: &[Inherited::McpServers, Inherited::Settings],
    permission: PermissionTranslation {
        unenforceable: super::permission::unenforceable,
        inexpressible_grants: |_| Vec::new(),
    },
    find_override: None,
    find_project_executables: None,
    prepare: super::prepare,
    apply_user_environment: None,
    scan_workspace: None,
    settings_denials: None,
    stale_session: Some(super::stale_session),
    answers_into_file: Some(super::answers_into_file),
    agent_files: Some(AgentFiles {
        format: AgentFormat::Kiro,
        rank: 1,
        project_folders: &[".kiro/agents"],
        user_folders: &[UserFolder::new("", ".kiro", "agents")],
    }),
    client: Some(&super::client::CLIENT),
    acp: Some(&super::acp::ACP_AGENT),
};
