//! The loop of a directive: a model asks for calls, and Volery carries them out.

pub(crate) mod tools;
