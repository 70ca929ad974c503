//! `--dialect budgie`: what that system documents, and its defects, which are not there.

mod budgie_env;
mod flags;
mod sandbox;
mod sessions;
mod tools;
mod tries_again;
