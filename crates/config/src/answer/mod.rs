//! Structured answers of agents: finds the JSON in a text, repairs it, and validates it against a schema. Hostile
//! texts are expected: the work is bounded. A schema may be made so that validation never ends; only a time-out of
//! the caller can bound that.

mod extract;
mod read;
mod schema;

pub use read::{AnswerFormat, ExtractedValue, InvalidAnswer, extract_value, validate};
pub use schema::{SCHEMA_BYTES_MAX, Schema, SchemaError};

#[cfg(test)]
mod tests;
