//! Every free text in an event, for the redactor and for cutting.
//!
//! Works on the value and not on its JSON, so that a secret that happens to spell `succeeded` or a member's name
//! cannot make the line unreadable. Names of variants and fields, ids and times are not texts.

use domain::run::{Cause, CommandExit, Containment, Ending, Event, Failure, FileChange, Outcome, ResultText};
use serde_json::Value;

/// Changes each free text of the event.
pub(crate) fn change(event: &mut Event, each: &mut dyn FnMut(&mut String)) {
    match event {
        Event::Claimed { version: text, .. }
        | Event::Said { text }
        | Event::CallCompleted { output: text, .. }
        | Event::Asked { text, .. }
        | Event::LimitPassed { detail: text, .. }
        | Event::StopAsked { because: text, .. }
        | Event::ModelNamed { model: text }
        | Event::ResultSubmitted { text }
        | Event::Warned { message: text } => each(text),
        Event::ToolCalled { id, name, input } => {
            each(id);
            each(name);
            change_value(input, each);
        }
        Event::ToolReturned { id, ok: _, output } => {
            each(id);
            each(output);
        }
        Event::AttemptBegan { because, backend, model, choice: _, conversation: _, asked: _ } => {
            each(because);
            each(backend);
            model.iter_mut().for_each(each);
        }
        Event::AgentStarted { pid: _, argv, containment } => {
            argv.iter_mut().for_each(&mut *each);
            let Containment { missing, cgroup: _, tags: _, limits: _, .. } = containment;
            missing.iter_mut().for_each(each);
        }
        Event::AcceptanceStarted { number: _, pid: _, argv } => argv.iter_mut().for_each(each),
        Event::AcceptanceEnded { number: _, exit, duration_ms: _, output } => {
            each(output);
            if let CommandExit::NotStarted(reason) = exit {
                each(reason);
            }
        }
        Event::CallRequested { name, input, .. } => {
            each(name);
            change_value(input, each);
        }
        Event::Answered { question: _, allowed: _, text, by } => {
            each(text);
            each(by);
        }
        Event::CancelAsked { by, reason } => {
            each(by);
            each(reason);
        }
        Event::FilesChanged { changes } => {
            for file in &mut changes.files {
                each(&mut file.path);
                if let FileChange::Renamed { from } = &mut file.change {
                    each(from);
                }
            }
        }
        Event::Ended { ending } => change_ending(ending, each),
        // Whoever clears up after a run must find its work tree by these.
        Event::WorktreeBegun { .. } | Event::WorktreeEnded { .. } => {}
        Event::Queued { .. }
        | Event::SessionAwaited { .. }
        | Event::SlotTaken { .. }
        | Event::CallInDoubt { .. }
        | Event::Used { .. }
        | Event::SessionNamed { .. }
        | Event::OutputTruncated { .. }
        | Event::DoorLeft { .. }
        | Event::ChildStarted { .. }
        | Event::ChildEnded { .. } => {}
    }
}

/// Returns how deep a value is nested: 0 for a plain one.
pub(crate) fn depth(value: &Value, max: usize) -> usize {
    match value {
        Value::Array(_) | Value::Object(_) if max == 0 => 1,
        Value::Array(items) => 1 + items.iter().map(|item| depth(item, max - 1)).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(|item| depth(item, max - 1)).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

fn change_ending(ending: &mut Ending, each: &mut dyn FnMut(&mut String)) {
    let Ending {
        outcome,
        result,
        structured,
        stderr_tail,
        waited_for,
        repaired: _,
        backend: _,
        duration_ms: _,
        usage: _,
        exit_code: _,
        killed: _,
    } = ending;
    each(stderr_tail);
    each(waited_for);
    if let Some(value) = structured {
        change_value(value, each);
    }
    match result {
        ResultText::Inline(text) => each(text),
        ResultText::Nothing | ResultText::File { .. } => {}
    }
    match outcome {
        Outcome::Failed { failure } => change_failure(failure, each),
        Outcome::Cancelled { by: text }
        | Outcome::Partial { cause: Cause::Cancelled { by: text } }
        | Outcome::Refused { reason: text } => each(text),
        Outcome::Partial {
            cause: Cause::TimedOut { .. } | Cause::OverBudget { .. } | Cause::Interrupted { .. },
        }
        | Outcome::Succeeded
        | Outcome::TimedOut { .. }
        | Outcome::OverBudget { .. }
        | Outcome::Interrupted { .. } => {}
    }
}

fn change_failure(failure: &mut Failure, each: &mut dyn FnMut(&mut String)) {
    match failure {
        Failure::Spawn { reason: text }
        | Failure::Agent { message: text }
        | Failure::Output { reason: text }
        | Failure::Model { error: _, message: text }
        | Failure::Session { reason: text }
        | Failure::Storage { reason: text }
        | Failure::Bug { reason: text } => each(text),
        Failure::Schema { reason, errors } => {
            each(reason);
            errors.iter_mut().for_each(each);
        }
        Failure::Acceptance { command, reason, output } => {
            [command, reason, output].into_iter().for_each(each)
        }
        Failure::Exit { .. } | Failure::Signal { .. } | Failure::Limit { .. } => {}
    }
}

fn change_value(value: &mut Value, each: &mut dyn FnMut(&mut String)) {
    match value {
        Value::String(text) => each(text),
        Value::Array(items) => items.iter_mut().for_each(|item| change_value(item, each)),
        Value::Object(members) => {
            *members = std::mem::take(members)
                .into_iter()
                .map(|(mut name, mut member)| {
                    each(&mut name);
                    change_value(&mut member, each);
                    (name, member)
                })
                .collect();
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
