//! Reads text from an argument or from standard input.

use std::io::{IsTerminal, Read, stdin};

use domain::size::display_bytes;
use rustix::io::ioctl_fionread;

use super::context::Context;
use super::error::CommandError;
use super::output::Out;
use engine::EngineError;

/// The most text that is read from standard input.
const INPUT_MAX: u64 = 1 << 20;

/// Returns the argument; `-`, or no argument if text is piped in, reads standard input.
///
/// With a prompt as argument, standard input is not read: in scripts it is often open and never ends.
pub(crate) fn read(typed: Option<String>, what: &str, out: &mut Out) -> Result<String, CommandError> {
    let terminal = stdin().is_terminal();
    match typed {
        Some(text) if text != "-" => return Ok(text),
        Some(_) if terminal => out.note(&format!("reading the {what} from the terminal; end with Ctrl-D")),
        None if terminal => {
            let hint = "give it as the last argument, or write - there and pipe it in";
            return Err(EngineError::usage(format!("there is no {what}")).hint(hint).into());
        }
        Some(_) | None => {}
    }
    read_all(stdin().lock(), what)
}

/// Standard input that a command does not read, because its prompt is an argument.
#[derive(Debug, Default)]
pub(crate) struct UnreadInput {
    is_reported: bool,
}

impl UnreadInput {
    /// Warns once if text waits there. Commands call this again at their end, because the program at the other side of a pipe
    /// may be slower than the start of a run.
    pub(crate) fn report(&mut self, context: &Context, out: &mut Out) {
        // Terminals, and files without a length such as /dev/null, have nothing that a user would miss.
        let has_text = !stdin().is_terminal() && ioctl_fionread(stdin()).is_ok_and(|bytes| bytes > 0);
        // Commands inside a run inherit the standard input of their agent, which may not have read its prompt.
        let is_for_user = || context.open().is_ok_and(|app| app.caller().is_some());
        if self.is_reported || !has_text || !is_for_user() {
            return;
        }
        self.is_reported = true;
        out.warning("standard input is not read, because the prompt is an argument; to pass it, write - as the prompt");
    }
}

/// Reads all there is, up to the limit.
pub(crate) fn read_all(source: impl Read, what: &str) -> Result<String, CommandError> {
    let mut bytes = Vec::new();
    source.take(INPUT_MAX + 1).read_to_end(&mut bytes).map_err(|error| {
        EngineError::usage(format!("could not read the {what} from standard input: {error}"))
    })?;
    if bytes.len() as u64 > INPUT_MAX {
        let limit = display_bytes(INPUT_MAX);
        let error = EngineError::limit(format!("the {what} on standard input is longer than {limit}"));
        return Err(error.hint("put the text into a file and name the file in the prompt").into());
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        EngineError::usage(format!("the {what} on standard input is not valid UTF-8 at byte {at}")).into()
    })
}
