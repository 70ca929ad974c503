//! The configuration of agents whose files somebody else wrote: `[agents.NAME]` overrides the agent file,
//! `[defaults.BACKEND]` supplies missing settings.

use crate::agent::Agent;
use crate::budget::RequestedLimits;
use crate::id::BackendName;
use crate::permission::Permission;
use crate::policy::{Authority, Grant, GrantSource};
use crate::setup::{FallbackSettings, Setup};

/// The settings of one section.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overlay {
    pub backend: Option<BackendName>,
    pub model: Option<String>,
    pub permission: Permission,
    pub limits: RequestedLimits,
    pub max_turns: Option<u32>,
}

impl Overlay {
    /// Returns the names of the settings that cost money and time.
    fn costly_settings(&self) -> Vec<&'static str> {
        let limits = self.limits != RequestedLimits::default();
        let settings =
            [("model", self.model.is_some()), ("max_turns", self.max_turns.is_some()), ("limits", limits)];
        settings.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| name).collect()
    }

    /// Returns whether the section could allow an agent more than its file does; in a project, such a section needs trust.
    pub fn may_widen(&self) -> bool {
        let level = self.permission.level.is_some_and(|level| level > crate::permission::Level::ReadOnly);
        let rules = !self.permission.allow.is_empty() || !self.permission.ask.is_empty();
        level || rules || self.backend.is_some() || !self.costly_settings().is_empty()
    }
}

/// A section that applies to one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section<'a> {
    pub overlay: &'a Overlay,
    /// How messages name it.
    pub name: String,
    /// A section of an untrusted project can only narrow.
    pub authority: Authority,
}

/// An agent with the configuration applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedAgent {
    pub agent: Agent,
    /// The layers of its permission above its file.
    pub grants: Vec<Grant>,
    /// Settings that were not applied, and their consequences.
    pub warnings: Vec<String>,
}

/// Applies the configuration to an agent: first the sections for its backend supply missing settings, then the
/// sections for its name override. Each list begins with the farthest layer.
pub fn resolve_agent<'a>(
    agent: Agent,
    named: &[Section<'_>],
    defaults: impl Fn(&BackendName) -> Vec<Section<'a>>,
) -> ResolvedAgent {
    let file = (!agent.setup.fallback.is_empty()).then(|| agent.clone());
    let mut settled = ResolvedAgent::without_config(agent);
    named.iter().for_each(|section| settled.override_backend(section));
    settled.apply_defaults(&defaults(&settled.agent.backend));
    for section in named {
        settled.override_limits(section);
        settled.override_permission(section);
    }
    if let Some(file) = file {
        settled.resolve_fallbacks(&file, named, defaults);
    }
    settled
}

impl Section<'_> {
    fn is_trusted(&self) -> bool {
        self.authority == Authority::Widen
    }
}

impl ResolvedAgent {
    /// Returns an agent without any configuration.
    pub fn without_config(agent: Agent) -> Self {
        Self { agent, grants: Vec::new(), warnings: Vec::new() }
    }

