//! The engine behind every door: plans, starts, watches and ends runs. A door inside a run gets a relay to the
//! run's worker instead, behind the same methods.

mod agent_page;
mod agents;
mod configuration;
mod container;
mod contract;
mod conversation;
mod engine;
mod error;
mod fallbacks;
mod grants;
mod honour;
mod housekeeping;
mod iac_entries;
mod index_connection;
mod leashes;
mod lists;
mod look;
mod machine;
mod new_agent;
mod own_folders;
mod owner;
mod project_programs;
mod relay;
mod request;
mod resume;
mod runs;
mod start;
mod sums;
mod tokens;
mod unasked;
mod upkeep;
mod view;
mod wait;

use std::sync::Arc;

use domain::harmless::clean;
use domain::id::RunId;
use domain::run::Caller;

pub use crate::registry::{Folder, Prompts};

pub use configuration::{ConfigView, SettingView, read_configuration};
pub use container::find_container_engine;
pub use contract::{Contract, LoginFound, try_contracts};
pub use engine::{AppContext, Engine};
pub use error::{AppError, ErrorKind};
pub use honour::chooses_sessions;
pub use look::order_cancel;
pub use machine::*;
pub use request::*;
pub use runs::ended_view;
pub use start::{StartedChild, check_installed};
pub use sums::{AgentSums, Sums};
pub use tokens::*;
pub use upkeep::*;
pub use view::*;

use relay::{Relay, own_run_tag};

pub use crate::iac::Entry;
pub use crate::report::iac::Excerpt;
pub(crate) use unasked::section_of;

fn not_inside() -> AppError {
    AppError::denied("inside a run, only its own runs can be asked about")
}

/// What a door talks to.
pub struct App {
    way: Way,
    config: definition::config::Config,
}

enum Way {
    Own(Arc<Engine>),
    Relayed(Relay),
}

impl App {
    /// Opens the engine, or the way to it from inside a run.
    pub fn open(context: AppContext) -> Result<Self, AppError> {
        let directory = context.directory.to_string_lossy().into_owned();
        let config = crate::registry::load(&crate::registry::find_project(&directory)).config.clone();
        let way = match own_run_tag()? {
            Some(tag) => Way::Relayed(Relay::new(tag)?),
            None => Way::Own(Engine::open(context)?),
        };
        Ok(Self { way, config })
    }

    /// The layered configuration of the door's own directory.
    pub fn config(&self) -> &definition::config::Config {
        &self.config
    }

    /// The MCP door learns its client's name only with the first message.
    pub fn set_caller(&self, name: &str) {
        if let Way::Own(engine) = &self.way {
            engine.set_caller(name);
        }
    }

    /// Returns who asks through this door; nothing inside a run, where that is the run's own affair.
    pub fn caller(&self) -> Option<Caller> {
        match &self.way {
            Way::Own(engine) => Some(engine.caller()),
            Way::Relayed(_) => None,
        }
    }

    pub async fn list_agents(&self, ask: ListAgents) -> Result<AgentList, AppError> {
        match &self.way {
            Way::Own(engine) => engine.list_agents(ask),
            Way::Relayed(relay) => relay.ask(Request::ListAgents(ask), &mut |_| {}).await,
        }
    }

    /// Returns the agents of one folder, as they are defined: a dialect offers them as its own. Not for doors inside a
    /// run, which start only what their project defines.
    pub async fn read_agents(&self, folder: Folder) -> Result<FoundAgents, AppError> {
        match &self.way {
            Way::Own(engine) => engine.off_loop(move |_| Ok(agents::read_folder(&folder))).await,
            Way::Relayed(_) => {
                Err(AppError::denied("inside a run, only the project's own agents can be asked for"))
            }
        }
    }

    /// Returns the directory that this door stands in.
    pub fn directory(&self) -> Option<std::path::PathBuf> {
        match &self.way {
            Way::Own(engine) => Some(engine.directory.clone()),
            Way::Relayed(_) => None,
        }
    }

    /// Tells whether this door is inside a run.
    pub fn is_inside_run(&self) -> bool {
        matches!(self.way, Way::Relayed(_))
    }

    /// Returns one agent as it is understood, and how it would be started.
    pub async fn show_agent(&self, ask: ShowAgent) -> Result<AgentPage, AppError> {
        match &self.way {
            Way::Own(engine) => engine.show_agent(&ask),
            Way::Relayed(relay) => relay.ask(Request::ShowAgent(ask), &mut |_| {}).await,
        }
    }

    /// Accepts a run: when this returns, it is on disk and will be carried out.
    pub async fn start(&self, ask: Start) -> Result<Started, AppError> {
        match &self.way {
            Way::Own(engine) => engine.start(ask).await,
            Way::Relayed(relay) => relay.ask(Request::Start(Box::new(ask)), &mut |_| {}).await,
        }
    }

