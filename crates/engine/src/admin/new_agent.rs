//! Writes the commented template of an agent's file.

use std::io::Write;
use std::path::Path;

use domain::agent::{Agent, AgentFormat, AgentSource, Layer};
use domain::id::{AgentName, BackendName, IdError};

use crate::api::{AgentOwner, EngineError, NewAgent, NewAgentView};
use crate::engine::Engine;
use crate::registry;

const TEMPLATE: &str = include_str!("starter.md");
const TEMPLATE_STEPS: &str = include_str!("starter_steps.yaml");

const NO_MODEL: &str = "# model: the backend's default if left out";
/// Placeholder for any model.
const ANY_MODEL: &str = "model";

/// The file that every folder of agents ignores.
const README_STEM: &str = "readme";

impl Engine {
    pub(crate) fn write_agent(&self, ask: &NewAgent) -> Result<NewAgentView, EngineError> {
        let usage = |error: IdError| EngineError::usage(error.to_string());
        let name: AgentName = ask.name.parse().map_err(usage)?;
        if !name.is_plain() {
            let message = format!("{name} cannot be the name of a file");
            return Err(EngineError::usage(message).hint("choose a name without ':' and '/'"));
        }
        let backend: BackendName = ask.backend.parse().map_err(usage)?;
        let (directory, catalog) = self.locate(ask.directory.as_deref())?;
        let project = match ask.owner {
            AgentOwner::Project => Some(catalog.project.as_str()),
            AgentOwner::User => None,
        };
        let Some(folder) = registry::own_folder(project) else {
            return Err(EngineError::usage("there is no place for the user's agents: HOME is not set"));
        };
        if name.as_str().eq_ignore_ascii_case(README_STEM) {
            let message = format!("{name}.md is taken for what explains a folder, and never for an agent");
            return Err(EngineError::usage(message).hint("choose another name"));
        }
        if project.is_some_and(|project| registry::would_escape(&folder, Path::new(project))) {
            let message = format!(
                "{} leads out of the project by a symbolic link, so agents in it are not read",
                folder.display()
            );
            let hint = "put a folder in the place of the link, or say --user for an agent of your own";
            return Err(EngineError::usage(message).hint(hint));
        }
        let path = folder.join(format!("{name}.md"));
        let source = AgentSource {
            file: path.display().to_string(),
            format: AgentFormat::Volery,
            layer: Layer::Project,
        };
        // An agent with an unknown backend could not run.
        let mut agent = Agent::new(name.clone(), backend.clone(), source);
        agent.model.clone_from(&ask.model);
        let configured = self.configured_backend(&catalog, &agent)?;
        if let Err(error) = self.prepare_launch(&catalog, &agent, &configured, &directory)
            && agent.model.is_none()
        {
            agent.model = Some(ANY_MODEL.to_owned());
            // If a model fixes the error, the file would be invalid without one.
            if self.prepare_launch(&catalog, &agent, &configured, &directory).is_ok() {
                return Err(EngineError::usage(error.message).hint("say which: --model NAME"));
            }
        }
        write_new(&folder, &path, &fill_template(&name, &backend, ask.model.as_deref()))?;
        let hides = catalog.agents.get(&name).map(|known| known.source.file.clone());
        Ok(NewAgentView { name: name.to_string(), file: path.display().to_string(), shadowed_file: hides })
    }
}

fn fill_template(name: &AgentName, backend: &BackendName, model: Option<&str>) -> String {
    let model =
        model.map_or_else(|| NO_MODEL.to_owned(), |model| format!("model: {}", serde_json::json!(model)));
    let (how, steps) = match backend.as_str() {
        "rehearsal" => (": rehearsal plays the steps below and needs no model", TEMPLATE_STEPS),
        _ => ("", ""),
    };
    let text = TEMPLATE.replace("{name}", name.as_str()).replace("{backend}", backend.as_str());
    text.replace("{model}", &model).replace("{how}", how).replace("{steps}", steps)
}

fn write_new(folder: &Path, path: &Path, text: &str) -> Result<(), EngineError> {
    let shown = path.display();
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => EngineError::usage(format!("{shown} exists already"))
            .hint("choose another name, or edit the file"),
        _ => EngineError::usage(format!("could not write {shown}: {error}")),
    };
    std::fs::create_dir_all(folder).map_err(failed)?;
    let mut file = std::fs::File::create_new(path).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)
}
