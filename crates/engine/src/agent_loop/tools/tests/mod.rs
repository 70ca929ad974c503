//! Tests of the tools on real directories: each file has one topic, and `hostile_paths` the ways out of a directory.

mod hostile_paths;
mod operations;
mod project;