    /// Supplies missing settings from the sections for the agent's backend.
    fn apply_defaults(&mut self, defaults: &[Section<'_>]) {
        for Section { overlay, .. } in defaults.iter().rev().filter(|section| section.is_trusted()) {
            let agent = &mut self.agent;
            agent.model = agent.model.take().or_else(|| overlay.model.clone());
            agent.limits = merge_limits(&agent.limits, &overlay.limits);
            agent.setup.max_turns = agent.setup.max_turns.or(overlay.max_turns);
        }
        if self.agent.setup.permission.is_empty() {
            // All layers apply: a nearer one cannot allow anything that a farther one denies.
            defaults.iter().for_each(|section| self.override_permission(section));
        }
    }

    /// Resolves the settings for each fallback to another backend: the sections for that backend apply instead of
    /// those for the agent's own. Limits belong to the run, which has one time-out for all attempts.
    fn resolve_fallbacks<'a>(
        &mut self,
        file: &Agent,
        named: &[Section<'_>],
        defaults: impl Fn(&BackendName) -> Vec<Section<'a>>,
    ) {
        let own = self.agent.backend.clone();
        let mut fallbacks = std::mem::take(&mut self.agent.setup.fallback);
        for fallback in &mut fallbacks {
            let Some(backend) = fallback.backend.clone().filter(|backend| *backend != own) else { continue };
            let model = fallback.model.take();
            let mut other = Self::without_config(Agent { backend: backend.clone(), model, ..file.clone() });
            other.apply_defaults(&defaults(&backend));
            for section in named {
                other.override_permission(section);
                let turns = section.overlay.max_turns.filter(|_| section.is_trusted());
                other.agent.setup.max_turns = turns.or(other.agent.setup.max_turns);
            }
            let added = other.grants.iter().filter(|grant| !self.grants.contains(grant));
            let messages = added.map(|grant| format!("{} by {}", grant.requested.layer_summary(), grant.by));
            let messages = messages.map(|message| format!("on the fallback {backend}: {message}"));
            let messages: Vec<String> = messages.filter(|message| !self.warnings.contains(message)).collect();
            self.warnings.extend(messages);
            let warnings: Vec<String> =
                other.warnings.into_iter().filter(|warning| !self.warnings.contains(warning)).collect();
            self.warnings.extend(warnings);
            fallback.model = other.agent.model;
            let Setup { permission, max_turns, .. } = other.agent.setup;
            let differs =
                permission != self.agent.setup.permission || max_turns != self.agent.setup.max_turns;
            fallback.settings = differs.then_some(FallbackSettings { permission, max_turns });
        }
        self.agent.setup.fallback = fallbacks;
    }

    /// Narrows the agent on every backend that it may run on, and records who narrowed it. Describes the losses.
    pub fn narrow(&mut self, source: GrantSource, by: String, ceiling: &Permission) -> Vec<String> {
        let mut lost = Vec::new();
        for permission in self.agent.setup.permissions_mut() {
            let narrowed = permission.narrowed_to(ceiling);
            *permission = narrowed.permission;
            lost.extend(narrowed.lost.into_iter().filter(|new| !lost.contains(new)).collect::<Vec<_>>());
        }
        self.grants.push(Grant { source, by, requested: ceiling.clone(), widens: Vec::new() });
        lost
    }

    fn override_backend(&mut self, section: &Section<'_>) {
        let Some(backend) = section.overlay.backend.as_ref().filter(|name| **name != self.agent.backend)
        else {
            return;
        };
        let name = &section.name;
        if section.authority == Authority::Narrow {
            let message = format!("{name}: backend {backend} is not applied: the project is not trusted");
            return self.warnings.push(message);
        }
        if let Some(model) = self.agent.model.take().filter(|_| section.overlay.model.is_none()) {
            let message = format!(
                "the model {model} of the agent's file is not used: {name} changes the backend from {} to {backend}; \
                 write a model there",
                self.agent.backend
            );
            self.warnings.push(message);
        }
        // These arguments are for the other program.
        if !std::mem::take(&mut self.agent.setup.extra_args).is_empty() {
            self.warnings.push(format!("extra_args of the agent's file are not passed on to {backend}"));
        }
        self.agent.backend = backend.clone();
    }

    /// Models and limits cost money and time, so an untrusted project cannot set them.
    fn override_limits(&mut self, section: &Section<'_>) {
        let Overlay { backend: _, model, permission: _, limits, max_turns } = section.overlay;
        if !section.is_trusted() {
            let settings = section.overlay.costly_settings();
            let message = match settings[..] {
                [] => return,
                ["limits"] | [_, _, ..] => format!("{} are not applied", settings.join(" and ")),
                [one] => format!("{one} is not applied"),
            };
            return self.warnings.push(format!("{}: {message}: the project is not trusted", section.name));
        }
        let agent = &mut self.agent;
        agent.model = model.clone().or(agent.model.take());
        agent.limits = merge_limits(limits, &agent.limits);
        agent.setup.max_turns = max_turns.or(agent.setup.max_turns);
    }

    fn override_permission(&mut self, section: &Section<'_>) {
        let Section { overlay: Overlay { permission: requested, .. }, name, authority } = section;
        if requested.is_empty() {
            return;
        }
        let own = &mut self.agent.setup.permission;
        match own.overlaid(requested, *authority) {
            Ok(overlaid) => {
                *own = overlaid.permission;
                self.warnings.extend(overlaid.ineffective.iter().map(|rule| format!("{name}: {rule}")));
                self.grants.push(Grant {
                    source: GrantSource::Configuration,
                    by: name.clone(),
                    requested: requested.clone(),
                    widens: overlaid.widens,
                });
            }
            Err(wide) => {
                let message = format!(
                    "{name}: permission is not applied: {}, and the project is not trusted",
                    wide.widenings.join(", ")
                );
                self.warnings.push(message);
                // Its denials apply nevertheless.
                own.deny.extend(requested.deny.iter().cloned());
            }
        }
    }
}

/// Returns the limits of the first, and those of the second where the first has none.
pub fn merge_limits(first: &RequestedLimits, second: &RequestedLimits) -> RequestedLimits {
    RequestedLimits {
        timeout_ms: first.timeout_ms.or(second.timeout_ms),
        idle_timeout_ms: first.idle_timeout_ms.or(second.idle_timeout_ms),
        grace_ms: first.grace_ms.or(second.grace_ms),
        answer_timeout_ms: first.answer_timeout_ms.or(second.answer_timeout_ms),
        memory_bytes: first.memory_bytes.or(second.memory_bytes),
        cpu_ms: first.cpu_ms.or(second.cpu_ms),
        processes: first.processes.or(second.processes),
        open_files: first.open_files.or(second.open_files),
        file_bytes: first.file_bytes.or(second.file_bytes),
        output_bytes: first.output_bytes.or(second.output_bytes),
        depth: first.depth.or(second.depth),
        children: first.children.or(second.children),
        tree_runs: first.tree_runs.or(second.tree_runs),
        steps: first.steps.or(second.steps),
        tool_calls: first.tool_calls.or(second.tool_calls),
        tokens: first.tokens.or(second.tokens),
        answer_tokens: first.answer_tokens.or(second.answer_tokens),
        cost_microusd: first.cost_microusd.or(second.cost_microusd),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::{AgentFormat, AgentSource, Layer};
    use crate::permission::Level;
    use crate::setup::Fallback;

    fn agent() -> Agent {
        let source =
            AgentSource { file: "a.md".to_owned(), format: AgentFormat::Claude, layer: Layer::Project };
        let agent = Agent::new("reviewer".parse().unwrap(), "claude".parse().unwrap(), source);
        Agent { model: Some("opus".to_owned()), ..agent }
    }

    fn level(level: Level) -> Permission {
        Permission { level: Some(level), ..Permission::default() }
    }

    fn section(overlay: &Overlay, authority: Authority) -> Section<'_> {
        Section { overlay, name: "[agents.reviewer] of c.toml".to_owned(), authority }
    }

    #[test]
    fn a_section_for_the_name_overrides_the_file_and_one_for_the_backend_fills_it_in() {
        let own = Overlay {
            limits: RequestedLimits { timeout_ms: Some(5), ..RequestedLimits::default() },
            model: Some("haiku".to_owned()),
            ..Overlay::default()
        };
        let filled = Overlay {
            permission: level(Level::Yolo),
            model: Some("sonnet".to_owned()),
            limits: RequestedLimits { timeout_ms: Some(9), cpu_ms: Some(9), ..RequestedLimits::default() },
            max_turns: Some(3),
            ..Overlay::default()
        };
        let defaults = |_: &BackendName| {
            vec![Section { overlay: &filled, name: "d".to_owned(), authority: Authority::Widen }]
        };
        let settled = resolve_agent(agent(), &[section(&own, Authority::Widen)], defaults);
        assert_eq!(settled.agent.model.as_deref(), Some("haiku"));
        let limits = RequestedLimits { timeout_ms: Some(5), cpu_ms: Some(9), ..RequestedLimits::default() };
        assert_eq!((settled.agent.limits, settled.agent.setup.max_turns), (limits, Some(3)));
        assert_eq!(settled.agent.setup.permission, level(Level::Yolo));
        assert_eq!(settled.grants[0].widens, ["the level yolo"]);
        // An agent with a permission of its own keeps it.
        let mut careful = agent();
        careful.setup.permission = level(Level::ReadOnly);
        assert_eq!(resolve_agent(careful, &[], defaults).agent.setup.permission, level(Level::ReadOnly));
    }

    #[test]
    fn another_backend_drops_model_and_arguments_of_the_first() {
        let mut own = agent();
        own.setup.extra_args = vec!["--fast".to_owned()];
        let codex = Overlay { backend: Some("codex".parse().unwrap()), ..Overlay::default() };
        let settled = resolve_agent(own.clone(), &[section(&codex, Authority::Widen)], |backend| {
            assert_eq!(backend.as_str(), "codex");
            Vec::new()
        });
        assert_eq!((settled.agent.backend.as_str(), &settled.agent.model), ("codex", &None));
        assert_eq!(settled.agent.setup.extra_args, Vec::<String>::new());
        assert_eq!(settled.warnings.len(), 2, "{:?}", settled.warnings);
        let untrusted = resolve_agent(own.clone(), &[section(&codex, Authority::Narrow)], |_| Vec::new());
        assert_eq!(untrusted.agent, own);
        assert!(untrusted.warnings[0].contains("not trusted"), "{:?}", untrusted.warnings);
    }

    #[test]
    fn a_fallback_gets_the_defaults_of_its_own_backend() {
        let mut own = agent();
        let fallback = |backend: &str, model: Option<&str>| Fallback {
            backend: Some(backend.parse().unwrap()),
            model: model.map(ToOwned::to_owned),
            settings: None,
        };
        let weaker = Fallback { backend: None, model: Some("haiku".to_owned()), settings: None };
        own.setup.fallback = vec![weaker.clone(), fallback("codex", None), fallback("codex", Some("gpt"))];
        let claude = Overlay { permission: level(Level::Yolo), max_turns: Some(3), ..Overlay::default() };
        let codex = Overlay {
            permission: level(Level::ReadOnly),
            model: Some("small".to_owned()),
            limits: RequestedLimits { timeout_ms: Some(9), ..RequestedLimits::default() },
            ..Overlay::default()
        };
        let defaults = |backend: &BackendName| {
            let overlay = if backend.as_str() == "codex" { &codex } else { &claude };
            let name = format!("[defaults.{backend}] of c.toml");
            vec![Section { overlay, name, authority: Authority::Widen }]
        };
        let denies = Permission { deny: vec!["WebFetch".parse().unwrap()], ..Permission::default() };
        let named = Overlay { permission: denies.clone(), ..Overlay::default() };
        let settled = resolve_agent(own.clone(), &[section(&named, Authority::Widen)], defaults);
        let permission = |level| Permission { level: Some(level), ..denies.clone() };
        assert_eq!(settled.agent.setup.permission, permission(Level::Yolo));
        let read_only = FallbackSettings { permission: permission(Level::ReadOnly), max_turns: None };
        let expected =
            |model: &str| Fallback { settings: Some(read_only.clone()), ..fallback("codex", Some(model)) };
        assert_eq!(settled.agent.setup.fallback, [weaker, expected("small"), expected("gpt")]);
        assert_eq!(settled.agent.limits, RequestedLimits::default());
        assert!(
            settled.warnings[0].contains("on the fallback codex: read-only by [defaults.codex]"),
            "{:?}",
            settled.warnings
        );
        // A permission of the file applies to every backend.
        own.setup.permission = level(Level::SafeEdit);
        own.setup.max_turns = Some(2);
        let settled = resolve_agent(own, &[], defaults);
        assert!(settled.agent.setup.fallback.iter().all(|fallback| fallback.settings.is_none()));
    }

    #[test]
    fn narrowing_applies_to_every_backend() {
        let mut own = agent();
        let settings = FallbackSettings { permission: level(Level::Yolo), max_turns: None };
        let backend = Some("codex".parse().unwrap());
        own.setup.fallback = vec![Fallback { backend, model: None, settings: Some(settings) }];
        let mut settled = ResolvedAgent::without_config(own);
        let lost = settled.narrow(GrantSource::Parent, "its parent run".to_owned(), &level(Level::ReadOnly));
        assert_eq!(settled.agent.setup.permission, level(Level::ReadOnly));
        let other = settled.agent.setup.fallback[0].settings.as_ref().unwrap();
        assert_eq!(other.permission, level(Level::ReadOnly));
        assert_eq!((settled.grants.len(), lost.len()), (1, 2), "{lost:?}");
    }

    #[test]
    fn an_untrusted_section_only_narrows() {
        let wide = Overlay { permission: level(Level::Yolo), ..Overlay::default() };
        let settled = resolve_agent(agent(), &[section(&wide, Authority::Narrow)], |_| Vec::new());
        assert_eq!(settled.agent, agent());
        assert_eq!(
            settled.warnings,
            [
                "[agents.reviewer] of c.toml: permission is not applied: the level yolo, and the project is not trusted"
            ]
        );
        // Denials apply; settings that cost time or money do not.
        let rule = |text: &str| text.parse().unwrap();
        let mixed = Overlay {
            permission: Permission { deny: vec![rule("Bash")], ..level(Level::Yolo) },
            model: Some("opus-max".to_owned()),
            limits: RequestedLimits { timeout_ms: Some(u64::MAX), ..RequestedLimits::default() },
            max_turns: Some(100_000),
            ..Overlay::default()
        };
        let settled = resolve_agent(agent(), &[section(&mixed, Authority::Narrow)], |_| Vec::new());
        let mut expected = agent();
        expected.setup.permission.deny.push(rule("Bash"));
        assert_eq!((settled.agent, settled.warnings.len()), (expected, 2));
        let defaults = |_: &BackendName| {
            vec![Section { overlay: &mixed, name: "d".to_owned(), authority: Authority::Narrow }]
        };
        assert_eq!(resolve_agent(agent(), &[], defaults).agent.limits, RequestedLimits::default());
        let narrow = Overlay { permission: level(Level::ReadOnly), ..Overlay::default() };
        let settled = resolve_agent(agent(), &[section(&narrow, Authority::Narrow)], |_| Vec::new());
        assert_eq!(settled.agent.setup.permission, level(Level::ReadOnly));
        assert!(!narrow.may_widen() && wide.may_widen());
    }
}
