//! Decides whether a person can answer the questions of a run that a door starts.

use std::io::{IsTerminal, stderr, stdin};

use domain::run::Unattended;

use crate::env;

/// How a command got its prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PromptSource {
    Arguments,
    /// Standard input, which then cannot be the terminal.
    StandardInput,
}

/// Returns why no person at this command can answer questions; `None` if one can.
pub fn unattended_command(declared: bool, prompt: PromptSource) -> Option<Unattended> {
    if declared {
        return Some(Unattended::Declared);
    }
    let has_terminal = match prompt {
        PromptSource::Arguments => stdin().is_terminal(),
        PromptSource::StandardInput => stdin().is_terminal() || stderr().is_terminal(),
    };
    ci().or_else(|| (!has_terminal).then_some(Unattended::NoTerminal))
}

/// Returns why no person behind this client can answer questions; `None` if one can.
pub fn unattended_client(client: &str, takes_questions: bool) -> Option<Unattended> {
    let client = if client.is_empty() { "without a name" } else { client }.to_owned();
    ci().or_else(|| (!takes_questions).then_some(Unattended::NoElicitation { client }))
}

fn ci() -> Option<Unattended> {
    let set = env::text(env::CI).is_some_and(|value| !value.is_empty() && value != "false");
    set.then_some(Unattended::Ci)
}
