//! Edits of clients' files, and undoing them.

mod edits;
mod files;
mod manual_edits;
mod output_snapshots;
mod yaml;
