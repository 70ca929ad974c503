//! What is written into clients' files, and that it can be taken out again.

mod edits;
mod files;
mod shown;
