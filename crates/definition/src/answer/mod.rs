//! What an agent answers where a value was asked for: finds the JSON in a text, mends its spelling, and checks it
//! against a schema. Hostile texts are expected: the work is bounded, and where only a clock can bound it (a schema may
//! be written so that checking takes for ever), the caller must have one.

mod extract;
mod read;
mod schema;

pub use read::{Found, Shape, Unfit, check, read};
pub use schema::{SCHEMA_BYTES_MAX, Schema, SchemaError};

#[cfg(test)]
mod tests;
