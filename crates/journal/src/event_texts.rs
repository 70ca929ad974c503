//! Visits every free text in an event, for redaction and truncation.
//!
//! It works on the value and not on its JSON, so that a secret that happens to spell `succeeded` or a member's name
//! cannot make the line unreadable. Names of variants and fields, ids and times are not free text.

use domain::run::{
    CallDetails, CallVerdict, CommandExit, Containment, Denial, Ending, Event, Failure, FileChange, Outcome,
    PartialCause, ResultText,
};
use serde_json::Value;

/// Calls `each` on every free text of the event.
pub(crate) fn rewrite(event: &mut Event, each: &mut dyn FnMut(&mut String)) {
    match event {
        Event::Claimed { version: text, .. }
        | Event::AnswerAppended { text }
        | Event::LimitExceeded { detail: text, .. }
        | Event::StopRequested { because: text, .. }
        | Event::ModelReported { model: text }
        | Event::ResultSubmitted { text }
        | Event::Warned { message: text } => each(text),
        Event::ToolCalled { id, name, input } => {
            each(id);
            each(name);
            rewrite_value(input, each);
        }
        Event::ToolReturned { id, ok: _, output } => {
            each(id);
            each(output);
        }
        Event::AttemptStarted { reason, backend, model, choice: _, conversation: _, prompt_kind: _ } => {
            each(reason);
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
        Event::CallRequested { .. } | Event::CallCompleted { .. } => rewrite_call(event, each),
        Event::QuestionRaised { question: _, text, until: _, allow_rules } => {
            each(text);
            allow_rules.iter_mut().for_each(each);
        }
        Event::ToolDenied { denial } => {
            let Denial { tool, subject, cause: _, reason, by, allow_rules } = denial;
            [tool, reason].into_iter().chain(subject).chain(by).chain(allow_rules).for_each(each);
        }
        Event::QuestionAnswered { question: _, allowed: _, text, by, origin: _, granted_rules } => {
            each(text);
            each(by);
            granted_rules.iter_mut().for_each(each);
        }
        Event::CancelRequested { by, reason } => {
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
        Event::Ended { ending } => rewrite_ending(ending, each),
        // Cleanup after a run finds the work tree by these values.
        Event::WorktreeCreated { .. } | Event::WorktreeEnded { .. } => {}
        Event::Queued { .. }
        | Event::SessionAwaited { .. }
        | Event::SlotTaken { .. }
        | Event::CallInDoubt { .. }
        | Event::UsageReported { .. }
        | Event::SessionReported { .. }
        | Event::OutputTruncated { .. }
        | Event::ClientDisconnected { .. }
        | Event::ChildStarted { .. }
        | Event::ChildEnded { .. } => {}
    }
}

fn rewrite_call(event: &mut Event, each: &mut dyn FnMut(&mut String)) {
    match event {
        Event::CallRequested { name, input, verdict, call: _, kind: _, class: _, turn: _ } => {
            each(name);
            rewrite_value(input, each);
            if let Some(CallVerdict { reason, effect: _ }) = verdict {
                each(reason);
            }
        }
        Event::CallCompleted { call: _, ok: _, output, details } => {
            each(output);
            if let Some(CallDetails { model: Some(model), usage: _, body: _ }) = details.as_deref_mut() {
                each(model);
            }
        }
        _ => {}
    }
}

/// Returns the nesting depth of a value: 0 for a scalar.
pub(crate) fn nesting_depth(value: &Value, max: usize) -> usize {
    match value {
        Value::Array(_) | Value::Object(_) if max == 0 => 1,
        Value::Array(items) => 1 + items.iter().map(|item| nesting_depth(item, max - 1)).max().unwrap_or(0),
        Value::Object(members) => {
            1 + members.values().map(|item| nesting_depth(item, max - 1)).max().unwrap_or(0)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

fn rewrite_ending(ending: &mut Ending, each: &mut dyn FnMut(&mut String)) {
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
        denials_count: _,
        idle_timeout_ms: _,
    } = ending;
    each(stderr_tail);
    each(waited_for);
    if let Some(value) = structured {
        rewrite_value(value, each);
    }
    match result {
        ResultText::Inline(text) => each(text),
        ResultText::Nothing | ResultText::File { .. } => {}
    }
    match outcome {
        Outcome::Failed { failure } => rewrite_failure(failure, each),
        Outcome::Cancelled { by: text }
        | Outcome::Partial { cause: PartialCause::Cancelled { by: text } }
        | Outcome::Refused { reason: text } => each(text),
        Outcome::Partial {
            cause:
                PartialCause::TimedOut { .. } | PartialCause::OverBudget { .. } | PartialCause::Interrupted { .. },
        }
        | Outcome::Succeeded
        | Outcome::TimedOut { .. }
        | Outcome::OverBudget { .. }
        | Outcome::Interrupted { .. } => {}
    }
}

fn rewrite_failure(failure: &mut Failure, each: &mut dyn FnMut(&mut String)) {
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

pub(crate) fn rewrite_value(value: &mut Value, each: &mut dyn FnMut(&mut String)) {
    match value {
        Value::String(text) => each(text),
        Value::Array(items) => items.iter_mut().for_each(|item| rewrite_value(item, each)),
        Value::Object(members) => {
            *members = std::mem::take(members)
                .into_iter()
                .map(|(mut name, mut member)| {
                    each(&mut name);
                    rewrite_value(&mut member, each);
                    (name, member)
                })
                .collect();
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
