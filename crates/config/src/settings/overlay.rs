//! `[agents.NAME]` and `[defaults.BACKEND]`: the configuration of agents whose files somebody else wrote.

use std::collections::BTreeMap;

use domain::budget::RequestedLimits;
use domain::id::{AgentName, BackendName, IdError};
use domain::overlay::Overlay;
use domain::permission::{Level, Permission, Rule};

use super::ConfigLayer;
use super::read::sections;
use crate::agent_formats::{read_backend, read_permission, read_word};
use crate::limits;
use crate::text::{Bounds, Diagnostics, Fields, Node, quote, read_integer};

/// The kind of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SectionKind {
    Agents,
    Defaults,
}

impl SectionKind {
    fn key(self) -> &'static str {
        match self {
            Self::Agents => "agents",
            Self::Defaults => "defaults",
        }
    }

    /// Returns the agents of a section, for display.
    fn subject(self, name: &str) -> String {
        match self {
            Self::Agents => format!("agent {name}"),
            Self::Defaults => format!("agents of {name}"),
        }
    }
}

/// Reads every `[agents.NAME]`.
pub(super) fn read_agents(node: &Node, diagnostics: &mut Diagnostics<'_>) -> BTreeMap<AgentName, Overlay> {
    read_sections(node, SectionKind::Agents, diagnostics)
}

/// Reads every `[defaults.BACKEND]`.
pub(super) fn read_defaults(
    node: &Node,
    diagnostics: &mut Diagnostics<'_>,
) -> BTreeMap<BackendName, Overlay> {
    read_sections(node, SectionKind::Defaults, diagnostics)
}

fn read_sections<N: std::str::FromStr<Err = IdError> + Ord>(
    node: &Node,
    kind: SectionKind,
    diagnostics: &mut Diagnostics<'_>,
) -> BTreeMap<N, Overlay> {
    let mut overlays = BTreeMap::new();
    for entry in sections(node, kind.key(), diagnostics) {
        let name: Result<N, IdError> = entry.key.parse();
        if let Err(IdError { rule, .. }) = &name {
            let message = format!("{}: {} is not a name", kind.key(), quote(&entry.key));
            diagnostics.error_with_hint(entry.location, message, *rule);
        }
        let within = format!("{}.{}", kind.key(), domain::size::head(&entry.key, 64));
        let errors = diagnostics.errors();
        let overlay = read_section(&entry.node, &within, kind, diagnostics);
        // Nothing starts until an error is corrected, so the rest of its section is not in force either.
        if let (Ok(name), Some(overlay)) = (name, overlay)
            && diagnostics.errors() == errors
        {
            overlays.insert(name, overlay);
        }
    }
    overlays
}

