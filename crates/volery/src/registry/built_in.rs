//! Built-in agents: every installed backend is an agent by its own name, so that a project without any agent file has
//! somebody to delegate to. A file that defines the name wins, also a broken one. Programs are looked for only when
//! somebody lists agents or asks for a name that no file defines.

use std::borrow::Cow;

use backend::registry::{self as backends, Vendor};
use definition::config::Backend as Configured;
use domain::agent::{Agent, Format, Layer, Source};
use domain::id::{AgentName, BackendName};
use domain::launch::Launch;
use domain::permission::Permission;

use super::files::Catalogue;
use crate::{env, programs};

/// How a built-in agent is named where a file is expected.
const FILE: &str = "(built in)";

impl Catalogue {
    /// Returns the agent of this name: the one that a file defines, else a built-in one.
    pub fn agent(&self, name: &AgentName) -> Option<Cow<'_, Agent>> {
        if let Some(agent) = self.agent_of_file(name) {
            return Some(Cow::Borrowed(agent));
        }
        if self.broken.contains_key(name) {
            return None;
        }
        let vendor = backends::vendors().find(|vendor| vendor.backend == name.as_str());
        let built_in = match vendor {
            Some(vendor) => is_installed(&vendor).then(|| of_vendor(&vendor)).flatten(),
            None => self.configured().find(|agent| agent.name == *name),
        };
        built_in.map(Cow::Owned)
    }

    /// Returns the built-in agents whose names no file defines, by name.
    pub fn built_in_agents(&self) -> Vec<Agent> {
        let vendors = backends::vendors().filter(|vendor| is_listed(vendor) && is_installed(vendor));
        let mut agents: Vec<Agent> =
            vendors.filter_map(|vendor| of_vendor(&vendor)).chain(self.configured()).collect();
        agents
            .retain(|agent| !self.agents.contains_key(&agent.name) && !self.broken.contains_key(&agent.name));
        agents.sort_by(|one, two| one.name.cmp(&two.name));
        agents
    }

    /// Tells whether an agent of the project's has the name of a vendor's program, installed or not: whoever types that name
    /// may not know that there is a file. Names of backends that the user configured are the user's own choice.
    pub fn takes_built_in_name(&self, agent: &Agent) -> bool {
        let name = agent.name.as_str();
        agent.source.layer == Layer::Project && backends::vendors().any(|vendor| vendor.backend == name)
    }

    /// Returns what an agent that takes the name of a built-in one has beyond that, in words; empty if it has no more.
    pub fn beyond_built_in(&self, agent: &Agent) -> Vec<String> {
        if !self.takes_built_in_name(agent) {
            return Vec::new();
        }
        let permission = &agent.setup.permission;
        let wider = !permission.narrowed_to(&Permission::default()).lost.is_empty();
        let list = |name: &str, values: &[String]| {
            (!values.is_empty()).then(|| format!("{name} {}", values.join(" ")))
        };
        let parts = [
            wider.then(|| format!("permission {}", permission.as_asked())),
            list("env", &agent.env),
            list("extra_directories", &agent.setup.extra_directories),
        ];
        parts.into_iter().flatten().collect()
    }

    /// Returns an agent for each command that the user has configured. A service of models needs a model, which its
    /// agent file names, and a project that defines a backend also defines the agents that use it.
    fn configured(&self) -> impl Iterator<Item = Agent> {
        let own = self.config.backends.iter().filter(|(_, backend)| backend.layer != Layer::Project);
        own.filter_map(|(name, backend)| match &backend.value {
            Configured::Program(program) => {
                let command = program.command.first()?;
                built_in(
                    name.clone(),
                    format!("General purpose: the command {command} of your configuration."),
                )
            }
            Configured::Provider(_) => None,
        })
    }
}

/// Tells whether a vendor is worth a line in a list: not the second way to a program that is listed already, and a
/// service behind another vendor's program only if its key is set.
fn is_listed(vendor: &Vendor) -> bool {
    if vendor.shares.is_some() {
        return false;
    }
    let first = backends::vendors().find(|other| std::ptr::eq(other.program, vendor.program));
    first.is_none_or(|first| first.backend == vendor.backend) || has_key(vendor.backend)
}

fn has_key(backend: &str) -> bool {
    let places = backend::logins::of(backend).map(|logins| logins.places).unwrap_or_default();
    places.iter().any(|login| match login {
        backend::logins::Login::Variable(name) => env::get(name).is_some_and(|value| !value.is_empty()),
        backend::logins::Login::File { .. } | backend::logins::Login::FileWith { .. } => false,
    })
}

fn is_installed(vendor: &Vendor) -> bool {
    programs::find(vendor.program, &Launch::default()).is_some()
}

fn of_vendor(vendor: &Vendor) -> Option<Agent> {
    let program = vendor.program.names.first()?;
    let description =
        format!("General purpose: {program} as it is installed here, without instructions of its own.");
    built_in(vendor.backend.parse().ok()?, description)
}

/// Returns an agent that is nothing but a backend; nothing where the backend's name is not the name of an agent.
fn built_in(backend: BackendName, description: String) -> Option<Agent> {
    let source = Source { file: FILE.to_owned(), format: Format::Volery, layer: Layer::Default };
    let name: AgentName = backend.as_str().parse().ok()?;
    Some(Agent { description, ..Agent::new(name, backend, source) })
}
