//! Determines what an agent is and may do in one run: its file, the sections of configurations, and the caller's
//! request.

use std::borrow::Cow;
use std::cell::LazyCell;

use config::settings::ConfigSetting;
use domain::admission::ParentRun;
use domain::agent::{Agent, Layer};
use domain::id::AgentName;
use domain::overlay::{Overlay, ResolvedAgent, Section, resolve_agent};
use domain::permission::{Permission, Unenforceable};
use domain::policy::{Authority, Grant, GrantSource};
use domain::run::{BackendSpec, CallerOrigin, RunSpec};
use domain::setup::Setup;

use super::compatibility;
use super::config_section::config_section;
use super::start::find_agent;
use crate::api::{EngineError, StartRequest};
use crate::engine::{Engine, store_error};
use crate::registry::{self, Catalog};

/// The most that a run may be allowed, because its parent has no more.
#[derive(Debug, Clone)]
pub(crate) struct Ceiling {
    by: String,
    /// The parent run's agent, if the parent is known.
    parent: Option<AgentName>,
    permission: Permission,
    /// What the parent run does about permissions that cannot be enforced.
    unenforceable: Unenforceable,
}

impl Ceiling {
    /// Returns the permission of a parent run, translated to the directory of its child.
    fn from_parent(parent: &RunSpec, directory: &str) -> Self {
        let extra: Vec<&str> = parent.setup.extra_directories.iter().map(String::as_str).collect();
        Self {
            by: format!("its parent run {} (agent {})", parent.id.short(), parent.agent),
            parent: Some(parent.agent.clone()),
            permission: parent.setup.permission.relocated(&parent.directory, &extra, directory),
            unenforceable: parent.setup.unenforceable,
        }
    }

    /// Returns the ceiling of a run that is resumed. Its parent may be gone.
    fn from_resumed_run(before: &RunSpec) -> Option<Self> {
        let grant = before.grants.iter().find(|grant| grant.source == GrantSource::Parent)?;
        let (by, permission) = (grant.by.clone(), grant.requested.clone());
        Some(Self { by, parent: None, permission, unenforceable: Unenforceable::Refuse })
    }

    /// Returns why a backend cannot limit an agent to the ceiling. Gaps that the agent's own permission already has
    /// do not count, unless the agent starts in spite of them and the ceiling has gaps too.
    pub(crate) fn exceeds_ceiling(
        &self,
        own: &Permission,
        own_reaction: Unenforceable,
        narrow: &Permission,
        backend: &BackendSpec,
    ) -> Option<EngineError> {
        if self.unenforceable == Unenforceable::Warn {
            return None;
        }
        let is_enforced = compatibility::unenforceable(&self.permission, backend).is_empty();
        let known = match own_reaction {
            Unenforceable::Warn if !is_enforced => Vec::new(),
            Unenforceable::Warn | Unenforceable::Refuse => compatibility::unenforceable(own, backend),
        };
        let gaps =
            compatibility::unenforceable(narrow, backend).into_iter().filter(|gap| !known.contains(gap));
        let gaps: Vec<String> = gaps.collect();
        if gaps.is_empty() {
            return None;
        }
        let message = format!(
            "it may do no more than {} ({}), and the backend {} cannot enforce {}",
            self.by,
            self.permission.summary(),
            backend.name,
            gaps.join(", ")
        );
        let hint =
            "delegate to an agent whose backend can enforce it, or give the parent agent a wider permission";
        Some(EngineError::denied(message).hint(hint))
    }
}

/// An agent with its permission for a run.
pub(crate) struct GrantedAgent {
    pub(crate) settled: ResolvedAgent,
    /// Its setup before it was limited to its parent run, for its own backend and its fallbacks.
    pub(crate) own: Setup,
    pub(crate) ceiling: Option<Ceiling>,
}

/// Which sections of the configuration apply to an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SectionFilter {
    /// Those for its name and those for its backend.
    All,
    /// Those for its name.
    Named,
}

