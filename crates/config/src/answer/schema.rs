//! A compiled JSON schema. It contains no references to other documents, and its patterns take linear
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
/// The most errors of a value that are reported, and the length of each.
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
    #[error("the schema is wrong{}: {reason}", at_pointer(.pointer))]
    Wrong {
        /// A JSON pointer into the schema; empty for all of it.
        pointer: String,
        reason: String,
    },
}

/// A compiled schema.
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
        if count_patterns(schema) > PATTERNS_MAX {
            return Err(SchemaError::TooManyPatterns);
        }
        jsonschema::meta::validate(schema).map_err(schema_error)?;
        let pattern_options =
            PatternOptions::regex().size_limit(PATTERN_BYTES_MAX).dfa_size_limit(PATTERN_BYTES_MAX);
        let options = jsonschema::options().with_pattern_options(pattern_options).with_retriever(NoRetriever);
        let validator = options.build(schema).map_err(schema_error)?;
        Ok(Self { validator })
    }

    /// Returns the errors of a value, as lines for its author; empty if there are none.
    pub fn errors(&self, value: &Value) -> Vec<String> {
        // Collecting errors costs more than checking validity.
        if self.validator.is_valid(value) {
            return Vec::new();
        }
        let line = |error: ValidationError<'_>| {
            let pointer = error.instance_path().to_string();
            let pointer = if pointer.is_empty() { "the value".to_owned() } else { shorten(&pointer) };
            format!("{pointer}: {}", shorten(&error.masked_with("it").to_string()))
        };
        let mut lines: Vec<String> = self.validator.iter_errors(value).take(ERRORS_MAX).map(line).collect();
        if lines.is_empty() {
            lines.push("the value: it does not satisfy the schema".to_owned());
        }
        lines
    }
}

/// Retrieves no schema; references within the schema need no retrieval.
struct NoRetriever;

impl Retrieve for NoRetriever {
    fn retrieve(&self, _uri: &Uri<String>) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        Err("nothing is fetched".into())
    }
}

fn schema_error(error: ValidationError<'_>) -> SchemaError {
    match error.kind() {
        ValidationErrorKind::Referencing(ReferencingError::Unretrievable { uri, .. }) => {
            SchemaError::Outside { reference: shorten(uri) }
        }
        _ => SchemaError::Wrong {
            pointer: shorten(&error.instance_path().to_string()),
            reason: shorten(&error.masked_with("it").to_string()),
        },
    }
}

/// Counts the patterns, because each of them takes memory.
fn count_patterns(schema: &Value) -> usize {
    match schema {
        Value::Object(members) => members
            .iter()
            .map(|(word, member)| match (word.as_str(), member) {
                ("pattern", Value::String(_)) => 1,
                ("patternProperties", Value::Object(own)) => own.len() + count_patterns(member),
                _ => count_patterns(member),
            })
            .sum(),
        Value::Array(items) => items.iter().map(count_patterns).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

fn shorten(text: &str) -> String {
    domain::size::head(text, ERROR_BYTES_MAX).to_owned()
}

fn at_pointer(pointer: &str) -> String {
    if pointer.is_empty() { String::new() } else { format!(" at {pointer}") }
}
