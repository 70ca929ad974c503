//! GitHub Copilot's program over ACP.

use crate::acp::option_encoding::{NO_OPTIONS, OptionEncoding, OptionEncodings};
use crate::acp::profile::{AcpAgent, AgentProfile, DEFAULT_PROFILE, Modes, ServerDelivery, TokenCounting};
use crate::contract::PriceList;

pub(super) static ACP_AGENT: AcpAgent = AcpAgent {
    name: "acp-copilot",
    program: &super::versions::PROGRAM,
    logins: super::vendor::LOGINS,
    arguments: &["--acp", "--disable-builtin-mcps"],
    variables: &[super::VARIABLES],
    set: &[],
    // It does not accept servers that are programs with a session.
    server_delivery: Some(ServerDelivery::File {
        argument: "--additional-mcp-config=@",
        file: super::mcp_config_file,
    }),
    exclude_other_servers: Some(super::disable_other_servers),
    find_override: Some(super::permission_overrides::find_approvals),
    find_project_executables: Some(super::project_executables),
    quirks: &[],
    profile: AgentProfile {
        modes: Modes::one("https://agentclientprotocol.com/protocol/session-modes#agent"),
        prices: PriceList::Provider("github-copilot"),
        token_counting: TokenCounting::Session,
        error_marks: &[("Error: ", "")],
        side_notes: &["Info: Request failed due to a transient API error. Retrying..."],
        denial_text: Some("Info: Operation cancelled by user"),
        // Its arguments about instructions have no effect here.
        options: OptionEncodings {
            effort: Some(OptionEncoding::Arguments(|spec| {
                spec.setup.effort.iter().map(|effort| format!("--reasoning-effort={effort}")).collect()
            })),
            ..NO_OPTIONS
        },
        ..DEFAULT_PROFILE
    },
};