impl Engine {
    /// Returns the requested agent with its permission for this run.
    pub(crate) fn agent_for(
        &self,
        ask: &mut StartRequest,
        catalog: &Catalog,
        directory: &str,
        parent: Option<&ParentRun>,
    ) -> Result<GrantedAgent, EngineError> {
        let before = ask.resumes.map(|before| self.home.run_dir(before.run).read_spec());
        let before = before.transpose().map_err(store_error)?;
        if let Some(before) = before.as_ref().filter(|before| !self.may_see_spec(before)) {
            return Err(crate::run_access::unknown_run(&before.id.to_string()));
        }
        let mut settled = match ask.definition.take() {
            // The record of the previous run already contains the sum. Its parent's limit is applied again below.
            Some(agent) if ask.reuse_last_agent || before.is_some() => {
                let grants = before.iter().flat_map(|before| before.grants.iter());
                let grants = grants.filter(|grant| grant.source != GrantSource::Parent).cloned().collect();
                ResolvedAgent { grants, ..ResolvedAgent::without_config(*agent) }
            }
            // Defaults for a backend are for native agents: an agent of a dialect is as its system defines it, except
            // for the user's section about this agent.
            Some(agent) => self.settle_with(catalog, Cow::Owned(*agent), SectionFilter::Named),
            None => self.settled(catalog, find_agent(catalog, directory, &ask.agent)?),
        };
        if let Some(before) = before.as_ref().filter(|before| before.source != settled.agent.source.file) {
            return Err(another_definition(before));
        }
        if !ask.permission.is_empty() {
            let authority = self.authority(before.as_ref(), catalog, parent);
            settled = self.apply_grant(settled, &ask.permission, authority)?;
        }
        let own = settled.agent.setup.clone();
        let parent_ceiling = parent.map(|parent| Ceiling::from_parent(&parent.spec, directory));
        let ceiling = parent_ceiling.or_else(|| Ceiling::from_resumed_run(before.as_ref()?));
        if let Some(ceiling) = &ceiling {
            let lost = settled.narrow(GrantSource::Parent, ceiling.by.clone(), &ceiling.permission);
            settled.warnings.extend((!lost.is_empty()).then(|| ceiling_warning(ceiling, &lost)));
        }
        Ok(GrantedAgent { settled, own, ceiling })
    }

    /// Returns an agent with the sections of the configuration applied.
    pub(crate) fn settled(&self, catalog: &Catalog, agent: Cow<'_, Agent>) -> ResolvedAgent {
        self.settle_with(catalog, agent, SectionFilter::All)
    }

    fn settle_with(&self, catalog: &Catalog, agent: Cow<'_, Agent>, filter: SectionFilter) -> ResolvedAgent {
        let trusted = LazyCell::new(|| self.trust().is_trusted(catalog));
        resolve(catalog, agent, filter, &|| *trusted)
    }

    /// Returns whether the caller may widen an agent's permission: a person at a shell may. A resumed run may if the
    /// earlier run was widened.
    fn authority(
        &self,
        before: Option<&RunSpec>,
        catalog: &Catalog,
        parent: Option<&ParentRun>,
    ) -> Authority {
        if parent.is_some() {
            return Authority::Narrow;
        }
        let widens = match (before, self.caller().origin) {
            (_, CallerOrigin::Run) => false,
            (Some(before), CallerOrigin::Shell | CallerOrigin::Mcp) => before
                .grants
                .iter()
                .any(|grant| grant.source == GrantSource::Caller && !grant.widens.is_empty()),
            (None, CallerOrigin::Shell) => true,
            (None, CallerOrigin::Mcp) => catalog.config.callers_may_widen.value,
        };
        if widens { Authority::Widen } else { Authority::Narrow }
    }

    fn apply_grant(
        &self,
        mut settled: ResolvedAgent,
        requested: &Permission,
        authority: Authority,
    ) -> Result<ResolvedAgent, EngineError> {
        let name = settled.agent.name.clone();
        // A caller could name any file.
        let requested = &requested.without_origins();
        let overlaid = settled.agent.setup.permission.overlaid(requested, authority).map_err(|wide| {
            let hint = format!(
                "callers may only ask for less; your user allows more by permission under {} in their \
                 configuration, or lets callers do so by callers_may_widen = true under [serve]",
                config_section(name.as_str())
            );
            EngineError::denied(format!("agent {name}: {wide}")).hint(hint)
        })?;
        if let Some(rule) = overlaid.ineffective.first() {
            return Err(EngineError::denied(format!("agent {name}: {rule}")).hint("leave the rule out"));
        }
        let caller = self.caller();
        let by = match caller.origin {
            CallerOrigin::Shell => "the command line".to_owned(),
            CallerOrigin::Mcp | CallerOrigin::Run => format!("the caller {}", caller.name),
        };
        settled.agent.setup.permission = overlaid.permission;
        for other in settled.agent.setup.permissions_mut().skip(1) {
            // A fallback may have less than the agent's own backend, and then the caller does not widen it.
            *other = match other.overlaid(requested, authority) {
                Ok(overlaid) => overlaid.permission,
                Err(_) => other.narrowed_to(requested).permission,
            };
        }
        settled.grants.push(Grant {
            source: GrantSource::Caller,
            by,
            requested: requested.clone(),
            widens: overlaid.widens,
        });
        Ok(settled)
    }
}

/// Returns an agent with the sections of the configuration applied, while the project is not trusted.
pub(crate) fn resolve_untrusted(catalog: &Catalog, agent: Cow<'_, Agent>) -> ResolvedAgent {
    resolve(catalog, agent, SectionFilter::All, &|| false)
}

