//! What the agent files of a project grant beyond the defaults. A repository could otherwise hand its agents every
//! command, a secret of the user or a folder outside of the project, so these grants need trust like executables.

use std::path::Path;

use domain::agent::{Agent, Layer};
use domain::permission::{Permission, Rule, Unenforceable};
use domain::secret::value_without_secrets;

use super::super::key_location::key_location;

/// What replaces a secret.
const HIDDEN: &str = "[redacted]";

/// A setting of a project's agent file that grants more than an agent has by default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentGrant {
    /// The setting and its value: `permission yolo`.
    pub setting: String,
    /// What the setting would grant.
    pub effect: String,
    /// The keys that the formats use for the setting.
    keys: Vec<&'static str>,
}

impl AgentGrant {
    /// Returns the line of the setting in the agent's file.
    pub fn line(&self, file: &str) -> Option<u32> {
        self.keys.iter().find_map(|key| key_location(file, key)).map(|(line, _)| line)
    }
}

/// Returns the grants of an agent's file that need trust. Only files of a project do: the user wrote all others.
pub fn agent_grants(agent: &Agent, project: &str) -> Vec<AgentGrant> {
    if agent.source.layer != Layer::Project {
        return Vec::new();
    }
    let name = &agent.name;
    // Every agent may use the servers of its own file, which need trust themselves.
    let servers = &agent.setup.mcp_servers;
    let is_own_server = |rule: &Rule| servers.iter().any(|own| rule.names_server(&own.name));
    let mut permission = agent.setup.permission.clone();
    permission.allow.retain(|rule| !is_own_server(rule));
    let is_wider = !permission.narrowed_to(&Permission::default()).lost.is_empty();
    let permission_grant = is_wider.then(|| AgentGrant {
        setting: format!("permission {}", permission.layer_summary()),
        effect: format!("it would allow agent {name} more than safe-edit"),
        keys: vec!["permission", "permissions", "permissionMode", "tools", "allowedTools"],
    });
    let env_grant = (!agent.env.is_empty()).then(|| AgentGrant {
        setting: format!("env {}", quoted(agent.env.iter().map(String::as_str))),
        effect: format!("agent {name} would receive these variables of your environment"),
        keys: vec!["env"],
    });
    let directories = agent.setup.extra_directories.iter().map(String::as_str);
    let directories: Vec<&str> = directories.filter(|directory| !is_in_project(directory, project)).collect();
    let directory_grant = (!directories.is_empty()).then(|| AgentGrant {
        setting: format!("extra_directories {}", quoted(directories.into_iter())),
        effect: format!("agent {name} could use these directories"),
        keys: vec!["extra_directories"],
    });
    // A person would otherwise trust restrictions that nothing enforces.
    let warn_grant = (agent.setup.unenforceable == Unenforceable::Warn).then(|| AgentGrant {
        setting: "unenforceable warn".to_owned(),
        effect: format!("agent {name} would start even if its backend cannot enforce its permission"),
        keys: vec!["unenforceable"],
    });
    let withheld = agent.limited_file.iter().flat_map(|file| &file.withheld);
    let file_grants = withheld.map(|(key, value)| AgentGrant {
        // Lists, warnings and trust records have this text.
        setting: format!("{key} {}", value_without_secrets(value, HIDDEN)),
        effect: format!("its program would allow agent {name} what this setting names"),
        keys: vec![*key],
    });
    [permission_grant, env_grant, directory_grant, warn_grant]
        .into_iter()
        .flatten()
        .chain(file_grants)
        .collect()
}

/// Returns whether a directory is in the project, where an agent works anyway. A relative one depends on the run.
pub fn is_in_project(directory: &str, project: &str) -> bool {
    let (directory, project) = (Path::new(directory), Path::new(project));
    let (Ok(real), Ok(project)) = (directory.canonicalize(), project.canonicalize()) else { return false };
    directory.is_absolute() && real.starts_with(project)
}

/// Joins texts, each in quotes: one with a blank or a line break must not look like two.
fn quoted<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    texts.map(|text| format!("{text:?}")).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use domain::agent::{AgentFormat, AgentSource};

    use super::*;

    fn settings(change: impl FnOnce(&mut Agent)) -> Vec<String> {
        let source = AgentSource {
            file: "/work/.volery/agents/a.md".to_owned(),
            format: AgentFormat::Volery,
            layer: Layer::Project,
        };
        let mut agent = Agent::new("a".parse().unwrap(), "claude".parse().unwrap(), source);
        change(&mut agent);
        agent_grants(&agent, "/work").into_iter().map(|grant| grant.setting).collect()
    }

    #[test]
    fn two_lists_have_the_same_text_only_if_they_are_the_same() {
        let directories = |listed: &[&str]| {
            let listed = listed.iter().map(|entry| (*entry).to_owned()).collect();
            settings(|agent| agent.setup.extra_directories = listed)
        };
        assert_eq!(directories(&["/a", "/b"]), [r#"extra_directories "/a" "/b""#]);
        for other in [&["/a /b"][..], &["/a\" \"/b"], &["/a\n/b"]] {
            assert_ne!(directories(other), directories(&["/a", "/b"]));
            assert!(!directories(other)[0].contains('\n'));
        }
        let variables = settings(|agent| agent.env = vec!["A B".to_owned()]);
        assert_eq!(variables, [r#"env "A B""#]);
    }

    #[test]
    fn a_rule_about_everything_with_a_pattern_is_a_grant() {
        let granted = settings(|agent| agent.setup.permission.allow = vec!["*(*)".parse().unwrap()]);
        assert_eq!(granted, [r#"permission allow "*(*)""#]);
    }

    #[test]
    fn to_start_without_enforcement_is_a_grant() {
        let granted = settings(|agent| agent.setup.unenforceable = Unenforceable::Warn);
        assert_eq!(granted, ["unenforceable warn"]);
    }
}
