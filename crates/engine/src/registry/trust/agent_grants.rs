//! What the agent files of a project grant beyond the defaults. A repository could otherwise hand its agents every
//! command, a secret of the user or a folder outside of the project, so these grants need trust like executables.

use domain::agent::{Agent, Layer};
use domain::permission::{Permission, Rule};

use super::super::key_location::key_location;

/// A setting of a project's agent file that grants more than an agent has by default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentGrant {
    /// The setting and its value: `permission yolo`.
    pub setting: String,
    /// What the setting would grant.
    pub effect: String,
    /// The keys that the formats use for the setting.
    keys: &'static [&'static str],
}

impl AgentGrant {
    /// Returns the line of the setting in the agent's file.
    pub fn line(&self, file: &str) -> Option<u32> {
        self.keys.iter().find_map(|key| key_location(file, key)).map(|(line, _)| line)
    }
}

/// Returns the extra directories of an agent but the folder of its own file, which its format adds so that the agent can
/// read its notes.
fn outside_directories(agent: &Agent) -> impl Iterator<Item = &str> {
    let directories = agent.setup.extra_directories.iter().map(String::as_str);
    directories.filter(|directory| !is_own_folder(agent, directory))
}

/// Returns whether a directory is the folder of the agent's own file.
pub(crate) fn is_own_folder(agent: &Agent, directory: &str) -> bool {
    std::path::Path::new(&agent.source.file).parent() == Some(std::path::Path::new(directory))
}

/// Returns the grants of an agent's file that need trust. Only files of a project do: the user wrote all others.
pub fn agent_grants(agent: &Agent) -> Vec<AgentGrant> {
    if agent.source.layer != Layer::Project {
        return Vec::new();
    }
    let name = &agent.name;
    let permission = &agent.setup.permission;
    // A rule about a server that the file itself declares grants nothing by itself: the server needs trust.
    let mut without_own_servers = permission.clone();
    let is_own = |rule: &Rule| agent.setup.mcp_servers.iter().any(|server| rule.names_server(&server.name));
    without_own_servers.allow.retain(|rule| !is_own(rule));
    let is_wider = !without_own_servers.narrowed_to(&Permission::default()).lost.is_empty();
    let permission_grant = is_wider.then(|| AgentGrant {
        setting: format!("permission {}", permission.layer_summary()),
        effect: format!("it would allow agent {name} more than safe-edit"),
        keys: &["permission", "permissions", "permissionMode", "tools", "allowedTools"],
    });
    let env_grant = (!agent.env.is_empty()).then(|| AgentGrant {
        setting: format!("env {}", agent.env.join(" ")),
        effect: format!("agent {name} would receive these variables of your environment"),
        keys: &["env"],
    });
    let directories: Vec<&str> = outside_directories(agent).collect();
    let directory_grant = (!directories.is_empty()).then(|| AgentGrant {
        setting: format!("extra_directories {}", directories.join(" ")),
        effect: format!("agent {name} could use these directories"),
        keys: &["extra_directories"],
    });
    [permission_grant, env_grant, directory_grant].into_iter().flatten().collect()
}
