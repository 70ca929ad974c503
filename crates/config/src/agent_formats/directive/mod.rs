//! Directives: procedures for a model with declared tools, permissions and limits. Three systems write them in
//! different shapes: Kiwi in XML, Rye in XML with the procedure after it, RyeOS with YAML frontmatter.
//!
//! Whatever a file says becomes a field, stays in the instructions, or is reported.

mod draft;
mod instructions;
mod limits;
mod locate;
mod model;
mod permissions;
mod procedure;
mod rye_items;
mod sections;
mod tools;
mod words;
mod xml;
mod xml_reader;
mod yaml_reader;

use domain::agent::{Agent, AgentFormat};
use domain::diagnostic::Diagnostic;

use self::draft::DirectiveDraft;
use super::AgentFile;
use super::shared_keys::{name_from_path, new_agent};
use crate::FILE_BYTES_MAX;
use crate::frontmatter;
use crate::text::{Diagnostics, SourceLocation};

/// The backend that a directive needs.
const BACKEND: &str = "loop";

/// Returns whether a text contains a directive, also one that cannot be read. Folders of directives also hold notes.
pub fn is_directive(text: &str) -> bool {
    let text = frontmatter::normalize(text);
    locate::has_frontmatter(&text) || locate::block_start(&text).is_some()
}

/// Reads a directive. Returns `None` exactly if there is an error. The file's stem is its path below the folder of
/// directives, which is its name: several folders may hold files of one name.
pub fn read(agent_file: AgentFile<'_>) -> (Option<Agent>, Vec<Diagnostic>) {
    let text = frontmatter::normalize(agent_file.text);
    let mut diagnostics = Diagnostics::new(agent_file.file, &text);
    let agent = read_directive(&text, agent_file, &mut diagnostics);
    let agent = agent.filter(|_| diagnostics.errors() == 0);
    (agent, diagnostics.finish())
}

fn read_directive(text: &str, agent_file: AgentFile<'_>, diagnostics: &mut Diagnostics<'_>) -> Option<Agent> {
    if text.len() > FILE_BYTES_MAX {
        diagnostics.error(SourceLocation::START, format!("the file has more than {FILE_BYTES_MAX} bytes"));
        return None;
    }
    if text.contains('\0') {
        diagnostics.error(SourceLocation::START, "the file contains a NUL character");
        return None;
    }
    let stem = agent_file.stem;
    let name = name_from_path(stem, stem, SourceLocation::START, diagnostics);
    let mut draft = DirectiveDraft::new(agent_file.file, diagnostics);
    let is_read = match (locate::has_frontmatter(text), locate::block_start(text)) {
        (true, _) => yaml_reader::read_frontmatter(text, stem, &mut draft),
        (false, Some(start)) => xml_reader::read_block(text, start, stem, &mut draft),
        (false, None) => {
            let hint = "write <directive name=\"NAME\" version=\"1.0.0\">…</directive>";
            draft.diagnostics.error_with_hint(SourceLocation::START, "the file has no <directive>", hint);
            false
        }
    };
    if is_read {
        check(&mut draft);
    }
    let DirectiveDraft { description, tags, inputs, directive, .. } = draft;
    let mut agent = new_agent(name, BACKEND, AgentFormat::Directive, agent_file);
    (agent.description, agent.tags, agent.inputs) = (description, tags, inputs);
    agent.model.clone_from(&directive.model.id);
    agent.system_prompt.clone_from(&directive.instructions);
    agent.directive = Some(Box::new(directive));
    is_read.then_some(agent)
}

/// Reports what every directive needs.
fn check(draft: &mut DirectiveDraft<'_, '_>) {
    if draft.description.is_empty() {
        let hint = "callers choose a directive by its description";
        draft.diagnostics.warning_with_hint(SourceLocation::START, "the directive has no description", hint);
    }
    if draft.directive.instructions.trim().is_empty() {
        draft.diagnostics.error(SourceLocation::START, "the directive has no instructions");
    }
}

#[cfg(test)]
mod tests;