    /// Waits for runs to end; calls `progress` at once and then with every sign of life.
    pub async fn wait(
        &self,
        ask: Wait,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<Waited, AppError> {
        match &self.way {
            Way::Own(engine) => engine.wait(ask, progress).await,
            Way::Relayed(relay) => relay.ask(Request::Wait(ask), progress).await,
        }
    }

    pub async fn get_run(&self, ask: GetRun) -> Result<RunDetail, AppError> {
        match &self.way {
            Way::Own(engine) => engine.get_run(ask).await,
            Way::Relayed(relay) => {
                let mut detail: RunDetail = relay.ask(Request::GetRun(ask), &mut |_| {}).await?;
                // Who asks from inside a run is a model, whichever door it uses.
                detail.run.clean();
                Ok(detail)
            }
        }
    }

    pub async fn list_runs(&self, ask: ListRuns) -> Result<RunList, AppError> {
        match &self.way {
            Way::Own(engine) => engine.list_runs(ask).await,
            Way::Relayed(relay) => relay.ask(Request::ListRuns(ask), &mut |_| {}).await,
        }
    }

    pub async fn cancel(&self, ask: Cancel) -> Result<Cancelled, AppError> {
        match &self.way {
            Way::Own(engine) => engine.cancel(ask).await,
            Way::Relayed(relay) => relay.ask(Request::Cancel(ask), &mut |_| {}).await,
        }
    }

    pub async fn answer(&self, ask: Answer) -> Result<Answered, AppError> {
        match &self.way {
            Way::Own(engine) => engine.answer(ask).await,
            Way::Relayed(relay) => relay.ask(Request::Answer(ask), &mut |_| {}).await,
        }
    }

    pub async fn health(&self, ask: Health) -> Result<HealthReport, AppError> {
        match &self.way {
            Way::Own(engine) => engine.health(ask).await,
            Way::Relayed(relay) => relay.ask(Request::Health(ask), &mut |_| {}).await,
        }
    }

    pub async fn read_output(&self, ask: ReadOutput) -> Result<OutputPage, AppError> {
        match &self.way {
            Way::Own(engine) => engine.read_output(&ask),
            Way::Relayed(relay) => {
                let mut page: OutputPage = relay.ask(Request::ReadOutput(ask), &mut |_| {}).await?;
                clean(&mut page.text);
                Ok(page)
            }
        }
    }

    /// Returns the runs that the project of this door shows in `IAC.md`, the newest first.
    pub async fn iac_entries(&self) -> Result<Vec<Entry>, AppError> {
        match &self.way {
            Way::Own(engine) => engine.iac_entries().await,
            Way::Relayed(_) => Err(not_inside()),
        }
    }

    /// Returns one of them, with its answer or both ends of it; nothing if the project has none of this id.
    pub async fn iac_entry(
        &self,
        id: String,
        bytes_max: usize,
    ) -> Result<Option<(Entry, Excerpt)>, AppError> {
        match &self.way {
            Way::Own(engine) => engine.iac_entry(id, bytes_max).await,
            Way::Relayed(_) => Err(not_inside()),
        }
    }

    /// Returns the project of this door.
    pub fn project(&self) -> Option<std::path::PathBuf> {
        self.directory().map(|directory| crate::registry::find_project(&directory.to_string_lossy()).into())
    }

    /// Tells whether somebody has marked it as one, by `.git` or `.volery`.
    pub fn is_in_project(&self) -> bool {
        let directory = self.directory().unwrap_or_default();
        crate::registry::marked_project(&directory.to_string_lossy()).is_some()
    }

    /// Returns what is worth saying about a file with keys: who else can have them.
    pub async fn doubts_about_keys(&self, file: std::path::PathBuf) -> Vec<String> {
        match &self.way {
            Way::Own(engine) => engine.doubts_about_keys(file).await,
            Way::Relayed(_) => Vec::new(),
        }
    }

    /// Hands in the answer of the run that this door is in.
    pub async fn submit_result(&self, text: String) -> Result<(), AppError> {
        match &self.way {
            Way::Own(_) => {
                Err(AppError::usage("an answer is handed in from inside a run, and this is outside"))
            }
            Way::Relayed(relay) => relay.ask(Request::SubmitResult(SubmitResult { text }), &mut |_| {}).await,
        }
    }

    /// The caller was given a handle instead of a result: the run is asynchronous from here on.
    pub fn detach(&self, run: RunId) {
        if let Way::Own(engine) = &self.way {
            engine.leashes.detach(run);
        }
    }

    /// Says over every leash what shall happen to the runs of this door. Never waits.
    pub fn leave(&self) {
        if let Way::Own(engine) = &self.way {
            engine.leashes.leave();
            crate::point::reach("door_left");
        }
    }
}
