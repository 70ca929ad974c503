//! Agents of other vendors, for real: each says what the script says, in a place where nothing else can be reached.
//!
//! The rest of what they do is tested with the backends that drive them.

mod adapters;
mod place;
mod saying;
