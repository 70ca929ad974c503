//! Several files may define an agent with the same name. This module reports which one is used and why, in one line
//! for each name, and how to select another: `codex:reviewer` is the reviewer of the format codex.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::agent::{Agent, AgentFormat, AgentSource, Layer};
use domain::diagnostic::Diagnostic;
use domain::id::AgentName;

/// Agents whose plain name another file has, by `FORMAT:NAME`. Each carries that name, so that its runs and sessions
/// are its own.
pub(super) type Shadowed = BTreeMap<AgentName, Arc<Agent>>;

/// The unused files of each name, in the order in which they were read: the strongest is last.
#[derive(Debug, Default)]
pub(super) struct Duplicates {
    unused: BTreeMap<AgentName, Vec<AgentSource>>,
}

impl Duplicates {
    /// Records an agent whose name a later file has, and stores it under its longer name.
    pub(super) fn add(&mut self, mut agent: Arc<Agent>, shadowed: &mut Shadowed) {
        self.unused.entry(agent.name.clone()).or_default().push(agent.source.clone());
        let Some(name) = with_format(agent.source.format, &agent.name) else { return };
        Arc::make_mut(&mut agent).name = name.clone();
        shadowed.insert(name, agent);
    }

    /// Returns a warning for each name that several files define.
    pub(super) fn report(self, used: &BTreeMap<AgentName, Arc<Agent>>) -> Vec<Diagnostic> {
        let warning_for = |(name, unused): (AgentName, Vec<AgentSource>)| {
            let agent = used.get(&name)?;
            Some(warning(&name, &agent.source, &unused))
        };
        self.unused.into_iter().filter_map(warning_for).collect()
    }
}

fn warning(name: &AgentName, used: &AgentSource, unused: &[AgentSource]) -> Diagnostic {
    let files: Vec<&str> = unused.iter().rev().map(|source| source.file.as_str()).collect();
    let reason = unused.last().map(|next| precedence_reason(used, next)).unwrap_or_default();
    let message = format!(
        "{} files define the agent {name}; this one is used, because {reason}; not used: {}",
        unused.len() + 1,
        files.join(", ")
    );
    let mut others: Vec<String> = Vec::new();
    for source in unused.iter().rev().filter(|source| source.format != used.format) {
        let other = format!("{}:{name}", source.format.as_str());
        if !others.contains(&other) {
            others.push(other);
        }
    }
    let finding = Diagnostic::warning(&used.file, message);
    match others.is_empty() {
        true => finding,
        false => finding.hint(format!("ask for {} to use another one", others.join(" or "))),
    }
}

/// Explains why one file comes before the next one.
fn precedence_reason(used: &AgentSource, next: &AgentSource) -> String {
    if used.layer != next.layer {
        return format!("{} come before {}", layer_description(used.layer), layer_description(next.layer));
    }
    if used.format != next.format {
        return format!("{} files come before {} files", used.format.as_str(), next.format.as_str());
    }
    "of one format the last file counts".to_owned()
}

fn layer_description(layer: Layer) -> &'static str {
    match layer {
        Layer::Default => "the built-in agents",
        Layer::System => "the system's files",
        Layer::User => "the user's files",
        Layer::Project => "the project's files",
        Layer::Environment => "the files of a folder that a variable names",
        Layer::CommandLine => "the files of a folder on the command line",
    }
}

/// Returns the name that selects the agent of one format.
pub(super) fn with_format(format: AgentFormat, name: &AgentName) -> Option<AgentName> {
    format!("{}:{name}", format.as_str()).parse().ok()
}

/// Returns the plain name of an agent that carries `FORMAT:NAME` because another file has its name.
pub fn plain_name(agent: &Agent) -> Option<AgentName> {
    let (format, plain) = split_format(&agent.name)?;
    (format == agent.source.format).then_some(plain)
}

/// Splits `FORMAT:NAME` into the format and the rest.
pub(super) fn split_format(name: &AgentName) -> Option<(AgentFormat, AgentName)> {
    let (format, rest) = name.as_str().split_once(':')?;
    Some((AgentFormat::parse(format)?, rest.parse().ok()?))
}
