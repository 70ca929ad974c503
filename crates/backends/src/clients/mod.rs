//! MCP clients that are no vendor's agent: one file each.

mod claude_desktop;
mod cline;
mod vscode;
mod windsurf;
mod zed;

use crate::client_setup::{ClientPatience, ClientSetup, McpClient};
use crate::registry::VENDORS;

static OTHERS: [&McpClient; 5] =
    [&vscode::CLIENT, &zed::CLIENT, &cline::CLIENT, &windsurf::CLIENT, &claude_desktop::CLIENT];

/// Returns every client, those of vendors first.
pub fn all() -> impl Iterator<Item = &'static McpClient> {
    VENDORS.iter().filter_map(|vendor| vendor.client).chain(OTHERS)
}

/// Returns how to set up each client.
pub fn setups() -> impl Iterator<Item = &'static ClientSetup> {
    all().map(|client| &client.setup)
}

/// Returns how to set up the client of this name.
pub fn setup_by_name(name: &str) -> Option<&'static ClientSetup> {
    setups().find(|client| client.name == name)
}

/// Returns the patience of the client that introduces itself by this name, in lower case.
pub fn patience_by_name(name: &str) -> Option<&'static ClientPatience> {
    all().flat_map(|client| client.patience).find(|known| name.starts_with(known.prefix))
}
