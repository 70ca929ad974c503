//! Built-in agents: every installed backend is an agent with the backend's name, so that a project without agent
//! files has an agent to delegate to. A file that defines the name wins, even a broken one. Volery looks for programs
//! only when somebody lists agents or asks for a name that no file defines.

use std::borrow::Cow;

use backends::registry::{self as backend_registry, ProgramBackend};
use config::settings::Backend as Configured;
use domain::agent::{Agent, AgentFormat, AgentSource, Layer};
use domain::id::{AgentName, BackendName};
use domain::launch::LaunchOverrides;

use super::catalog::Catalog;
use crate::env;
use crate::programs::vendor_programs;

/// The source of a built-in agent, in place of a file.
const SOURCE_NAME: &str = "(built in)";

impl Catalog {
    /// Returns the agent with this name: the one that a file defines, else a built-in one, else the only directive whose
    /// file has this name in some folder. A file in a folder must not take the name of a built-in agent.
    pub fn agent(&self, name: &AgentName) -> Option<Cow<'_, Agent>> {
        if let Some(agent) = self.agent_from_file(name) {
            return Some(Cow::Borrowed(agent));
        }
        if self.broken.contains_key(name) {
            return None;
        }
        let vendor = backend_registry::program_backends().find(|vendor| vendor.backend == name.as_str());
        let built_in_agent = match vendor {
            Some(vendor) => is_installed(&vendor).then(|| vendor_agent(&vendor)).flatten(),
            None => self.configured_agents().find(|agent| agent.name == *name),
        };
        let directive = || match self.directives_by_stem(name).as_slice() {
            [only] => self.agents.get(only).map(|agent| Cow::Borrowed(agent.as_ref())),
            _ => None,
        };
        built_in_agent.map(Cow::Owned).or_else(directive)
    }

    /// Returns the built-in agents whose names no file defines, by name.
    pub fn built_in_agents(&self) -> Vec<Agent> {
        let vendors =
            backend_registry::program_backends().filter(|vendor| is_listed(vendor) && is_installed(vendor));
        let mut agents: Vec<Agent> =
            vendors.filter_map(|vendor| vendor_agent(&vendor)).chain(self.configured_agents()).collect();
        agents
            .retain(|agent| !self.agents.contains_key(&agent.name) && !self.broken.contains_key(&agent.name));
        agents.sort_by(|one, two| one.name.cmp(&two.name));
        agents
    }

    /// Returns whether an agent of the project has the name of a vendor's program, installed or not: a user who types
    /// that name may not know about the file. The names of backends that the user configured are the user's own
    /// choice.
    pub fn takes_built_in_name(&self, agent: &Agent) -> bool {
        let name = agent.name.as_str();
        agent.source.layer == Layer::Project
            && backend_registry::program_backends().any(|vendor| vendor.backend == name)
    }

    /// Returns an agent for each command that the user has configured. A model service needs a model from its agent
    /// file, and a project that defines a backend also defines the agents that use it.
    fn configured_agents(&self) -> impl Iterator<Item = Agent> {
        let own = self.config.backends.iter().filter(|(_, backend)| backend.layer != Layer::Project);
        own.filter_map(|(name, backend)| match &backend.value {
            Configured::Command(program) => {
                let command = program.command.first()?;
                built_in_agent(
                    name.clone(),
                    format!("General purpose: the command {command} of your configuration."),
                )
            }
            Configured::Provider(_) => None,
        })
    }
}

/// Returns whether a vendor is listed: not a second backend for a program that is already listed, and a service
/// behind another vendor's program only if its key is set.
fn is_listed(vendor: &ProgramBackend) -> bool {
    if vendor.same_program_as.is_some() {
        return false;
    }
    let first =
        backend_registry::program_backends().find(|other| std::ptr::eq(other.program, vendor.program));
    first.is_none_or(|first| first.backend == vendor.backend) || has_key_set(vendor.backend)
}

fn has_key_set(backend: &str) -> bool {
    let logins =
        backend_registry::vendor_by_name(backend).map(|vendor| vendor.logins.locations).unwrap_or_default();
    logins.iter().any(|login| match login {
        backends::logins::LoginLocation::Variable(name) => {
            env::get(name).is_some_and(|value| !value.is_empty())
        }
        backends::logins::LoginLocation::File { .. } | backends::logins::LoginLocation::FileWith { .. } => {
            false
        }
    })
}

fn is_installed(vendor: &ProgramBackend) -> bool {
    vendor_programs::find(vendor.program, &LaunchOverrides::default()).is_some()
}

fn vendor_agent(vendor: &ProgramBackend) -> Option<Agent> {
    let program = vendor.program.names.first()?;
    let description =
        format!("General purpose: {program} as it is installed here, without instructions of its own.");
    built_in_agent(vendor.backend.parse().ok()?, description)
}

/// Returns an agent that is only a backend; `None` if the backend's name is not a valid agent name.
fn built_in_agent(backend: BackendName, description: String) -> Option<Agent> {
    let source =
        AgentSource { file: SOURCE_NAME.to_owned(), format: AgentFormat::Volery, layer: Layer::Default };
    let name: AgentName = backend.as_str().parse().ok()?;
    Some(Agent { description, ..Agent::new(name, backend, source) })
}
