//! `[agents.NAME]` and `[defaults.BACKEND]`: what the configuration says about agents whose files somebody else wrote.

use std::collections::BTreeMap;

use domain::budget::AskedLimits;
use domain::id::{AgentName, BackendName, IdError};
use domain::overlay::Overlay;
use domain::permission::{Level, Permission, Rule};

use super::ConfigLayer;
use super::read::sections;
use crate::agent::{read_backend, read_permission, read_word};
use crate::limits;
use crate::text::{Bounds, Fields, Findings, Node, amount, quoted};

/// Which of the two a section is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Agents,
    Defaults,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Agents => "agents",
            Self::Defaults => "defaults",
        }
    }

    /// Returns how people call those that a section is about.
    fn whom(self, name: &str) -> String {
        match self {
            Self::Agents => format!("agent {name}"),
            Self::Defaults => format!("agents of {name}"),
        }
    }
}

/// Reads every `[agents.NAME]`.
pub(super) fn read_agents(node: &Node, findings: &mut Findings<'_>) -> BTreeMap<AgentName, Overlay> {
    read_all(node, Kind::Agents, findings)
}

/// Reads every `[defaults.BACKEND]`.
pub(super) fn read_defaults(node: &Node, findings: &mut Findings<'_>) -> BTreeMap<BackendName, Overlay> {
    read_all(node, Kind::Defaults, findings)
}

fn read_all<N: std::str::FromStr<Err = IdError> + Ord>(
    node: &Node,
    kind: Kind,
    findings: &mut Findings<'_>,
) -> BTreeMap<N, Overlay> {
    let mut overlays = BTreeMap::new();
    for entry in sections(node, kind.word(), findings) {
        let name: Result<N, IdError> = entry.key.parse();
        if let Err(IdError { rule, .. }) = &name {
            let message = format!("{}: {} is not a name", kind.word(), quoted(&entry.key));
            findings.error_with_hint(entry.place, message, *rule);
        }
        let within = format!("{}.{}", kind.word(), domain::size::head(&entry.key, 64));
        let errors = findings.errors();
        let overlay = read_one(&entry.node, &within, kind, findings);
        // Nothing starts until an error is corrected, so the rest of its section is not in force either.
        if let (Ok(name), Some(overlay)) = (name, overlay)
            && findings.errors() == errors
        {
            overlays.insert(name, overlay);
        }
    }
    overlays
}

fn read_one(node: &Node, within: &str, kind: Kind, findings: &mut Findings<'_>) -> Option<Overlay> {
    let mut fields = Fields::open(node, within, findings)?;
    let backend = match kind {
        Kind::Agents => {
            fields.take("backend").and_then(|node| read_backend(node, &fields.name("backend"), findings))
        }
        Kind::Defaults => None,
    };
    let model = fields
        .take("model")
        .and_then(|node| read_word(node, &fields.name("model"), "the name of a model", findings));
    let permission = fields.take("permission");
    let permission = permission.map(|node| read_permission(node, &fields.name("permission"), findings));
    let times = limits::take_times(&mut fields, findings);
    let limits = match fields.take("limits") {
        Some(node) => {
            let within = limits::read(node, &fields.name("limits"), findings);
            domain::overlay::limits_over(&times, &within)
        }
        None => times,
    };
    let turns = fields.take("max_turns");
    let turns = turns.and_then(|node| {
        amount(node, &fields.name("max_turns"), Bounds::from(1).up_to(u32::MAX.into()), findings)
    });
    if let Some(node) = fields.take("budget") {
        let message = format!(
            "{}: a budget in money cannot be enforced, so the section is refused",
            fields.name("budget")
        );
        findings.error_with_hint(node.place, message, "bound the work instead: timeout, limits, max_turns");
    }
    fields.close(findings);
    let max_turns = turns.and_then(|turns| u32::try_from(turns).ok());
    Some(Overlay { backend, model, permission: permission.unwrap_or_default(), limits, max_turns })
}

/// Returns a section in a line.
pub(super) fn in_words(overlay: &Overlay) -> String {
    let Overlay { backend, model, permission, limits, max_turns } = overlay;
    let words = [
        backend.as_ref().map(|backend| format!("backend {backend}")),
        model.as_ref().map(|model| format!("model {}", one_word(model))),
        (!permission.is_empty()).then(|| format!("permission {}", permission.as_asked())),
        (*limits != AskedLimits::default()).then(|| limits_in_words(limits)),
        max_turns.map(|turns| format!("max_turns {turns}")),
    ];
    words.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Returns a name, in quotes if it could be taken for more than a name.
fn one_word(name: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/@".contains(&byte);
    if name.bytes().all(is_plain) { name.to_owned() } else { format!("{name:?}") }
}

/// A part of a section that may allow an agent more than its own file does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Widening {
    /// Whom the section is about: `agent dev`, `agents of claude`.
    pub whom: String,
    /// The part as it is written, in words.
    pub says: String,
    /// What it would do.
    pub why: String,
    /// Where it is written, outermost name first.
    pub path: Vec<String>,
}

/// Returns every part of the sections of a layer that may allow more. `executables` names the same sections.
pub fn widenings(layer: &ConfigLayer) -> Vec<Widening> {
    let named = layer.agents.iter();
    let named = named.map(|(name, overlay)| (Kind::Agents, name.to_string(), overlay));
    let defaults = layer.defaults.iter();
    let defaults = defaults.map(|(name, overlay)| (Kind::Defaults, name.to_string(), overlay));
    named.chain(defaults).flat_map(|(kind, name, overlay)| widenings_of(kind, &name, overlay)).collect()
}

fn widenings_of(kind: Kind, name: &str, overlay: &Overlay) -> Vec<Widening> {
    let Overlay { backend, model, permission, limits, max_turns } = overlay;
    let whom = kind.whom(name);
    let one = |key: &str, says: String, why: String| Widening {
        whom: whom.clone(),
        says,
        why,
        path: [kind.word(), name, key].map(ToOwned::to_owned).to_vec(),
    };
    let mut found = Vec::new();
    if let Some(backend) = backend {
        let why = format!("it would have {whom} run by {backend} instead of what the agent's file names");
        found.push(one("backend", format!("backend {backend}"), why));
    }
    if let Some(model) = model {
        let why = format!("it would choose the model of {whom}, which may cost more");
        found.push(one("model", format!("model {model}"), why));
    }
    if let Some(why) = allowed(&whom, permission) {
        found.push(one("permission", format!("permission {}", permission.as_asked()), why));
    }
    let raises = || format!("it would raise what {whom} may use if it is more than your own limits allow");
    if *limits != AskedLimits::default() {
        found.push(one("limits", limits_in_words(limits), raises()));
    }
    if let Some(turns) = max_turns {
        found.push(one("max_turns", format!("max_turns {turns}"), raises()));
    }
    found
}

/// Says what a permission would allow; nothing if it only narrows.
fn allowed(whom: &str, permission: &Permission) -> Option<String> {
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
    (!all.is_empty()).then(|| format!("it would allow {whom} {}", all.join("; ")))
}

/// Names each limit with its value: trust is given to these words, so a changed value needs it again.
fn limits_in_words(limits: &AskedLimits) -> String {
    let limits = serde_json::json!(limits);
    let named = limits.as_object().into_iter().flatten().map(|(name, value)| format!(" {name} {value}"));
    format!("limits{}", named.collect::<String>())
}
