//! Markdown with YAML frontmatter, which most formats use: splits the file, passes the keys to the format's reader,
//! and stores the body as the system prompt.

use domain::agent::{Agent, AgentFormat};
use domain::diagnostic::Diagnostic;

use super::AgentFile;
use crate::FILE_BYTES_MAX;
use crate::frontmatter::{self, Missing};
use crate::text::{Diagnostics, Fields, Node, NodeValue, SourceLocation, YamlText, read_yaml};

/// Whether a format needs frontmatter.
#[derive(Debug, Clone, Copy)]
pub(super) enum Frontmatter {
    /// A file without it is an error; the hint shows how to begin one.
    Required { hint: &'static str },
    /// Without it the whole file is the system prompt.
    Optional,
}

/// Reads a file of a format: `read` takes the keys that it knows.
pub(super) fn read(
    agent_file: AgentFile<'_>,
    format: AgentFormat,
    frontmatter: Frontmatter,
    read: impl FnOnce(Fields<'_>, AgentFile<'_>, &mut Diagnostics<'_>) -> Option<Agent>,
) -> (Option<Agent>, Vec<Diagnostic>) {
    let (agent, diagnostics) = draft(agent_file, format, frontmatter, read);
    (agent.filter(|_| !diagnostics.iter().any(Diagnostic::is_error)), diagnostics)
}

/// Reads the same, and returns the readable part also if there are errors.
pub(super) fn draft(
    agent_file: AgentFile<'_>,
    format: AgentFormat,
    frontmatter: Frontmatter,
    read: impl FnOnce(Fields<'_>, AgentFile<'_>, &mut Diagnostics<'_>) -> Option<Agent>,
) -> (Option<Agent>, Vec<Diagnostic>) {
    let text = frontmatter::normalize(agent_file.text);
    let mut diagnostics = Diagnostics::new(agent_file.file, &text);
    let opened = open(&text, frontmatter, &mut diagnostics);
    let agent = opened.and_then(|(node, body)| {
        if let (AgentFormat::Gemini, NodeValue::List(_)) = (format, &node.value) {
            let hint =
                "give each agent that shall be run a file of its own, with kind: local and a system prompt";
            diagnostics.error_with_hint(
                node.location,
                "a list is for remote agents, which cannot be run",
                hint,
            );
            return None;
        }
        let fields = Fields::open(&node, "", &mut diagnostics)?;
        let mut agent = read(fields, agent_file, &mut diagnostics)?;
        body.trim().clone_into(&mut agent.system_prompt);
        agent.source = agent_file.source(format);
        Some(agent)
    });
    (agent, diagnostics.finish())
}

/// Returns the tree of the frontmatter and the body.
fn open<'a>(
    text: &'a str,
    frontmatter: Frontmatter,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<(Node, &'a str)> {
    if text.len() > FILE_BYTES_MAX {
        diagnostics.error(SourceLocation::START, format!("the file has more than {FILE_BYTES_MAX} bytes"));
        return None;
    }
    let empty =
        |line| Node { location: SourceLocation { line, column: 1 }, value: NodeValue::Map(Vec::new()) };
    let parts = match (frontmatter::split(text), frontmatter) {
        (Ok(parts), _) => parts,
        (Err(Missing::Begin), Frontmatter::Optional) => {
            check_body(text, diagnostics);
            return Some((empty(1), text));
        }
        (Err(Missing::Begin), Frontmatter::Required { hint }) => {
            diagnostics.error_with_hint(SourceLocation::START, "the file has no frontmatter", hint);
            return None;
        }
        (Err(Missing::End), _) => {
            let hint = "put a line with only --- between the frontmatter and the system prompt";
            diagnostics.error_with_hint(SourceLocation::START, "the frontmatter has no end", hint);
            return None;
        }
    };
    check_body(parts.body, diagnostics);
    let mut node = read_yaml(YamlText { text: parts.yaml, lines_before: parts.lines_before }, diagnostics)?;
    if node.value == NodeValue::Null {
        node = empty(parts.lines_before);
    }
    Some((node, parts.body))
}

fn check_body(body: &str, diagnostics: &mut Diagnostics<'_>) {
    if body.contains('\0') {
        diagnostics.error(SourceLocation::START, "the system prompt contains a NUL character");
    }
}