fn resolve(
    catalog: &Catalog,
    mut agent: Cow<'_, Agent>,
    filter: SectionFilter,
    is_trusted: &dyn Fn() -> bool,
) -> ResolvedAgent {
    let bound_warnings = match agent.source.layer {
        Layer::Project => catalog.bounds.restrict_agent(agent.to_mut()),
        _ => Vec::new(),
    };
    let mut settled = overlay_sections(catalog, agent, filter, is_trusted);
    settled.warnings.extend(bound_warnings);
    settled
}

fn overlay_sections(
    catalog: &Catalog,
    agent: Cow<'_, Agent>,
    filter: SectionFilter,
    is_trusted: &dyn Fn() -> bool,
) -> ResolvedAgent {
    let config = &catalog.config;
    let ResolvedAgent { agent, grants, warnings } = limit_untrusted(catalog, agent, filter, is_trusted);
    // An agent that is selected as FORMAT:NAME is still the agent NAME: denials for that apply to this one.
    let plain = registry::plain_name(&agent);
    let names = plain.iter().chain([&agent.name]);
    let named_sections: Vec<_> = names.filter_map(|name| config.agents.get_key_value(name)).collect();
    if named_sections.is_empty() && (config.defaults.is_empty() || filter == SectionFilter::Named) {
        return ResolvedAgent { agent, grants, warnings };
    }
    let own = named_sections
        .iter()
        .flat_map(|(name, named_sections)| sections(named_sections, &format!("agents.{name}"), is_trusted));
    let own: Vec<Section<'_>> = own.collect();
    let mut settled = resolve_agent(agent, &own, |backend| {
        let name = format!("defaults.{backend}");
        let found = config.defaults.get(backend).filter(|_| filter == SectionFilter::All);
        found.map(|found| sections(found, &name, is_trusted)).unwrap_or_default()
    });
    settled.grants.splice(0..0, grants);
    settled.warnings.splice(0..0, warnings);
    settled
}

/// Returns an agent without the grants of its project's file, until the project is trusted. A file with the name of a
/// built-in agent always gets a warning: a user who types `volery run claude` in a freshly cloned repository means
/// the program.
fn limit_untrusted(
    catalog: &Catalog,
    agent: Cow<'_, Agent>,
    filter: SectionFilter,
    is_trusted: &dyn Fn() -> bool,
) -> ResolvedAgent {
    let mut settled = ResolvedAgent::without_config(agent.into_owned());
    let agent = &mut settled.agent;
    let takes_built_in_name = catalog.takes_built_in_name(agent);
    let grants = registry::agent_grants(agent, &catalog.project);
    let (name, file) = (agent.name.clone(), agent.source.file.clone());
    let notice = takes_built_in_name
        .then(|| format!("the project's file {file} takes the name of the built-in agent {name}"));
    // A record of trust covers the agents of the catalog. A dialect reads its own files, from a folder that the user
    // chose for it or, of this layer, from the folder that the server was started in.
    let can_be_trusted = filter == SectionFilter::All;
    if grants.is_empty() || (can_be_trusted && is_trusted()) {
        settled.warnings.extend(notice);
        return settled;
    }
    agent.env.clear();
    let is_in_project = |directory: &String| registry::is_in_project(directory, &catalog.project);
    agent.setup.extra_directories.retain(is_in_project);
    agent.setup.unenforceable = Unenforceable::Refuse;
    settled.narrow(GrantSource::Untrusted, format!("{file}, which is not trusted"), &Permission::default());
    // The run would be refused because of what is left of a rule, if its backend cannot express that.
    if let Some(backend) = backends::registry::by_kind(settled.agent.backend.as_str()) {
        settled.agent.setup.permission.allow.retain(|rule| {
            let alone = Permission { allow: vec![rule.clone()], ..Permission::default() };
            backend.unenforceable(&alone.for_vendor(), &serde_json::Value::Null).is_empty()
        });
    }
    let settings: Vec<&str> = grants.iter().map(|grant| grant.setting.as_str()).collect();
    let way_out = match can_be_trusted {
        true => format!("until you trust the project (volery trust {})", catalog.project),
        false => "until you set the folder of these agents for the server".to_owned(),
    };
    settled.warnings.push(format!(
        "{}; {way_out}, this does not count: {}",
        notice.unwrap_or_else(|| format!("the project's file {file} grants more than the defaults")),
        settings.join("; ")
    ));
    settled
}

/// Describes what an agent has lost, and how to allow it.
fn ceiling_warning(ceiling: &Ceiling, lost: &[String]) -> String {
    let hint = match &ceiling.parent {
        Some(parent) => {
            format!(
                "; to allow more, write a wider permission under {} in your configuration",
                config_section(parent.as_str())
            )
        }
        None => String::new(),
    };
    let has = ceiling.permission.summary();
    format!("permission: narrowed by {}, which has {has}: {}{hint}", ceiling.by, lost.join(", "))
}

