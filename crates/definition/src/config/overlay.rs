//! `[agents.NAME]` and `[defaults.BACKEND]`: what the configuration says about agents whose files somebody else wrote.

use std::collections::BTreeMap;

use domain::budget::AskedLimits;
use domain::id::{AgentName, BackendName, IdError};
use domain::overlay::Overlay;

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
        let overlay = read_one(&entry.node, &within, kind, findings);
        if let (Ok(name), Some(overlay)) = (name, overlay) {
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

/// Names each limit with its value: trust is given to these words, so a changed value needs it again.
fn limits_in_words(limits: &AskedLimits) -> String {
    let limits = serde_json::json!(limits);
    let named = limits.as_object().into_iter().flatten().map(|(name, value)| format!(" {name} {value}"));
    format!("limits{}", named.collect::<String>())
}
