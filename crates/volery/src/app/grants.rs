//! What an agent is and may do in one run: its file, what configurations lay over it, and what the caller asks for.

use std::borrow::Cow;
use std::cell::LazyCell;

use definition::config::Setting;
use domain::agent::{Agent, Layer};
use domain::id::AgentName;
use domain::overlay::{Overlay, Section, Settled, settle};
use domain::permission::{Authority, Grant, GrantSource, Permission, Unenforceable};
use domain::plan::Parent;
use domain::run::{BackendSpec, Door, RunSpec};
use domain::setup::Setup;

use super::engine::{Engine, store_error};
use super::start::find_agent;
use super::unasked::section_of;
use super::{AppError, Start, honour};
use crate::registry::{self, Catalogue};

/// The most that a run may be allowed, because a run above it has no more.
#[derive(Debug, Clone)]
pub(super) struct Ceiling {
    by: String,
    /// The parent run's agent, if the parent is known.
    parent: Option<AgentName>,
    permission: Permission,
    /// What the parent run does about what cannot be enforced.
    unenforceable: Unenforceable,
}

impl Ceiling {
    /// Returns the permission of a parent run as it counts in the directory of its child.
    fn of_parent(parent: &RunSpec, directory: &str) -> Self {
        let extra: Vec<&str> = parent.setup.extra_directories.iter().map(String::as_str).collect();
        Self {
            by: format!("its parent run {} (agent {})", parent.id.short(), parent.agent),
            parent: Some(parent.agent.clone()),
            permission: parent.setup.permission.moved(&parent.directory, &extra, directory),
            unenforceable: parent.setup.unenforceable,
        }
    }

    /// Returns what held a run that is continued. Its parent may be gone.
    fn as_before(before: &RunSpec) -> Option<Self> {
        let grant = before.grants.iter().find(|grant| grant.source == GrantSource::Parent)?;
        let (by, permission) = (grant.by.clone(), grant.asked.clone());
        Some(Self { by, parent: None, permission, unenforceable: Unenforceable::Refuse })
    }

    /// Returns why an agent cannot be held to it by a backend. What its own file demands is not weighed here.
    pub(super) fn unheld(
        &self,
        own: &Permission,
        narrow: &Permission,
        backend: &BackendSpec,
    ) -> Option<AppError> {
        if self.unenforceable == Unenforceable::Warn {
            return None;
        }
        let known = honour::unenforceable(own, backend);
        let gaps = honour::unenforceable(narrow, backend).into_iter().filter(|gap| !known.contains(gap));
        let gaps: Vec<String> = gaps.collect();
        if gaps.is_empty() {
            return None;
        }
        let message = format!(
            "it may do no more than {} ({}), and the backend {} cannot enforce {}",
            self.by,
            self.permission.in_words(),
            backend.name,
            gaps.join(", ")
        );
        let hint =
            "delegate to an agent whose backend can enforce it, or give the parent agent a wider permission";
        Some(AppError::denied(message).hint(hint))
    }
}