/// Refuses to resume a run with an agent that shares only its name with the earlier one: the agents of a dialect have
/// their own definitions, which may allow less.
fn another_definition(before: &RunSpec) -> EngineError {
    let (agent, short) = (&before.agent, before.id.short());
    let message =
        format!("the run {short} had the agent {agent} of {}, which is not defined here", before.source);
    EngineError::denied(message).hint(format!("volery show {short} has its result so far; start a new run"))
}

/// Returns the sections of all layers. A section of an untrusted project only narrows.
fn sections<'a>(
    settings: &'a [ConfigSetting<Overlay>],
    name: &str,
    is_trusted: &dyn Fn() -> bool,
) -> Vec<Section<'a>> {
    let section = |setting: &'a ConfigSetting<Overlay>| {
        let is_held = setting.layer == Layer::Project && setting.value.may_widen() && !is_trusted();
        let authority = if is_held { Authority::Narrow } else { Authority::Widen };
        Section { overlay: &setting.value, name: section_name(name, &setting.file), authority }
    };
    settings.iter().map(section).collect()
}

/// Returns how messages name a section of a configuration file.
pub(crate) fn section_name(section: &str, file: &str) -> String {
    format!("[{section}] of {file}")
}

#[cfg(test)]
mod tests {
    use domain::agent::{AgentFormat, AgentSource};
    use domain::permission::Level;

    use super::*;

    fn agent(layer: Layer, format: AgentFormat) -> Agent {
        let source = AgentSource { file: "/work/agents/x/agent.md".to_owned(), format, layer };
        let mut agent = Agent::new("x".parse().unwrap(), "goose".parse().unwrap(), source);
        agent.setup.permission.level = Some(Level::Yolo);
        agent.setup.unenforceable = Unenforceable::Warn;
        agent
    }

    #[test]
    fn a_dialects_file_in_the_project_grants_nothing_and_in_a_folder_of_the_user_everything() {
        let project = tempfile::tempdir().unwrap();
        let catalog = registry::load(project.path().to_str().unwrap());
        let settled = |layer| {
            let agent = agent(layer, AgentFormat::Jarvis);
            let filter = SectionFilter::Named;
            let settled = limit_untrusted(&catalog, Cow::Owned(agent), filter, &|| true);
            let setup = settled.agent.setup;
            (setup.permission.level, setup.unenforceable, settled.warnings.len())
        };
        assert_eq!(settled(Layer::Project), (None, Unenforceable::Refuse, 1));
        for layer in [Layer::Environment, Layer::User, Layer::CommandLine, Layer::Default] {
            assert_eq!(settled(layer), (Some(Level::Yolo), Unenforceable::Warn, 0), "{layer:?}");
        }
    }

    #[test]
    fn an_untrusted_file_cannot_switch_off_restrictions() {
        let project = tempfile::tempdir().unwrap();
        let catalog = registry::load(project.path().to_str().unwrap());
        let reaction = |trusted: bool| {
            let mut agent = agent(Layer::Project, AgentFormat::Volery);
            agent.setup.permission.level = None;
            let settled = limit_untrusted(&catalog, Cow::Owned(agent), SectionFilter::All, &|| trusted);
            settled.agent.setup.unenforceable
        };
        assert_eq!((reaction(false), reaction(true)), (Unenforceable::Refuse, Unenforceable::Warn));
    }

    #[test]
    fn an_agent_that_ignores_its_own_gaps_does_not_ignore_those_of_its_parent() {
        let backend = BackendSpec {
            name: "goose".parse().unwrap(),
            kind: "goose".to_owned(),
            options: serde_json::Value::Null,
        };
        let level = |level| Permission { level: Some(level), ..Permission::default() };
        let exceeds = |parent: &Permission, reaction| {
            let ceiling = Ceiling {
                by: "its parent run".to_owned(),
                parent: None,
                permission: parent.clone(),
                unenforceable: Unenforceable::Refuse,
            };
            let own = level(Level::SafeEdit);
            let narrow = own.narrowed_to(parent).permission;
            ceiling.exceeds_ceiling(&own, reaction, &narrow, &backend).is_some()
        };
        let safe_edit = level(Level::SafeEdit);
        assert!(exceeds(&safe_edit, Unenforceable::Warn));
        // Such an agent is refused for its own gap.
        assert!(!exceeds(&safe_edit, Unenforceable::Refuse));
        // The parent requires nothing that the backend cannot enforce.
        assert!(!exceeds(&level(Level::Yolo), Unenforceable::Warn));
    }
}
