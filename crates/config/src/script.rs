//! Rehearsal scripts: a YAML list of steps, each a map with one key for the action.

use domain::agent::{RehearsalScript, RehearsalStep};
use domain::diagnostic::Diagnostic;
use domain::nearest::nearest;

use crate::agent_formats::read_agent_name;
use crate::text::{
    Bounds, Diagnostics, Fields, MapEntry, Node, NodeValue, SourceLocation, YamlText, quote,
    read_duration_ms, read_integer, read_list, read_relative_path, read_text, read_usd, read_yaml,
};
use crate::{FILE_BYTES_MAX, frontmatter};

/// The most steps of one script.
pub const STEPS_MAX: usize = 10_000;

const ACTIONS: [&str; 8] = ["say", "sleep", "write", "append", "ask", "delegate", "usage", "fail"];

/// Reads a script file: a list of steps, or a map with the list under `steps`. Returns `None`
/// exactly if there is an error.
pub fn read(source: &str, file: &str) -> (Option<RehearsalScript>, Vec<Diagnostic>) {
    let source = frontmatter::normalize(source);
    let mut diagnostics = Diagnostics::new(file, &source);
    let script = read_document(&source, &mut diagnostics).filter(|_| diagnostics.errors() == 0);
    (script, diagnostics.finish())
}

fn read_document(source: &str, diagnostics: &mut Diagnostics<'_>) -> Option<RehearsalScript> {
    if source.len() > FILE_BYTES_MAX {
        diagnostics.error(SourceLocation::START, format!("the script has more than {FILE_BYTES_MAX} bytes"));
        return None;
    }
    let node = read_yaml(YamlText { text: source, lines_before: 0 }, diagnostics)?;
    let NodeValue::Map(_) = node.value else { return Some(read_steps(&node, diagnostics)) };
    let mut fields = Fields::open(&node, "", diagnostics)?;
    let steps = fields.take("steps");
    fields.close(diagnostics);
    match steps {
        Some(steps) => Some(read_steps(steps, diagnostics)),
        None => {
            let hint = "write a list such as\n- say: Hello\n- sleep: 1s";
            diagnostics.error_with_hint(node.location, "the script has no steps", hint);
            None
        }
    }
}

/// Reads a list of steps.
pub(crate) fn read_steps(node: &Node, diagnostics: &mut Diagnostics<'_>) -> RehearsalScript {
    let Some(items) = read_list(node, "steps", diagnostics) else { return RehearsalScript::default() };
    if items.len() > STEPS_MAX {
        diagnostics.error(node.location, format!("steps: {} steps are more than {STEPS_MAX}", items.len()));
        return RehearsalScript::default();
    }
    RehearsalScript { steps: items.iter().filter_map(|item| read_step(item, diagnostics)).collect() }
}

fn read_step(node: &Node, diagnostics: &mut Diagnostics<'_>) -> Option<RehearsalStep> {
    let entry = match &node.value {
        NodeValue::Map(entries) => match entries.as_slice() {
            [entry] => entry,
            [] => {
                diagnostics.error(node.location, "an empty step");
                return None;
            }
            [_, second, ..] => {
                let message = "a step has one key; write each step after its own dash";
                diagnostics.error(second.location, message);
                return None;
            }
        },
        NodeValue::Null
        | NodeValue::Bool(_)
        | NodeValue::Integer(_)
        | NodeValue::Float(_)
        | NodeValue::String(_)
        | NodeValue::DateTime
        | NodeValue::List(_) => {
            let message = format!("expected a step, found {}", node.describe());
            diagnostics.error_with_hint(node.location, message, "write for example - say: Hello");
            return None;
        }
    };
    read_action(entry, diagnostics)
}

fn read_action(entry: &MapEntry, diagnostics: &mut Diagnostics<'_>) -> Option<RehearsalStep> {
    let node = &entry.node;
    match entry.key.as_str() {
        "say" => read_text(node, "say", diagnostics).map(RehearsalStep::Say),
        "sleep" => read_duration_ms(node, "sleep", Bounds::from(0), diagnostics).map(RehearsalStep::Sleep),
        "write" => {
            let (path, text) = read_file_step(node, "write", diagnostics)?;
            Some(RehearsalStep::Write { path, text })
        }
        "append" => {
            let (path, text) = read_file_step(node, "append", diagnostics)?;
            Some(RehearsalStep::Append { path, text })
        }
        "ask" => read_text(node, "ask", diagnostics).map(RehearsalStep::Ask),
        "delegate" => read_delegate(node, diagnostics),
        "usage" => read_usage(node, diagnostics),
        "fail" => read_text(node, "fail", diagnostics).map(RehearsalStep::Fail),
        other => {
            let hint = match nearest(other, ACTIONS) {
                Some(action) => format!("did you mean {action}?"),
                None => format!("known steps: {}", ACTIONS.join(", ")),
            };
            // Leaving out a step would change the script, so this is an error and not a warning.
            diagnostics.error_with_hint(entry.location, format!("unknown step {}", quote(other)), hint);
            None
        }
    }
}

/// Reads the file and the text of a step that writes.
fn read_file_step(node: &Node, action: &str, diagnostics: &mut Diagnostics<'_>) -> Option<(String, String)> {
    let mut fields = Fields::open(node, action, diagnostics)?;
    let path = take_required(&mut fields, "path", diagnostics)
        .and_then(|node| read_relative_path(node, &fields.name("path"), diagnostics));
    // A file may be empty or contain only line breaks.
    let text = match fields.take("text") {
        None => Some(String::new()),
        Some(Node { value: NodeValue::String(text), .. }) => Some(text.clone()),
        Some(node) => read_text(node, &fields.name("text"), diagnostics),
    };
    fields.close(diagnostics);
    Some((path?, text?))
}

fn read_delegate(node: &Node, diagnostics: &mut Diagnostics<'_>) -> Option<RehearsalStep> {
    let mut fields = Fields::open(node, "delegate", diagnostics)?;
    let agent = take_required(&mut fields, "agent", diagnostics)
        .and_then(|node| read_agent_name(node, "delegate.agent", diagnostics));
    let prompt = take_required(&mut fields, "prompt", diagnostics)
        .and_then(|node| read_text(node, "delegate.prompt", diagnostics));
    fields.close(diagnostics);
    Some(RehearsalStep::Delegate { agent: agent?, prompt: prompt? })
}

fn read_usage(node: &Node, diagnostics: &mut Diagnostics<'_>) -> Option<RehearsalStep> {
    let mut fields = Fields::open(node, "usage", diagnostics)?;
    let mut tokens = |key| match fields.take(key) {
        None => Some(0),
        Some(node) => read_integer(node, &fields.name(key), Bounds::from(0).up_to(1 << 50), diagnostics),
    };
    let input_tokens = tokens("input_tokens");
    let output_tokens = tokens("output_tokens");
    let cost_microusd = match fields.take("cost_usd") {
        None => Some(None),
        Some(node) => read_usd(node, &fields.name("cost_usd"), diagnostics).map(Some),
    };
    fields.close(diagnostics);
    Some(RehearsalStep::Usage {
        input_tokens: input_tokens?,
        output_tokens: output_tokens?,
        cost_microusd: cost_microusd?,
    })
}

fn take_required<'a>(
    fields: &mut Fields<'a>,
    key: &'static str,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<&'a Node> {
    let node = fields.take(key);
    if node.is_none() {
        diagnostics.error(fields.location, format!("the key {} is missing", fields.name(key)));
    }
    node
}
