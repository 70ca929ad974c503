//! Lists all vendors and all backends: a new vendor adds one line to [`VENDORS`].

use crate::acp::Acp;
use crate::agent_files::AgentFiles;
use crate::agent_loop::AgentLoopBackend;
use crate::api::{self, CONFIGURED_API};
use crate::command::Command;
use crate::contract::Backend;
use crate::program::ProgramSpec;
use crate::rehearsal::Rehearsal;
use crate::vendor::Vendor;
use crate::{claude, codex, copilot, cursor, gemini, goose, grok, kimi, kiro, opencode, qwen};

/// Every vendor, in the order of lists. The first of several that share a program is the program's own vendor.
pub static VENDORS: &[&Vendor] = &[
    &claude::VENDOR,
    &claude::GLM,
    &claude::CLAUDE_KIMI,
    &codex::VENDOR,
    &gemini::VENDOR,
    &copilot::VENDOR,
    &qwen::VENDOR,
    &opencode::VENDOR,
    &goose::VENDOR,
    &cursor::VENDOR,
    &kiro::VENDOR,
    &grok::VENDOR,
    &kimi::VENDOR,
];

/// Backends that are no vendor's.
static OTHERS: &[&dyn Backend] = &[&Command, &Acp, &CONFIGURED_API, &Rehearsal, &AgentLoopBackend];

/// Returns every backend.
pub fn all() -> impl Iterator<Item = &'static dyn Backend> {
    let vendors = VENDORS.iter().map(|vendor| *vendor as &dyn Backend);
    let acp = VENDORS.iter().filter_map(|vendor| vendor.acp).map(|agent| agent as &dyn Backend);
    let services = api::BUILT_IN.iter().map(|agent| agent as &dyn Backend);
    OTHERS.iter().copied().chain(vendors).chain(acp).chain(services)
}

/// Returns the vendor of this name.
pub fn vendor_by_name(name: &str) -> Option<&'static Vendor> {
    VENDORS.iter().copied().find(|vendor| vendor.name == name)
}

/// Returns the vendor of a backend: the one of this name, or the one whose program speaks ACP under this name.
pub fn vendor_for_backend(kind: &str) -> Option<&'static Vendor> {
    let is_acp = |vendor: &Vendor| vendor.acp.is_some_and(|agent| agent.kind() == kind);
    VENDORS.iter().copied().find(|vendor| vendor.name == kind || is_acp(vendor))
}

/// Returns the agent files of all vendors, the strongest last.
pub fn agent_files() -> Vec<&'static AgentFiles> {
    let mut all: Vec<&AgentFiles> = VENDORS.iter().filter_map(|vendor| vendor.agent_files.as_ref()).collect();
    all.sort_by_key(|files| files.rank);
    all
}

/// Returns the backend that understands runs of this kind.
pub fn by_kind(kind: &str) -> Option<&'static dyn Backend> {
    all().find(|backend| backend.kind() == kind)
}

/// Returns the backends whose processes get this variable if it is set.
pub fn using_variable(variable: &str) -> Vec<&'static str> {
    all().filter(|backend| backend.variables().contains(&variable)).map(|backend| backend.kind()).collect()
}

/// A backend that runs a vendor's program.
#[derive(Debug, Clone, Copy)]
pub struct ProgramBackend {
    pub backend: &'static str,
    pub program: &'static ProgramSpec,
    /// The backend that uses the same program without ACP.
    pub same_program_as: Option<&'static str>,
}

/// Returns the backends that run a vendor's program.
pub fn program_backends() -> impl Iterator<Item = ProgramBackend> {
    let plain = VENDORS.iter().map(|vendor| ProgramBackend {
        backend: vendor.name,
        program: vendor.program,
        same_program_as: None,
    });
    let acp = VENDORS.iter().filter_map(|vendor| {
        let program = vendor.acp?.program;
        let same_program_as = std::ptr::eq(program, vendor.program).then_some(vendor.name);
        Some(ProgramBackend { backend: vendor.acp?.kind(), program, same_program_as })
    });
    plain.chain(acp)
}

/// Returns the names that a configuration cannot redefine: every backend that needs no configuration.
pub fn built_in() -> Vec<&'static str> {
    let configured = [Command.kind(), Acp.kind(), CONFIGURED_API.kind()];
    all().map(|backend| backend.kind()).filter(|kind| !configured.contains(kind)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_fixtures;

    #[test]
    fn no_two_vendors_have_agent_files_of_the_same_rank_or_format() {
        let files = agent_files();
        for pair in files.windows(2) {
            assert!(pair[0].rank < pair[1].rank, "{pair:?}");
        }
        for one in &files {
            assert_eq!(files.iter().filter(|other| other.format == one.format).count(), 1, "{one:?}");
        }
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let mut checked = 0;
        for backend in all().filter(|backend| backend.program().is_some()) {
            let refused = backend
                .prepare(&test_fixtures::spec(backend.kind()), &test_fixtures::launch_context(None))
                .err();
            let reason = refused.map(|refused| refused.reason).unwrap_or_default();
            let program = reason.strip_suffix(" was not found on the PATH");
            let names = backend.program().map(|program| program.names).unwrap_or_default();
            assert!(
                program.is_some_and(|program| names.iter().any(|name| program.contains(name))),
                "{}: {reason:?}",
                backend.kind()
            );
            checked += 1;
        }
        assert!(checked > 10, "{checked}");
    }
}
