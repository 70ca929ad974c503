//! What an agent is and may do in one run: its file, what configurations lay over it, and what the caller asks for.

use std::borrow::Cow;
use std::cell::LazyCell;

use definition::config::Setting;
use domain::agent::{Agent, Layer};
use domain::overlay::{Overlay, Section, Settled, settle};
use domain::permission::{Authority, Grant, GrantSource, Permission};
use domain::run::{Door, RunSpec};

use super::engine::{Engine, store_error};
use super::start::find_agent;
use super::{AppError, Start};
use crate::registry::{self, Catalogue};

/// Whether the run that is planned is a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kinship {
    Root,
    Child,
}

/// Which sections of the configuration count for an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counted {
    /// Those for its name and those for its backend.
    All,
    /// Those for its name.
    Named,
}

impl Engine {
    /// Returns the agent that is asked for, as it counts for this run.
    pub(super) fn agent_for(
        &self,
        ask: &mut Start,
        catalogue: &Catalogue,
        directory: &str,
        kinship: Kinship,
    ) -> Result<Settled, AppError> {
        let before = ask.resumes.map(|before| self.home.run_dir(before.run).read_spec());
        let before = before.transpose().map_err(store_error)?;
        let settled = match ask.definition.take() {
            // The record of the run before has the sum already.
            Some(agent) if ask.as_before || before.is_some() => {
                let grants = before.as_ref().map(|before| before.grants.clone()).unwrap_or_default();
                Settled { grants, ..Settled::unchanged(*agent) }
            }
            // What holds for all agents of a backend is for the native surface: an agent of a dialect is as its system has it, but for
            // what its user says about this one.
            Some(agent) => self.settled_by(catalogue, Cow::Owned(*agent), Counted::Named),
            None => self.settled(catalogue, find_agent(catalogue, directory, &ask.agent)?),
        };
        if let Some(before) = before.as_ref().filter(|before| before.source != settled.agent.source.file) {
            return Err(another_definition(before));
        }
        if ask.permission.is_empty() {
            return Ok(settled);
        }
        let authority = self.authority(before.as_ref(), catalogue, kinship);
        self.granted(settled, &ask.permission, authority)
    }

    /// Returns an agent with what the configuration says about it.
    pub(super) fn settled(&self, catalogue: &Catalogue, agent: Cow<'_, Agent>) -> Settled {
        self.settled_by(catalogue, agent, Counted::All)
    }

    fn settled_by(&self, catalogue: &Catalogue, agent: Cow<'_, Agent>, counted: Counted) -> Settled {
        let config = &catalogue.config;
        // An agent that is asked for as FORMAT:NAME is still the agent NAME: what is denied to that, is denied to this.
        let plain = registry::plain_name(&agent);
        let names = plain.iter().chain([&agent.name]);
        let named: Vec<_> = names.filter_map(|name| config.agents.get_key_value(name)).collect();
        if named.is_empty() && (config.defaults.is_empty() || counted == Counted::Named) {
            return Settled::unchanged(agent.into_owned());
        }
        let trusted = LazyCell::new(|| self.trust().is_trusted(catalogue));
        let is_trusted = || *trusted;
        let own =
            named.iter().flat_map(|(name, named)| sections(named, &format!("agents.{name}"), &is_trusted));
        let own: Vec<Section<'_>> = own.collect();
        settle(agent.into_owned(), &own, |backend| {
            let name = format!("defaults.{backend}");
            let found = config.defaults.get(backend).filter(|_| counted == Counted::All);
            found.map(|found| sections(found, &name, &is_trusted)).unwrap_or_default()
        })
    }

    /// Whether the caller may allow an agent more than its own permission: a person at a shell may. A run that continues
    /// another one may if that one was allowed more.
    fn authority(&self, before: Option<&RunSpec>, catalogue: &Catalogue, kinship: Kinship) -> Authority {
        let widens = match (kinship, self.caller().door) {
            (Kinship::Child, _) | (Kinship::Root, Door::Run) => false,
            (Kinship::Root, _) if let Some(before) = before => before
                .grants
                .iter()
                .any(|grant| grant.source == GrantSource::Caller && !grant.widens.is_empty()),
            (Kinship::Root, Door::Shell) => true,
            (Kinship::Root, Door::Mcp) => catalogue.config.callers_may_widen.value,
        };
        if widens { Authority::Widen } else { Authority::Narrow }
    }

    fn granted(
        &self,
        mut settled: Settled,
        asked: &Permission,
        authority: Authority,
    ) -> Result<Settled, AppError> {
        let name = settled.agent.name.clone();
        let overlaid = settled.agent.setup.permission.overlaid(asked, authority).map_err(|wide| {
            let hint = format!(
                "callers may only ask for less; your user allows more by permission in [agents.{name}] of their \
                 configuration, or lets callers do so by callers_may_widen = true in [serve]"
            );
            AppError::denied(format!("agent {name}: {wide}")).hint(hint)
        })?;
        if let Some(rule) = overlaid.ineffective.first() {
            return Err(AppError::denied(format!("agent {name}: {rule}")).hint("leave the rule out"));
        }
        let caller = self.caller();
        let by = match caller.door {
            Door::Shell => "the command line".to_owned(),
            Door::Mcp | Door::Run => format!("the caller {}", caller.name),
        };
        settled.agent.setup.permission = overlaid.permission;
        let asked = asked.clone();
        settled.grants.push(Grant { source: GrantSource::Caller, by, asked, widens: overlaid.widens });
        Ok(settled)
    }
}

/// Refuses to continue a run with an agent that has only its name in common with the one before: the agents of a dialect have
/// definitions of their own, which may allow less.
fn another_definition(before: &RunSpec) -> AppError {
    let (agent, short) = (&before.agent, before.id.short());
    let message =
        format!("the run {short} had the agent {agent} of {}, which is not defined here", before.source);
    AppError::denied(message).hint(format!("volery show {short} has its result so far; start a new run"))
}

/// Returns the sections of all layers. One of a project that nobody has trusted only narrows.
fn sections<'a>(
    settings: &'a [Setting<Overlay>],
    name: &str,
    is_trusted: &dyn Fn() -> bool,
) -> Vec<Section<'a>> {
    let section = |setting: &'a Setting<Overlay>| {
        let is_held = setting.layer == Layer::Project && setting.value.may_widen() && !is_trusted();
        let authority = if is_held { Authority::Narrow } else { Authority::Widen };
        Section { overlay: &setting.value, name: format!("[{name}] of {}", setting.file), authority }
    };
    settings.iter().map(section).collect()
}
