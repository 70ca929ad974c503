//! goose over ACP.

use domain::run::ModelError;

use crate::acp::option_encoding::{NO_OPTIONS, OptionEncoding, OptionEncodings};
use crate::acp::profile::{AcpAgent, AgentProfile, ApprovalScope, DEFAULT_PROFILE, Modes, TokenCounting};

pub(super) static ACP_AGENT: AcpAgent = AcpAgent {
    name: "acp-goose",
    program: &super::versions::PROGRAM,
    logins: super::vendor::LOGINS,
    arguments: &["acp"],
    variables: &[super::VARIABLES],
    set: &[(super::EXTENSIONS_VARIABLE, super::versions::DEFAULT_EXTENSIONS)],
    server_delivery: None,
    exclude_other_servers: None,
    find_override: Some(super::permission_overrides::find_allowed_tools),
    find_project_executables: None,
    quirks: &[],
    profile: AgentProfile {
        modes: Modes::one("approve"),
        approval_scope: ApprovalScope::Everything,
        token_counting: TokenCounting::LastStep,
        error_marks: &super::versions::ERROR_MARKERS,
        // It reports all errors except exhausted credits.
        silence_error: Some(ModelError::RateLimit),
        options: OptionEncodings {
            // The agents that it delegates to ask nobody.
            restricted: Some(OptionEncoding::Variables(|_| {
                vec![(super::EXTENSIONS_VARIABLE, super::extensions_without_delegation())]
            })),
            no_context: Some(OptionEncoding::Variables(|_| {
                let (name, value) = super::NO_CONTEXT_VARIABLE;
                vec![(name, value.to_owned())]
            })),
            tools: Some(OptionEncoding::Variables(|spec| {
                let tools = spec.setup.tools.as_deref().unwrap_or_default();
                vec![(super::EXTENSIONS_VARIABLE, super::extensions_with_tools(tools))]
            })),
            max_turns: Some(OptionEncoding::Variables(|spec| {
                let turns = spec.setup.max_turns.map(|turns| turns.to_string());
                turns.into_iter().map(|turns| ("GOOSE_MAX_TURNS", turns)).collect()
            })),
            ..NO_OPTIONS
        },
        no_turns_left: Some(super::versions::TURNS_EXCEEDED),
        ..DEFAULT_PROFILE
    },
};
