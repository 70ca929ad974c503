//! What each level allows without a rule: the only table about that.

use crate::permission::{Level, ToolKind};

/// How much of a kind of use is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Extent {
    Nothing,
    /// In the agent's directory, except in `.git`.
    Directory,
    Everything,
}

impl Level {
    /// Returns whether the level denies anything.
    pub fn is_limited(self) -> bool {
        self.extent(ToolKind::Everything) != Extent::Everything
    }

    /// Returns how much of a kind of use this level allows.
    pub fn extent(self, kind: ToolKind<'_>) -> Extent {
        match (self, kind) {
            (Self::Yolo, _) => Extent::Everything,
            (Self::ReadOnly | Self::SafeEdit, ToolKind::Read | ToolKind::Search) => Extent::Everything,
            (Self::SafeEdit, ToolKind::Edit) => Extent::Directory,
            (Self::ReadOnly, ToolKind::Edit) => Extent::Nothing,
            (
                Self::ReadOnly | Self::SafeEdit,
                ToolKind::Shell
                | ToolKind::Fetch
                | ToolKind::WebSearch
                | ToolKind::Delegate
                | ToolKind::Mcp { .. }
                | ToolKind::Env
                | ToolKind::Everything
                | ToolKind::Other(_),
            ) => Extent::Nothing,
        }
    }
}
