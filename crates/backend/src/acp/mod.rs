//! Agents that speak the Agent Client Protocol over their standard streams: those that are known, each with a name of
//! its own, and any command of a configuration that says `protocol = "acp"`.
//!
//! Only the types of the protocol come from its library: a reader here takes bytes and gives reports, and has no use for
//! a runtime that would read and write by itself.

mod agents;
mod asks;
mod beside;
mod calls;
mod failure;
mod message;
mod reader;
mod session;
mod usage;

use std::path::Path;

use domain::agent::Delegates;
use domain::permission::{Level, Permission, Rule, ToolKind};
use domain::run::RunSpec;
use domain::setup::PromptMode;
use serde::Deserialize;
use serde_json::Value;

use crate::contract::{
    Backend, Capabilities, Drive, Feed, Place, PrepareError, ProcessDrive, ProjectProgram, Setting,
    inexpressible,
};
use crate::logins;
use crate::loosened;
use crate::mcp_config::{self, OWN_SERVER};
use crate::program::Program;
use crate::user::User;
use crate::{combined_prompt, cumulative, worded_schema};
use agents::{Asks, Counts, Habits, Modes, STRANGER, ServersBy};
pub use agents::{KNOWN, Known};
use asks::Free;
use calls::Servers;
use reader::Conversation;
use session::Order;

const KIND: &str = "acp";

/// A command of a configuration.
pub struct Acp;

/// A command as the configuration's reader wrote it into the run's spec.
#[derive(Deserialize)]
struct Options {
    command: Vec<String>,
    #[serde(default)]
    env: Vec<String>,
}

impl Backend for Acp {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn capabilities(&self, _options: &Value) -> Capabilities {
        capabilities(&STRANGER)
    }

    fn unenforceable(&self, permission: &Permission, _options: &Value) -> Vec<String> {
        unenforceable(permission, STRANGER.asks)
    }

    fn prepare(&self, spec: &RunSpec, place: &Place<'_>) -> Result<Drive, PrepareError> {
        let wrong = |reason: String| PrepareError { kind: KIND, reason };
        let options: Options =
            serde_json::from_value(spec.backend.options.clone()).map_err(|error| wrong(error.to_string()))?;
        if options.command.is_empty() {
            return Err(wrong("its command is empty".to_owned()));
        }
        Ok(Drive::Process(ProcessDrive {
            argv: options.command,
            env: options.env,
            known_env: Vec::new(),
            set: Vec::new(),
            feed: Feed::Open(message::greeting()),
            files: Vec::new(),
            reader: Box::new(conversation(spec, place, STRANGER)),
        }))
    }
}

impl Backend for Known {
    fn kind(&self) -> &'static str {
        self.name
    }

    fn program(&self) -> Option<&'static Program> {
        Some(self.program)
    }

    fn variables(&self) -> Vec<&'static str> {
        self.variables.concat()
    }

    fn capabilities(&self, _options: &Value) -> Capabilities {
        capabilities(&self.habits)
    }

    fn unenforceable(&self, permission: &Permission, _options: &Value) -> Vec<String> {
        unenforceable(permission, self.habits.asks)
    }

    fn ungranted(&self, permission: &Permission, _options: &Value) -> Vec<String> {
        let is_held = self.habits.beside.held.is_some() && !is_free(permission);
        let delegates = permission.allow.iter().filter(|rule| is_held && rule.kind() == ToolKind::Delegate);
        delegates.map(|rule| format!("the rule allow {rule}")).collect()
    }

    fn is_followed(&self) -> bool {
        self.habits.is_followed
    }

    /// What the program without ACP can leave out, nothing turns off here.
    fn project_programs(&self, folders: &[&Path]) -> Vec<ProjectProgram> {
        let found = self.project_programs.map(|found| found(folders)).unwrap_or_default();
        found.into_iter().map(|program| ProjectProgram { can_be_off: false, ..program }).collect()
    }

    fn adapt(
        &self,
        spec: &RunSpec,
        drive: &mut ProcessDrive,
        place: &Place<'_>,
        user: &User<'_>,
    ) -> Result<(), PrepareError> {
        let wrong = |reason| PrepareError { kind: self.name, reason };
        if let Some(loosened_by) = self.loosened_by {
            loosened::check(spec, user, loosened_by).map_err(wrong)?;
        }
        if logins::is_logged_out(self.name, user) {
            drive.reader.expect_no_login();
        }
        let Some(without_others) = self.without_others else { return Ok(()) };
        without_others(spec, drive, place, user).map_err(wrong)
    }

    fn prepare(&self, spec: &RunSpec, place: &Place<'_>) -> Result<Drive, PrepareError> {
        let wanted = self.program.names.join(" or ");
        let found = place.program(&wanted).map_err(|reason| PrepareError { kind: self.name, reason })?;
        let mut argv = found.argv.clone();
        argv.extend(self.arguments.iter().map(|word| (*word).to_owned()));
        let mut files = Vec::new();
        let mut conversation = conversation(spec, place, self.habits);
        if let Some(by) = &self.servers_by {
            conversation.leave_servers_out();
            if let ServersBy::File { argument, file } = by {
                let file = file(spec, place);
                argv.push(format!("{argument}{}", place.file(&file.name)));
                files.push(file);
            }
        }
        let set =
            self.set.iter().map(|(name, value)| ((*name).to_owned(), Setting::Plain((*value).to_owned())));
        let mut drive = ProcessDrive {
            argv,
            env: Vec::new(),
            known_env: self.variables.concat().into_iter().map(ToOwned::to_owned).collect(),
            set: set.collect(),
            feed: Feed::Open(message::greeting()),
            files,
            reader: Box::new(conversation),
        };
        self.habits.beside.tell(spec, place, &mut drive);
        Ok(Drive::Process(drive))
    }
}

