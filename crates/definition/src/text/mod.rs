//! What somebody wrote, as a tree that remembers its places, and the questions that readers ask of it.
//!
//! YAML and TOML become the same tree, so that a limit or a duration is read by one function whatever the file.

mod fields;
mod findings;
mod json;
mod lenient;
mod node;
mod tags;
mod toml;
mod value;
mod yaml;

pub(crate) use fields::Fields;
pub(crate) use findings::{Findings, quoted};
pub(crate) use json::{read_commented_json, read_json};
pub(crate) use lenient::quote_lines;
pub(crate) use node::{Entry, Node, Place, Shape};
pub(crate) use tags::{Element, Vocabulary, read_tags};
pub(crate) use toml::read_toml;
pub(crate) use value::{
    Bounds, amount, bytes, choice, choice_or_warning, duration_ms, environment_names, flag, list,
    relative_path, text, text_or_list, usd,
};
pub(crate) use yaml::{YamlText, read_yaml, strict_yaml, strict_yaml_or_error};