fn read_section(
    node: &Node,
    within: &str,
    kind: SectionKind,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<Overlay> {
    let mut fields = Fields::open(node, within, diagnostics)?;
    let backend = match kind {
        SectionKind::Agents => {
            fields.take("backend").and_then(|node| read_backend(node, &fields.name("backend"), diagnostics))
        }
        SectionKind::Defaults => None,
    };
    let model = fields
        .take("model")
        .and_then(|node| read_word(node, &fields.name("model"), "the name of a model", diagnostics));
    let permission = fields.take("permission");
    let permission = permission.map(|node| read_permission(node, &fields.name("permission"), diagnostics));
    let times = limits::take_times(&mut fields, diagnostics);
    let limits = match fields.take("limits") {
        Some(node) => {
            let within = limits::read(node, &fields.name("limits"), diagnostics);
            domain::overlay::merge_limits(&times, &within)
        }
        None => times,
    };
    let turns = fields.take("max_turns");
    let turns = turns.and_then(|node| {
        read_integer(node, &fields.name("max_turns"), Bounds::from(1).up_to(u32::MAX.into()), diagnostics)
    });
    if let Some(node) = fields.take("budget") {
        let message = format!(
            "{}: a budget in money cannot be enforced, so the section is refused",
            fields.name("budget")
        );
        diagnostics.error_with_hint(
            node.location,
            message,
            "bound the work instead: timeout, limits, max_turns",
        );
    }
    fields.close(diagnostics);
    let max_turns = turns.and_then(|turns| u32::try_from(turns).ok());
    Some(Overlay { backend, model, permission: permission.unwrap_or_default(), limits, max_turns })
}

/// Describes a section in a line.
pub(super) fn describe_overlay(overlay: &Overlay) -> String {
    let Overlay { backend, model, permission, limits, max_turns } = overlay;
    let words = [
        backend.as_ref().map(|backend| format!("backend {backend}")),
        model.as_ref().map(|model| format!("model {}", quote_if_needed(model))),
        (!permission.is_empty()).then(|| format!("permission {}", permission.layer_summary())),
        (*limits != RequestedLimits::default()).then(|| describe_limits(limits)),
        max_turns.map(|turns| format!("max_turns {turns}")),
    ];
    words.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Returns a name, in quotes if it could be read as more than a name.
fn quote_if_needed(name: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/@".contains(&byte);
    if name.bytes().all(is_plain) { name.to_owned() } else { format!("{name:?}") }
}

/// A setting of a section that may allow an agent more than its own file does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Widening {
    /// The agents of the section: `agent dev`, `agents of claude`.
    pub subject: String,
    /// The setting, described.
    pub setting: String,
    /// Its effect.
    pub effect: String,
    /// Its path in the file, outermost key first.
    pub path: Vec<String>,
}

/// Returns every setting of a layer's sections that may allow more. `executables` lists the same sections.
pub fn widenings(layer: &ConfigLayer) -> Vec<Widening> {
    let named = layer.agents.iter();
    let named = named.map(|(name, overlay)| (SectionKind::Agents, name.to_string(), overlay));
    let defaults = layer.defaults.iter();
    let defaults = defaults.map(|(name, overlay)| (SectionKind::Defaults, name.to_string(), overlay));
    named.chain(defaults).flat_map(|(kind, name, overlay)| overlay_widenings(kind, &name, overlay)).collect()
}

fn overlay_widenings(kind: SectionKind, name: &str, overlay: &Overlay) -> Vec<Widening> {
    let Overlay { backend, model, permission, limits, max_turns } = overlay;
    let subject = kind.subject(name);
    let one = |key: &str, says: String, why: String| Widening {
        subject: subject.clone(),
        setting: says,
        effect: why,
        path: [kind.key(), name, key].map(ToOwned::to_owned).to_vec(),
    };
    let mut widenings = Vec::new();
    if let Some(backend) = backend {
        let why = format!("it would have {subject} run by {backend} instead of what the agent's file names");
        widenings.push(one("backend", format!("backend {backend}"), why));
    }
    if let Some(model) = model {
        let why = format!("it would choose the model of {subject}, which may cost more");
        widenings.push(one("model", format!("model {model}"), why));
    }
    if let Some(why) = describe_allowed(&subject, permission) {
        widenings.push(one("permission", format!("permission {}", permission.layer_summary()), why));
    }
    let raises = || format!("it would raise what {subject} may use if it is more than your own limits allow");
    if *limits != RequestedLimits::default() {
        widenings.push(one(limits_key(limits), describe_limits(limits), raises()));
    }
    if let Some(turns) = max_turns {
        widenings.push(one("max_turns", format!("max_turns {turns}"), raises()));
    }
    widenings
}

/// Returns the key of the first limit in its section: times are keys of the section itself.
fn limits_key(limits: &RequestedLimits) -> &'static str {
    let times = [
        ("timeout", limits.timeout_ms),
        ("idle_timeout", limits.idle_timeout_ms),
        ("grace", limits.grace_ms),
        ("answer_timeout", limits.answer_timeout_ms),
    ];
    times.into_iter().find(|(_, limit)| limit.is_some()).map_or("limits", |(key, _)| key)
}

/// Describes what a permission would allow; `None` if it only narrows.
fn describe_allowed(subject: &str, permission: &Permission) -> Option<String> {
    let rules = |rules: &[Rule]| rules.iter().map(Rule::spelling).collect::<Vec<_>>().join(", ");
    let level = match permission.level {
        Some(Level::Yolo) => Some("everything, without asking".to_owned()),
        Some(Level::SafeEdit) => Some("to edit files in its directory, without asking".to_owned()),
        Some(Level::ReadOnly) | None => None,
    };
    let allow =
        (!permission.allow.is_empty()).then(|| format!("{}, without asking", rules(&permission.allow)));
    let ask = (!permission.ask.is_empty()).then(|| format!("{}, after asking", rules(&permission.ask)));
    let all: Vec<String> = [level, allow, ask].into_iter().flatten().collect();
    (!all.is_empty()).then(|| format!("it would allow {subject} {}", all.join("; ")))
}

/// Describes each limit with its value: trust depends on this text, so a changed value needs it again.
fn describe_limits(limits: &RequestedLimits) -> String {
    let limits = serde_json::json!(limits);
    let named = limits.as_object().into_iter().flatten().map(|(name, value)| format!(" {name} {value}"));
    format!("limits{}", named.collect::<String>())
}
