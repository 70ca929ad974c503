//! What was tried of goose, and the words it uses.

use domain::run::ModelError;

use crate::program::{Program, Tried};

pub(crate) static PROGRAM: Program = Program {
    names: &["goose"],
    natives: &["@aaif/goose-binary-linux-x64/bin/goose", "@aaif/goose-binary-linux-arm64/bin/goose"],
    variable: None,
    tried: Tried::Packaged { package: ("0.20.1", "0.20.1"), own: ("1.34.0", "1.34.0") },
};

/// The value of the variable that takes the place of all extensions in its user's settings: those that are part of the
/// program, but for windows and for the one by which a model turns others on.
pub(crate) const EXTENSIONS: &str = r#"{"analyze":{"enabled":true,"type":"platform","name":"analyze"},
"developer":{"enabled":true,"type":"platform","name":"developer"},
"skills":{"enabled":true,"type":"platform","name":"skills"},
"summon":{"enabled":true,"type":"platform","name":"summon"},
"todo":{"enabled":true,"type":"platform","name":"todo"}}"#;

/// The one of them by which a model hands work to other agents.
pub(super) const DELEGATION: &str = "summon";

/// How the program says that it does not know a session.
pub(super) const UNKNOWN_SESSION: &str = "No session found";
/// How a message begins that stands for an error, before the words of the error itself.
pub(super) const ERROR: &str = "Ran into this error: ";
/// How messages begin and end that stand for errors; such a message has no id.
pub(crate) const ERROR_MARKS: [(&str, &str); 4] = [
    (ERROR, ""),
    ("Ran into this error trying to compact: ", ""),
    ("Unable to continue: Context limit still exceeded", ""),
    // A model's own answer may well begin like this.
    ("Network error: ", "Please resend your message to try again."),
];
/// The kind of a notice that there is nothing left to pay the model with, and what is put before its words.
pub(super) const NO_CREDITS: &str = "creditsExhausted";
pub(super) const NO_CREDITS_WORDS: &str = "Credits exhausted";
/// How a message begins that says that the turns are used up.
pub(crate) const NO_TURNS_LEFT: &str = "I've reached the maximum number of actions";
/// The tool by which an answer of the shape that was asked for is given.
pub(super) const FINAL_OUTPUT: &str = "recipe__final_output";

/// What the words of an error mean, by the first that match.
pub(super) const ERRORS: [(&str, ModelError); 10] = [
    ("Rate limit", ModelError::RateLimit),
    (NO_CREDITS_WORDS, ModelError::RateLimit),
    ("Authentication", ModelError::Denied),
    ("Context length exceeded", ModelError::TooLong),
    ("context limit exceeded", ModelError::TooLong),
    ("Context limit still exceeded", ModelError::TooLong),
    ("Bad request (400)", ModelError::BadRequest),
    ("Server error", ModelError::Overloaded),
    ("Network error", ModelError::Unreachable),
    ("Stream decode error", ModelError::Unreachable),
];

/// How the program answers the use of a tool that the run does not have.
pub(super) const UNKNOWN_TOOL: &str = "not found. Available tools";
