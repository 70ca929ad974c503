//! Several files may define an agent of one name. This says which one is used and why, in one line for each name, and how to
//! ask for another: `codex:reviewer` is the reviewer of the format codex.

use std::collections::BTreeMap;

use domain::agent::{Agent, Format, Layer, Source};
use domain::diagnostic::Diagnostic;
use domain::id::AgentName;

/// Agents whose plain name another file has, by `FORMAT:NAME`. Each carries that name, so that its runs and conversations are
/// its own.
pub(super) type Shadowed = BTreeMap<AgentName, Agent>;

/// The files of one name that are not used, in the order in which they were read: the strongest is last.
#[derive(Debug, Default)]
pub(super) struct Duplicates {
    unused: BTreeMap<AgentName, Vec<Source>>,
}

impl Duplicates {
    /// Notes an agent whose name a later file has, and keeps it under its longer name.
    pub(super) fn add(&mut self, mut agent: Agent, shadowed: &mut Shadowed) {
        self.unused.entry(agent.name.clone()).or_default().push(agent.source.clone());
        let Some(name) = with_format(agent.source.format, &agent.name) else { return };
        agent.name = name.clone();
        shadowed.insert(name, agent);
    }

    /// Returns a warning for each name that several files define.
    pub(super) fn report(self, used: &BTreeMap<AgentName, Agent>) -> Vec<Diagnostic> {
        let of_name = |(name, unused): (AgentName, Vec<Source>)| {
            let agent = used.get(&name)?;
            Some(warning(&name, &agent.source, &unused))
        };
        self.unused.into_iter().filter_map(of_name).collect()
    }
}

fn warning(name: &AgentName, used: &Source, unused: &[Source]) -> Diagnostic {
    let files: Vec<&str> = unused.iter().rev().map(|source| source.file.as_str()).collect();
    let reason = unused.last().map(|next| reason(used, next)).unwrap_or_default();
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

/// Says why one file comes before the next one.
fn reason(used: &Source, next: &Source) -> String {
    if used.layer != next.layer {
        return format!("{} come before {}", files_of(used.layer), files_of(next.layer));
    }
    if used.format != next.format {
        return format!("{} files come before {} files", used.format.as_str(), next.format.as_str());
    }
    "of one format the last file counts".to_owned()
}

fn files_of(layer: Layer) -> &'static str {
    match layer {
        Layer::Default => "the built-in agents",
        Layer::System => "the system's files",
        Layer::User => "the user's files",
        Layer::Project => "the project's files",
        Layer::Environment => "the files of a folder that a variable names",
        Layer::CommandLine => "the files of a folder on the command line",
    }
}

/// Returns the name that asks for the agent of one format.
pub(super) fn with_format(format: Format, name: &AgentName) -> Option<AgentName> {
    format!("{}:{name}", format.as_str()).parse().ok()
}

/// Returns the format and the rest of `FORMAT:NAME`.
/// Returns the plain name of an agent that carries `FORMAT:NAME` because another file has its name.
pub fn plain_name(agent: &Agent) -> Option<AgentName> {
    let (format, plain) = split_format(&agent.name)?;
    (format == agent.source.format).then_some(plain)
}

pub(super) fn split_format(name: &AgentName) -> Option<(Format, AgentName)> {
    let (format, rest) = name.as_str().split_once(':')?;
    Some((Format::from_word(format)?, rest.parse().ok()?))
}
