//! The tested versions of goose, and the texts that they use.

use domain::run::ModelError;

use crate::program::{ProgramSpec, TestedVersions};

pub(crate) static PROGRAM: ProgramSpec = ProgramSpec {
    names: &["goose"],
    native_paths: &["@aaif/goose-binary-linux-x64/bin/goose", "@aaif/goose-binary-linux-arm64/bin/goose"],
    path_variable: None,
    install: "npm install -g @aaif/goose",
    tested_versions: TestedVersions::Packaged { package: ("0.20.1", "0.20.1"), own: ("1.34.0", "1.34.0") },
};

/// The value of the variable that replaces all extensions of the user's settings: the built-in ones, except those for windows and
/// the one with which a model enables others.
pub(crate) const DEFAULT_EXTENSIONS: &str = r#"{"analyze":{"enabled":true,"type":"platform","name":"analyze"},
"developer":{"enabled":true,"type":"platform","name":"developer"},
"skills":{"enabled":true,"type":"platform","name":"skills"},
"summon":{"enabled":true,"type":"platform","name":"summon"},
"todo":{"enabled":true,"type":"platform","name":"todo"}}"#;

/// The extension with which a model calls other agents.
pub(super) const DELEGATION_EXTENSION: &str = "summon";

/// The error for an unknown session.
pub(super) const UNKNOWN_SESSION: &str = "No session found";
/// The beginning of a message that reports an error; the error follows.
pub(super) const ERROR_PREFIX: &str = "Ran into this error: ";
/// The beginning and end of messages that report errors; such a message has no id.
pub(crate) const ERROR_MARKERS: [(&str, &str); 4] = [
    (ERROR_PREFIX, ""),
    ("Ran into this error trying to compact: ", ""),
    ("Unable to continue: Context limit still exceeded", ""),
    // An answer of the model may begin like this too.
    ("Network error: ", "Please resend your message to try again."),
];
/// The type of the notification that the credits are used up, and the prefix that its text gets.
pub(super) const NO_CREDITS: &str = "creditsExhausted";
pub(super) const NO_CREDITS_PREFIX: &str = "Credits exhausted";
/// The beginning of the message that the turns are used up.
pub(crate) const TURNS_EXCEEDED: &str = "I've reached the maximum number of actions";
/// The tool with which the model returns a value of the requested schema.
pub(super) const FINAL_OUTPUT_TOOL: &str = "recipe__final_output";

/// The meaning of errors, by the first text that they contain.
pub(super) const ERRORS: [(&str, ModelError); 10] = [
    ("Rate limit", ModelError::RateLimit),
    (NO_CREDITS_PREFIX, ModelError::RateLimit),
    ("Authentication", ModelError::Denied),
    ("Context length exceeded", ModelError::TooLong),
    ("context limit exceeded", ModelError::TooLong),
    ("Context limit still exceeded", ModelError::TooLong),
    ("Bad request (400)", ModelError::BadRequest),
    ("Server error", ModelError::Overloaded),
    ("Network error", ModelError::Unreachable),
    ("Stream decode error", ModelError::Unreachable),
];

/// The error for a tool that the run does not have.
pub(super) const UNKNOWN_TOOL: &str = "not found. Available tools";
