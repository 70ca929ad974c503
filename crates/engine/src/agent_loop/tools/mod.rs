//! What the tools of a loop do: operations on files beneath allowed directories, and confined commands. They decide
//! nothing about permissions and know no run: a caller resolves a path or a command, has it judged, and then passes
//! the same value to the operation.

mod error;
mod paths;

mod open;

mod edit;
mod files;
mod list;
mod search;

#[cfg(test)]
mod tests;

pub(crate) use edit::{EditDigests, EditRequest, edit, plan_edit};
pub(crate) use error::{ToolError, ToolOutput};
pub(crate) use files::{ReadRequest, WriteRequest, append, read, write};
pub(crate) use list::list;
pub(crate) use paths::{EntryKind, FileRoots, ResolvedPath, Visibility};
pub(crate) use search::{SearchRequest, search};
