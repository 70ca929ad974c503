//! Whether a person can answer the questions of a run that a door starts.

use std::io::{IsTerminal, stderr, stdin};

use domain::run::Unattended;

use crate::env;

/// How a command got its prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PromptFrom {
    Arguments,
    /// Standard input, which cannot be the terminal then.
    StandardInput,
}

/// Says why nobody at this command can answer questions.
pub(crate) fn of_command(declared: bool, prompt: PromptFrom) -> Option<Unattended> {
    if declared {
        return Some(Unattended::Declared);
    }
    let terminal = match prompt {
        PromptFrom::Arguments => stdin().is_terminal(),
        PromptFrom::StandardInput => stdin().is_terminal() || stderr().is_terminal(),
    };
    ci().or_else(|| (!terminal).then_some(Unattended::NoTerminal))
}

/// Says why nobody behind this client can answer questions.
pub(crate) fn of_client(client: &str, takes_questions: bool) -> Option<Unattended> {
    let client = if client.is_empty() { "without a name" } else { client }.to_owned();
    ci().or_else(|| (!takes_questions).then_some(Unattended::NoElicitation { client }))
}

fn ci() -> Option<Unattended> {
    let set = env::text(env::CI).is_some_and(|value| !value.is_empty() && value != "false");
    set.then_some(Unattended::Ci)
}
