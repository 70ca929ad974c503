//! `--dialect budgie`: what that system documents, and its defects, which are not there.

mod flags;
mod place;
mod sandbox;
mod sessions;
mod tools;
mod tries_again;
