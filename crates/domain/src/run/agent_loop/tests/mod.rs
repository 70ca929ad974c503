//! Tests of the tools of a directive.

mod command_lines;
mod effective;
mod machine;
mod requests;
mod specs;
mod tiers;
