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

pub(crate) use error::{ToolError, ToolOutput};
pub(crate) use files::{WriteRequest, append, write};
pub(crate) use paths::FileRoots;

#[cfg_attr(not(test), expect(unused_imports, reason = "the driver of the loop will use them"))]
pub(crate) use {
    edit::{EditDigests, EditRequest, edit, plan_edit},
    files::{ReadRequest, read},
    list::list,
    paths::ResolvedPath,
    search::{SearchRequest, search},
};
