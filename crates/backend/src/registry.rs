//! All backends. A new one is a folder, and a line here.

use crate::acp::{self, Acp};
use crate::api::{self, ANY as ANY_API};
use crate::claude::{Claude, Endpoint};
use crate::codex::Codex;
use crate::command::Command;
use crate::contract::{Backend, PriceList};
use crate::copilot::Copilot;
use crate::cursor::Cursor;
use crate::gemini::Gemini;
use crate::goose::Goose;
use crate::grok::Grok;
use crate::kimi::Kimi;
use crate::kiro::Kiro;
use crate::opencode::Opencode;
use crate::program::Program;
use crate::qwen::Qwen;
use crate::rehearsal::Rehearsal;

/// Services that speak the protocol of Claude Code's.
const GLM: Endpoint = Endpoint {
    address: "https://api.z.ai/api/anthropic",
    key: "ZAI_API_KEY",
    key_variable: "ANTHROPIC_AUTH_TOKEN",
};
const KIMI: Endpoint = Endpoint {
    address: "https://api.kimi.com/coding/",
    key: "KIMI_API_KEY",
    key_variable: "ANTHROPIC_API_KEY",
};

static ALL: &[&dyn Backend] = &[
    &Command,
    &Acp,
    &ANY_API,
    &Rehearsal,
    &Claude { name: "claude", service: None, prices: PriceList::Of("anthropic") },
    &Claude { name: "glm", service: Some(GLM), prices: PriceList::Of("zai") },
    &Claude { name: "claude-kimi", service: Some(KIMI), prices: PriceList::Of("moonshotai") },
    &Codex,
    &Gemini,
    &Copilot,
    &Qwen,
    &Opencode,
    &Goose,
    &Cursor,
    &Kiro,
    &Grok,
    &Kimi,
];

/// Returns every backend.
pub fn all() -> impl Iterator<Item = &'static dyn Backend> {
    let acp = acp::KNOWN.iter().map(|known| known as &dyn Backend);
    let services = api::KNOWN.iter().map(|known| known as &dyn Backend);
    ALL.iter().copied().chain(acp).chain(services)
}

/// Returns the backend that understands runs of this kind.
pub fn by_kind(kind: &str) -> Option<&'static dyn Backend> {
    all().find(|backend| backend.kind() == kind)
}

/// Returns the backends whose processes get this variable if it is set.
pub fn knowing(variable: &str) -> Vec<&'static str> {
    all().filter(|backend| backend.variables().contains(&variable)).map(|backend| backend.kind()).collect()
}

/// A backend that has a vendor's program.
#[derive(Debug, Clone, Copy)]
pub struct Vendor {
    pub backend: &'static str,
    pub program: &'static Program,
    /// The backend that drives the same program without ACP.
    pub shares: Option<&'static str>,
}

/// Returns the backends that have a vendor's program.
pub fn vendors() -> impl Iterator<Item = Vendor> {
    let plain = ALL.iter().filter_map(|backend| vendor(*backend, None));
    let acp = acp::KNOWN.iter().filter_map(|known| {
        let shares = |other: &&&dyn Backend| match (other.program(), known.program()) {
            (Some(own), Some(program)) => std::ptr::eq(own, program),
            (_, _) => false,
        };
        vendor(known, ALL.iter().find(shares).map(|other| other.kind()))
    });
    plain.chain(acp)
}

fn vendor(backend: &dyn Backend, shares: Option<&'static str>) -> Option<Vendor> {
    Some(Vendor { backend: backend.kind(), program: backend.program()?, shares })
}

/// Returns the names that a configuration cannot define anew: every backend that needs no configuration.
pub fn built_in() -> Vec<&'static str> {
    let configured = [Command.kind(), Acp.kind(), ANY_API.kind()];
    all().map(|backend| backend.kind()).filter(|kind| !configured.contains(kind)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let mut named = 0;
        for backend in all().filter(|backend| backend.program().is_some()) {
            let refused = backend.prepare(&sample::spec(backend.kind()), &sample::place(None)).err();
            let reason = refused.map(|refused| refused.reason).unwrap_or_default();
            let program = reason.strip_suffix(" was not found on the PATH");
            let names = backend.program().map(|program| program.names).unwrap_or_default();
            assert!(
                program.is_some_and(|program| names.iter().any(|name| program.contains(name))),
                "{}: {reason:?}",
                backend.kind()
            );
            named += 1;
        }
        assert!(named > 10, "{named}");
    }
}
