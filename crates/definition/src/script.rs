//! Rehearsal scripts: a YAML list of steps, each a map with one key that says what to do.

use domain::agent::{Script, Step};
use domain::diagnostic::Diagnostic;
use domain::nearest::nearest;

use crate::agent::read_agent_name;
use crate::text::{
    Bounds, Entry, Fields, Findings, Node, Place, Shape, YamlText, amount, duration_ms, list, quoted,
    read_yaml, relative_path, text, usd,
};
use crate::{FILE_BYTES_MAX, frontmatter};

/// The most steps of one script.
pub const STEPS_MAX: usize = 10_000;

const ACTIONS: [&str; 8] = ["say", "sleep", "write", "append", "ask", "delegate", "usage", "fail"];

/// Reads a script file: a list of steps, or a map with the list under `steps`. There is a script exactly if
/// no finding is an error.
pub fn read(source: &str, file: &str) -> (Option<Script>, Vec<Diagnostic>) {
    let source = frontmatter::normalize(source);
    let mut findings = Findings::new(file, &source);
    let script = read_document(&source, &mut findings).filter(|_| findings.errors() == 0);
    (script, findings.finish())
}

fn read_document(source: &str, findings: &mut Findings<'_>) -> Option<Script> {
    if source.len() > FILE_BYTES_MAX {
        findings.error(Place::START, format!("the script has more than {FILE_BYTES_MAX} bytes"));
        return None;
    }
    let node = read_yaml(YamlText { text: source, lines_before: 0 }, findings)?;
    let Shape::Map(_) = node.shape else { return Some(read_steps(&node, findings)) };
    let mut fields = Fields::open(&node, "", findings)?;
    let steps = fields.take("steps");
    fields.close(findings);
    match steps {
        Some(steps) => Some(read_steps(steps, findings)),
        None => {
            let hint = "write a list such as\n- say: Hello\n- sleep: 1s";
            findings.error_with_hint(node.place, "the script has no steps", hint);
            None
        }
    }
}

/// Reads a list of steps.
pub(crate) fn read_steps(node: &Node, findings: &mut Findings<'_>) -> Script {
    let Some(items) = list(node, "steps", findings) else { return Script::default() };
    if items.len() > STEPS_MAX {
        findings.error(node.place, format!("steps: {} steps are more than {STEPS_MAX}", items.len()));
        return Script::default();
    }
    Script { steps: items.iter().filter_map(|item| read_step(item, findings)).collect() }
}

fn read_step(node: &Node, findings: &mut Findings<'_>) -> Option<Step> {
    let entry = match &node.shape {
        Shape::Map(entries) => match entries.as_slice() {
            [entry] => entry,
            [] => {
                findings.error(node.place, "an empty step");
                return None;
            }
            [_, second, ..] => {
                let message = "a step has one key; write each step after its own dash";
                findings.error(second.place, message);
                return None;
            }
        },
        Shape::Nothing
        | Shape::Truth(_)
        | Shape::Integer(_)
        | Shape::Number(_)
        | Shape::Text(_)
        | Shape::Moment
        | Shape::List(_) => {
            let message = format!("expected a step, found {}", node.describe());
            findings.error_with_hint(node.place, message, "write for example - say: Hello");
            return None;
        }
    };
    read_action(entry, findings)
}

fn read_action(entry: &Entry, findings: &mut Findings<'_>) -> Option<Step> {
    let node = &entry.node;
    match entry.key.as_str() {
        "say" => text(node, "say", findings).map(Step::Say),
        "sleep" => duration_ms(node, "sleep", Bounds::from(0), findings).map(Step::Sleep),
        "write" => {
            let (path, text) = read_file_step(node, "write", findings)?;
            Some(Step::Write { path, text })
        }
        "append" => {
            let (path, text) = read_file_step(node, "append", findings)?;
            Some(Step::Append { path, text })
        }
        "ask" => text(node, "ask", findings).map(Step::Ask),
        "delegate" => read_delegate(node, findings),
        "usage" => read_usage(node, findings),
        "fail" => text(node, "fail", findings).map(Step::Fail),
        other => {
            let hint = match nearest(other, ACTIONS) {
                Some(action) => format!("did you mean {action}?"),
                None => format!("known steps: {}", ACTIONS.join(", ")),
            };
            // A step that is left out changes what the script does, so this is no mere warning.
            findings.error_with_hint(entry.place, format!("unknown step {}", quoted(other)), hint);
            None
        }
    }
}

/// Reads the file and the text of a step that writes.
fn read_file_step(node: &Node, action: &str, findings: &mut Findings<'_>) -> Option<(String, String)> {
    let mut fields = Fields::open(node, action, findings)?;
    let path = required(&mut fields, "path", findings)
        .and_then(|node| relative_path(node, &fields.name("path"), findings));
    // A file may well be empty or hold nothing but line breaks.
    let text = match fields.take("text") {
        None => Some(String::new()),
        Some(Node { shape: Shape::Text(text), .. }) => Some(text.clone()),
        Some(node) => text(node, &fields.name("text"), findings),
    };
    fields.close(findings);
    Some((path?, text?))
}

fn read_delegate(node: &Node, findings: &mut Findings<'_>) -> Option<Step> {
    let mut fields = Fields::open(node, "delegate", findings)?;
    let agent = required(&mut fields, "agent", findings)
        .and_then(|node| read_agent_name(node, "delegate.agent", findings));
    let prompt =
        required(&mut fields, "prompt", findings).and_then(|node| text(node, "delegate.prompt", findings));
    fields.close(findings);
    Some(Step::Delegate { agent: agent?, prompt: prompt? })
}

fn read_usage(node: &Node, findings: &mut Findings<'_>) -> Option<Step> {
    let mut fields = Fields::open(node, "usage", findings)?;
    let mut tokens = |key| match fields.take(key) {
        None => Some(0),
        Some(node) => amount(node, &fields.name(key), Bounds::from(0).up_to(1 << 50), findings),
    };
    let input_tokens = tokens("input_tokens");
    let output_tokens = tokens("output_tokens");
    let cost_microusd = match fields.take("cost_usd") {
        None => Some(None),
        Some(node) => usd(node, &fields.name("cost_usd"), findings).map(Some),
    };
    fields.close(findings);
    Some(Step::Usage {
        input_tokens: input_tokens?,
        output_tokens: output_tokens?,
        cost_microusd: cost_microusd?,
    })
}

fn required<'a>(fields: &mut Fields<'a>, key: &'static str, findings: &mut Findings<'_>) -> Option<&'a Node> {
    let node = fields.take(key);
    if node.is_none() {
        findings.error(fields.place, format!("the key {} is missing", fields.name(key)));
    }
    node
}
