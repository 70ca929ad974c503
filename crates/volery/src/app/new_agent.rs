//! Writes the commented beginning of an agent's file.

use std::io::Write;
use std::path::Path;

use domain::agent::{Agent, Format, Layer, Source};
use domain::id::{AgentName, BackendName, IdError};

use super::engine::Engine;
use super::{AgentOwner, AppError, NewAgent, NewAgentView};
use crate::registry;

const STARTER: &str = include_str!("starter.md");
const STARTER_STEPS: &str = include_str!("starter_steps.yaml");

const NO_MODEL: &str = "# model: the backend's default if left out";
/// Stands for any.
const SOME_MODEL: &str = "model";

/// The file that is passed over in every folder of agents.
const EXPLANATION: &str = "readme";

impl Engine {
    pub(super) fn write_agent(&self, ask: &NewAgent) -> Result<NewAgentView, AppError> {
        let usage = |error: IdError| AppError::usage(error.to_string());
        let name: AgentName = ask.name.parse().map_err(usage)?;
        if !name.is_plain() {
            let message = format!("{name} cannot be the name of a file");
            return Err(AppError::usage(message).hint("choose a name without ':' and '/'"));
        }
        let backend: BackendName = ask.backend.parse().map_err(usage)?;
        let (directory, catalogue) = self.place(ask.directory.as_deref())?;
        let project = match ask.owner {
            AgentOwner::Project => Some(catalogue.project.as_str()),
            AgentOwner::User => None,
        };
        let Some(folder) = registry::own_folder(project) else {
            return Err(AppError::usage("there is no place for the user's agents: HOME is not set"));
        };
        if name.as_str().eq_ignore_ascii_case(EXPLANATION) {
            let message = format!("{name}.md is taken for what explains a folder, and never for an agent");
            return Err(AppError::usage(message).hint("choose another name"));
        }
        if project.is_some_and(|project| registry::would_leave(&folder, Path::new(project))) {
            let message = format!(
                "{} leads out of the project by a symbolic link, so agents in it are not read",
                folder.display()
            );
            let hint = "put a folder in the place of the link, or say --user for an agent of your own";
            return Err(AppError::usage(message).hint(hint));
        }
        let path = folder.join(format!("{name}.md"));
        let source =
            Source { file: path.display().to_string(), format: Format::Volery, layer: Layer::Project };
        // An agent whose backend nobody knows could not run.
        let mut agent = Agent::new(name.clone(), backend.clone(), source);
        agent.model.clone_from(&ask.model);
        let configured = self.configured_backend(&catalogue, &agent)?;
        if let Err(error) = self.drive(&catalogue, &agent, &configured, &directory)
            && agent.model.is_none()
        {
            agent.model = Some(SOME_MODEL.to_owned());
            // Where a model mends it, the file would be wrong without one.
            if self.drive(&catalogue, &agent, &configured, &directory).is_ok() {
                return Err(AppError::usage(error.message).hint("say which: --model NAME"));
            }
        }
        write_new(&folder, &path, &starter(&name, &backend, ask.model.as_deref()))?;
        let hides = catalogue.agents.get(&name).map(|known| known.source.file.clone());
        Ok(NewAgentView { name: name.to_string(), file: path.display().to_string(), hides })
    }
}

fn starter(name: &AgentName, backend: &BackendName, model: Option<&str>) -> String {
    let model =
        model.map_or_else(|| NO_MODEL.to_owned(), |model| format!("model: {}", serde_json::json!(model)));
    let (how, steps) = match backend.as_str() {
        "rehearsal" => (": rehearsal plays the steps below and needs no model", STARTER_STEPS),
        _ => ("", ""),
    };
    let named = STARTER.replace("{name}", name.as_str()).replace("{backend}", backend.as_str());
    named.replace("{model}", &model).replace("{how}", how).replace("{steps}", steps)
}

fn write_new(folder: &Path, path: &Path, text: &str) -> Result<(), AppError> {
    let shown = path.display();
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            AppError::usage(format!("{shown} exists already")).hint("choose another name, or edit the file")
        }
        _ => AppError::usage(format!("could not write {shown}: {error}")),
    };
    std::fs::create_dir_all(folder).map_err(failed)?;
    let mut file = std::fs::File::create_new(path).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)
}
