//! Parses texts into a tree with source locations, and reads typed values from it.
//!
//! YAML, TOML and JSON become the same tree, so one function reads a limit or a duration from any file.

mod diagnostics;
mod fields;
mod json;
mod node;
mod toml;
mod typed_values;
mod yaml;
mod yaml_repair;

pub(crate) use diagnostics::{Diagnostics, quote};
pub(crate) use fields::Fields;
pub(crate) use json::{read_commented_json, read_json};
pub(crate) use node::{MapEntry, Node, NodeValue, SourceLocation};
pub(crate) use toml::read_toml;
pub(crate) use typed_values::{
    Bounds, read_bool, read_byte_size, read_choice, read_choice_or_warn, read_duration_ms, read_env_names,
    read_integer, read_list, read_relative_path, read_text, read_text_or_list, read_usd,
};
pub(crate) use yaml::{YamlText, read_yaml, strict_yaml, strict_yaml_or_error};
pub(crate) use yaml_repair::quote_lines;