/// An agent as it counts for a run.
pub(super) struct Granted {
    pub(super) settled: Settled,
    /// What it was before it was held to its parent run, on its own backend and on its fallbacks'.
    pub(super) own: Setup,
    pub(super) ceiling: Option<Ceiling>,
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
        parent: Option<&Parent>,
    ) -> Result<Granted, AppError> {
        let before = ask.resumes.map(|before| self.home.run_dir(before.run).read_spec());
        let before = before.transpose().map_err(store_error)?;
        if let Some(before) = before.as_ref().filter(|before| !self.may_see_spec(before)) {
            return Err(super::look::unknown(&before.id.to_string()));
        }
        let mut settled = match ask.definition.take() {
            // The record of the run before has the sum already. What its parent run left it is narrowed again below.
            Some(agent) if ask.as_before || before.is_some() => {
                let grants = before.iter().flat_map(|before| before.grants.iter());
                let grants = grants.filter(|grant| grant.source != GrantSource::Parent).cloned().collect();
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
        if !ask.permission.is_empty() {
            let authority = self.authority(before.as_ref(), catalogue, parent);
            settled = self.granted(settled, &ask.permission, authority)?;
        }
        let own = settled.agent.setup.clone();
        let of_parent = parent.map(|parent| Ceiling::of_parent(&parent.spec, directory));
        let ceiling = of_parent.or_else(|| Ceiling::as_before(before.as_ref()?));
        if let Some(ceiling) = &ceiling {
            let lost = settled.narrow(GrantSource::Parent, ceiling.by.clone(), &ceiling.permission);
            settled.warnings.extend((!lost.is_empty()).then(|| said_of_ceiling(ceiling, &lost)));
        }
        Ok(Granted { settled, own, ceiling })
    }

    /// Returns an agent with what the configuration says about it.
    pub(super) fn settled(&self, catalogue: &Catalogue, agent: Cow<'_, Agent>) -> Settled {
        self.settled_by(catalogue, agent, Counted::All)
    }

    fn settled_by(&self, catalogue: &Catalogue, mut agent: Cow<'_, Agent>, counted: Counted) -> Settled {
        let held = match agent.source.layer {
            Layer::Project => catalogue.bounds.hold_agent(agent.to_mut()),
            _ => Vec::new(),
        };
        let mut settled = self.overlaid(catalogue, agent, counted);
        settled.warnings.extend(held);
        settled
    }

    fn overlaid(&self, catalogue: &Catalogue, agent: Cow<'_, Agent>, counted: Counted) -> Settled {
        let config = &catalogue.config;
        let trusted = LazyCell::new(|| self.trust().is_trusted(catalogue));
        let is_trusted = || *trusted;
        let Settled { agent, grants, warnings } = held_to_built_in(catalogue, agent, &is_trusted);
        // An agent that is asked for as FORMAT:NAME is still the agent NAME: what is denied to that, is denied to this.
        let plain = registry::plain_name(&agent);
        let names = plain.iter().chain([&agent.name]);
        let named: Vec<_> = names.filter_map(|name| config.agents.get_key_value(name)).collect();
        if named.is_empty() && (config.defaults.is_empty() || counted == Counted::Named) {
            return Settled { agent, grants, warnings };
        }
        let own =
            named.iter().flat_map(|(name, named)| sections(named, &format!("agents.{name}"), &is_trusted));
        let own: Vec<Section<'_>> = own.collect();
        let mut settled = settle(agent, &own, |backend| {
            let name = format!("defaults.{backend}");
            let found = config.defaults.get(backend).filter(|_| counted == Counted::All);
            found.map(|found| sections(found, &name, &is_trusted)).unwrap_or_default()
        });
        settled.grants.splice(0..0, grants);
        settled.warnings.splice(0..0, warnings);
        settled
    }

    /// Whether the caller may allow an agent more than its own permission: a person at a shell may. A run that continues
    /// another one may if that one was allowed more.
    fn authority(
        &self,
        before: Option<&RunSpec>,
        catalogue: &Catalogue,
        parent: Option<&Parent>,
    ) -> Authority {
        if parent.is_some() {
            return Authority::Narrow;
        }
        let widens = match (before, self.caller().door) {
            (_, Door::Run) => false,
            (Some(before), Door::Shell | Door::Mcp) => before
                .grants
                .iter()
                .any(|grant| grant.source == GrantSource::Caller && !grant.widens.is_empty()),
            (None, Door::Shell) => true,
            (None, Door::Mcp) => catalogue.config.callers_may_widen.value,
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
                "callers may only ask for less; your user allows more by permission under {} in their \
                 configuration, or lets callers do so by callers_may_widen = true under [serve]",
                section_of(name.as_str())
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
        for other in settled.agent.setup.permissions_mut().skip(1) {
            // A fallback may have less than the agent's own backend, and then the caller does not give it more.
            *other = match other.overlaid(asked, authority) {
                Ok(overlaid) => overlaid.permission,
                Err(_) => other.narrowed_to(asked).permission,
            };
        }
        let asked = asked.clone();
        settled.grants.push(Grant { source: GrantSource::Caller, by, asked, widens: overlaid.widens });
        Ok(settled)
    }
}

/// Returns an agent of a project. One that takes the name of a built-in agent says so, and has no more than that one until
/// the project is trusted: whoever types `volery run claude` in a repository that they have just cloned means the program.
fn held_to_built_in(catalogue: &Catalogue, agent: Cow<'_, Agent>, is_trusted: &dyn Fn() -> bool) -> Settled {
    let mut settled = Settled::unchanged(agent.into_owned());
    let agent = &mut settled.agent;
    if !catalogue.takes_built_in_name(agent) {
        return settled;
    }
    let (name, file) = (agent.name.clone(), agent.source.file.clone());
    let said = format!("the project's file {file} takes the name of the built-in agent {name}");
    let beyond = catalogue.beyond_built_in(agent);
    if beyond.is_empty() || is_trusted() {
        settled.warnings.push(said);
        return settled;
    }
    agent.env.clear();
    agent.setup.extra_directories.clear();
    settled.narrow(GrantSource::Untrusted, format!("{file}, which is not trusted"), &Permission::default());
    settled.warnings.push(format!(
        "{said}; until you trust the project (volery trust {}), this does not count: {}",
        catalogue.project,
        beyond.join("; ")
    ));
    settled
}

/// Says what an agent has lost, and who can give it back.
fn said_of_ceiling(ceiling: &Ceiling, lost: &[String]) -> String {
    let way = match &ceiling.parent {
        Some(parent) => {
            format!(
                "; to allow more, write a wider permission under {} in your configuration",
                section_of(parent.as_str())
            )
        }
        None => String::new(),
    };
    let has = ceiling.permission.in_words();
    format!("permission: narrowed by {}, which has {has}: {}{way}", ceiling.by, lost.join(", "))
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
