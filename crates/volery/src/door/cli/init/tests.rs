//! What is written into clients' files, and that it can be taken out again.

mod by_hand;
mod edits;
mod files;
mod shown;
mod yaml;