/// What the protocol can do; what an agent does not offer is told when it has said so.
fn capabilities(habits: &Habits) -> Capabilities {
    Capabilities {
        system_prompt: true,
        model: true,
        session: true,
        names_sessions: true,
        usage: habits.counts != Counts::Nothing,
        prices: habits.prices,
        ask: true,
        process: true,
        replaces_prompt: habits.replaces_prompt,
        effort: true,
        tools: habits.beside.tools.is_some(),
        skips_context: habits.beside.no_context.is_some(),
        max_turns: habits.beside.max_turns.is_some(),
        mcp_servers: true,
        output_schema: true,
        extra_directories: true,
        delegates: true,
        forks: habits.forks,
        ..Capabilities::default()
    }
}

/// Names what nobody can hold the agent to, since it need not ask.
fn unenforceable(permission: &Permission, asks: Asks) -> Vec<String> {
    match asks {
        Asks::Everything => Vec::new(),
        Asks::Unknown | Asks::AsSet => {
            // What is allowed holds nobody back.
            let level = permission.level.filter(|level| *level != Level::Yolo);
            inexpressible(&Permission { level, allow: Vec::new(), ..permission.clone() })
        }
        Asks::Changes => {
            unasked(permission, |kind| !matches!(kind, ToolKind::Edit | ToolKind::Mcp { .. }), None)
        }
        Asks::ChangesBeyondGit => {
            // At safe-edit such an edit is allowed.
            let level = permission.level.filter(|level| *level == Level::ReadOnly);
            unasked(permission, |kind| !matches!(kind, ToolKind::Mcp { .. }), level)
        }
    }
}

/// Names a level, and the rules about tools that are used without a question.
fn unasked(permission: &Permission, is_unasked: fn(ToolKind) -> bool, level: Option<Level>) -> Vec<String> {
    let of = |rules: &[Rule]| rules.iter().filter(|rule| is_unasked(rule.kind())).cloned().collect();
    let (ask, deny) = (of(&permission.ask), of(&permission.deny));
    inexpressible(&Permission { level, ask, deny, ..Permission::default() })
}

fn conversation(spec: &RunSpec, place: &Place<'_>, habits: Habits) -> Conversation {
    let setup = &spec.setup;
    let permission = &setup.permission;
    let replaces = setup.prompt_mode == PromptMode::Replace && habits.replaces_prompt;
    let order = Order {
        name: spec.backend.name.as_str().to_owned(),
        habits,
        directory: spec.directory.clone(),
        directories: setup.extra_directories.clone(),
        session: spec.session.as_ref().map(|session| session.as_str().to_owned()),
        fork: spec.fork,
        servers: session::servers(spec, place),
        variables: session::variables(spec),
        system: session::system(&spec.system_prompt, replaces),
        prompt: plain(worded_schema::prompt(spec)),
        combined: plain(combined_prompt::combined(spec)),
        mode: habits.modes.map(|modes| mode(modes, permission)),
        model: spec.model.clone(),
        effort: setup.effort.clone().filter(|_| habits.beside.effort.is_none()),
        meta: habits.beside.session_meta(spec, habits.session_meta),
        structured: setup.output_schema.is_some(),
    };
    let free = Free {
        everything: is_free(permission),
        own_server: spec.delegates != Delegates::Nobody && !restricting(permission).any(speaks_of_own_server),
    };
    let are_restricted = restricting(permission).any(|rule| matches!(rule.kind(), ToolKind::Mcp { .. }));
    let servers = Servers { names: mcp_config::names(spec), are_restricted };
    let mut conversation = Conversation::new(order, free, cumulative::used_before(spec, place), servers);
    conversation.look_for_failures_in(place.work);
    conversation
}

/// Returns a prompt that is no command of the agent's, which many take a slash for.
fn plain(prompt: String) -> String {
    if prompt.starts_with('/') { format!("\n{prompt}") } else { prompt }
}

fn mode(modes: Modes, permission: &Permission) -> &'static str {
    match permission.level {
        Some(Level::ReadOnly) => modes.read_only,
        // Where it may edit by its mode, it would not ask about an edit that rules speak of.
        _ if restricting(permission).any(speaks_of_edits) => modes.read_only,
        Some(Level::Yolo) if is_free(permission) => modes.free,
        Some(Level::SafeEdit | Level::Yolo) | None => modes.safe_edit,
    }
}

/// Tells whether nothing would be denied or asked.
fn is_free(permission: &Permission) -> bool {
    permission.level == Some(Level::Yolo) && restricting(permission).next().is_none()
}

fn restricting(permission: &Permission) -> impl Iterator<Item = &Rule> {
    permission.ask.iter().chain(&permission.deny)
}

fn speaks_of_edits(rule: &Rule) -> bool {
    matches!(rule.kind(), ToolKind::Edit | ToolKind::Everything)
}

fn speaks_of_own_server(rule: &Rule) -> bool {
    match rule.kind() {
        ToolKind::Mcp { server, .. } => server == OWN_SERVER,
        kind => kind == ToolKind::Everything,
    }
}

#[cfg(test)]
mod tests;
