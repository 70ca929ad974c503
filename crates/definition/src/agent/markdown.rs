//! Markdown with YAML frontmatter, which most formats are: opens the file, hands the keys to the format's reader,
//! and puts the body into the agent as its system prompt.

use domain::agent::{Agent, Format};
use domain::diagnostic::Diagnostic;

use super::AgentFile;
use crate::FILE_BYTES_MAX;
use crate::frontmatter::{self, Missing};
use crate::text::{Fields, Findings, Node, Place, Shape, YamlText, read_yaml};

/// What a format says about frontmatter.
#[derive(Debug, Clone, Copy)]
pub(super) enum Frontmatter {
    /// A file without it is wrong; the hint says how to begin one.
    Required { hint: &'static str },
    /// Without it the whole file is the system prompt.
    Optional,
}

/// Reads a file of a format: `read` gets the keys, and takes those it knows.
pub(super) fn read(
    agent_file: AgentFile<'_>,
    format: Format,
    frontmatter: Frontmatter,
    read: impl FnOnce(Fields<'_>, AgentFile<'_>, &mut Findings<'_>) -> Option<Agent>,
) -> (Option<Agent>, Vec<Diagnostic>) {
    let (agent, found) = draft(agent_file, format, frontmatter, read);
    (agent.filter(|_| !found.iter().any(Diagnostic::is_error)), found)
}

/// Reads the same, and returns what could be read also where something is wrong.
pub(super) fn draft(
    agent_file: AgentFile<'_>,
    format: Format,
    frontmatter: Frontmatter,
    read: impl FnOnce(Fields<'_>, AgentFile<'_>, &mut Findings<'_>) -> Option<Agent>,
) -> (Option<Agent>, Vec<Diagnostic>) {
    let text = frontmatter::normalize(agent_file.text);
    let mut findings = Findings::new(agent_file.file, &text);
    let opened = open(&text, frontmatter, &mut findings);
    let agent = opened.and_then(|(node, body)| {
        if let (Format::Gemini, Shape::List(_)) = (format, &node.shape) {
            let hint =
                "give each agent that shall be run a file of its own, with kind: local and a system prompt";
            findings.error_with_hint(node.place, "a list is for remote agents, which cannot be run", hint);
            return None;
        }
        let fields = Fields::open(&node, "", &mut findings)?;
        let mut agent = read(fields, agent_file, &mut findings)?;
        body.trim().clone_into(&mut agent.system_prompt);
        agent.source = agent_file.source(format);
        Some(agent)
    });
    (agent, findings.finish())
}

/// Returns the tree of the frontmatter and the body.
fn open<'a>(text: &'a str, frontmatter: Frontmatter, findings: &mut Findings<'_>) -> Option<(Node, &'a str)> {
    if text.len() > FILE_BYTES_MAX {
        findings.error(Place::START, format!("the file has more than {FILE_BYTES_MAX} bytes"));
        return None;
    }
    let empty = |line| Node { place: Place { line, column: 1 }, shape: Shape::Map(Vec::new()) };
    let parts = match (frontmatter::split(text), frontmatter) {
        (Ok(parts), _) => parts,
        (Err(Missing::Begin), Frontmatter::Optional) => {
            check_body(text, findings);
            return Some((empty(1), text));
        }
        (Err(Missing::Begin), Frontmatter::Required { hint }) => {
            findings.error_with_hint(Place::START, "the file has no frontmatter", hint);
            return None;
        }
        (Err(Missing::End), _) => {
            let hint = "put a line with only --- between the frontmatter and the system prompt";
            findings.error_with_hint(Place::START, "the frontmatter has no end", hint);
            return None;
        }
    };
    check_body(parts.body, findings);
    let mut node = read_yaml(YamlText { text: parts.yaml, lines_before: parts.lines_before }, findings)?;
    if node.shape == Shape::Nothing {
        node = empty(parts.lines_before);
    }
    Some((node, parts.body))
}

fn check_body(body: &str, findings: &mut Findings<'_>) {
    if body.contains('\0') {
        findings.error(Place::START, "the system prompt contains a NUL character");
    }
}
