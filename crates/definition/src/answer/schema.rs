//! A JSON schema that is ready to check values. It refers to nothing outside of itself, and its patterns take linear
//! time.

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, ReferencingError, Retrieve, Uri, ValidationError, Validator};
use serde_json::Value;

use super::read::nesting;

/// The longest schema, as text: it must fit into one argument of a program.
pub const SCHEMA_BYTES_MAX: usize = 64 << 10;
/// How deep a schema may be.
const SCHEMA_DEPTH_MAX: usize = 48;
/// How many patterns it may have, and the most memory of each.
const PATTERNS_MAX: usize = 100;
const PATTERN_BYTES_MAX: usize = 256 << 10;
/// How many errors of a value are told, and how much of each.
const ERRORS_MAX: usize = 8;
const ERROR_BYTES_MAX: usize = 300;
/// Why a schema cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    #[error("the schema has {bytes} bytes as JSON, and {SCHEMA_BYTES_MAX} are allowed")]
    TooLong { bytes: usize },
    #[error("the schema is nested deeper than {SCHEMA_DEPTH_MAX} levels")]
    TooDeep,
    #[error("the schema has more than {PATTERNS_MAX} patterns")]
    TooManyPatterns,
    #[error("the schema refers to {reference}, and nothing is fetched: a schema must stand by itself")]
    Outside { reference: String },
    #[error("the schema is wrong{}: {reason}", at(.place))]
    Wrong {
        /// A JSON pointer into the schema; empty for all of it.
        place: String,
        reason: String,
    },
}

/// A schema that is ready.
#[derive(Debug)]
pub struct Schema {
    validator: Validator,
}

impl Schema {
    /// Reads a schema of draft 2020-12, or of the draft that its `$schema` names.
    pub fn compile(schema: &Value) -> Result<Self, SchemaError> {
        if nesting(schema, SCHEMA_DEPTH_MAX + 1) > SCHEMA_DEPTH_MAX {
            return Err(SchemaError::TooDeep);
        }
        let bytes = schema.to_string().len();
        if bytes > SCHEMA_BYTES_MAX {
            return Err(SchemaError::TooLong { bytes });
        }
        if patterns(schema) > PATTERNS_MAX {
            return Err(SchemaError::TooManyPatterns);
        }
        jsonschema::meta::validate(schema).map_err(refused)?;
        let patterns =
            PatternOptions::regex().size_limit(PATTERN_BYTES_MAX).dfa_size_limit(PATTERN_BYTES_MAX);
        let options = jsonschema::options().with_pattern_options(patterns).with_retriever(Nowhere);
        let validator = options.build(schema).map_err(refused)?;
        Ok(Self { validator })
    }

    /// Says what is wrong with a value, in lines for whoever made it; empty if nothing is.
    pub fn errors(&self, value: &Value) -> Vec<String> {
        // Collecting errors costs more than finding that there are none.
        if self.validator.is_valid(value) {
            return Vec::new();
        }
        let line = |error: ValidationError<'_>| {
            let place = error.instance_path().to_string();
            let place = if place.is_empty() { "the value".to_owned() } else { short(&place) };
            format!("{place}: {}", short(&error.masked_with("it").to_string()))
        };
        let mut lines: Vec<String> = self.validator.iter_errors(value).take(ERRORS_MAX).map(line).collect();
        if lines.is_empty() {
            lines.push("the value: it does not satisfy the schema".to_owned());
        }
        lines
    }
}

/// Finds no schema but those that came with the one that refers to them.
struct Nowhere;

impl Retrieve for Nowhere {
    fn retrieve(&self, _uri: &Uri<String>) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        Err("nothing is fetched".into())
    }
}

fn refused(error: ValidationError<'_>) -> SchemaError {
    match error.kind() {
        ValidationErrorKind::Referencing(ReferencingError::Unretrievable { uri, .. }) => {
            SchemaError::Outside { reference: short(uri) }
        }
        _ => SchemaError::Wrong {
            place: short(&error.instance_path().to_string()),
            reason: short(&error.masked_with("it").to_string()),
        },
    }
}

/// Counts the patterns, each of which takes memory.
fn patterns(schema: &Value) -> usize {
    match schema {
        Value::Object(members) => members
            .iter()
            .map(|(word, member)| match (word.as_str(), member) {
                ("pattern", Value::String(_)) => 1,
                ("patternProperties", Value::Object(own)) => own.len() + patterns(member),
                _ => patterns(member),
            })
            .sum(),
        Value::Array(items) => items.iter().map(patterns).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

fn short(text: &str) -> String {
    domain::size::head(text, ERROR_BYTES_MAX).to_owned()
}

fn at(place: &str) -> String {
    if place.is_empty() { String::new() } else { format!(" at {place}") }
}
