//! Where the programs of vendors store agents, and in which format. `config` reads the formats.

use domain::agent::AgentFormat;

/// The agent files of a vendor.
#[derive(Debug)]
pub struct AgentFiles {
    pub format: AgentFormat,
    /// If the files of several vendors define a name, those of the highest rank win. Ranks are unique.
    pub rank: u8,
    /// Folders below a project, the strongest last.
    pub project_folders: &'static [&'static str],
    /// The same for the user's folders.
    pub user_folders: &'static [UserFolder],
}

/// A folder of the user.
#[derive(Debug)]
pub struct UserFolder {
    /// The variable that names the vendor's folder; empty if none does.
    pub variable: &'static str,
    /// The vendor's folder below the home, without the variable.
    pub vendor_folder: &'static str,
    /// The folder of agents, below the vendor's folder.
    pub agents: &'static str,
}

impl UserFolder {
    pub(crate) const fn new(
        variable: &'static str,
        vendor_folder: &'static str,
        agents: &'static str,
    ) -> Self {
        Self { variable, vendor_folder, agents }
    }
}
