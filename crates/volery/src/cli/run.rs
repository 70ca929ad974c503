//! `volery run`: starts one run and prints its answer.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use domain::budget::RequestedLimits;
use domain::duration::parse_ms;
use domain::id::RunId;
use domain::inputs::Inputs;
use domain::nearest::nearest;
use domain::permission::{Level, Permission, Rule, ToolKind};
use domain::run::OnDisconnect;

use super::context::Context;
use super::error::CommandError;
use super::event_follower::{EventFollower, Verbosity};
use super::exit::Exit;
use super::last_run::LastConversation;
use super::output::{Out, OutputFormat};
use super::prompt::UnreadInput;
use super::signals::{SignalResponse, Signals};
use super::trust;
use super::watch::{WatchOutcome, watch};
use super::watched_questions::OwnRun;
use super::{last_run, prompt, run_result};
use crate::report::{denial_lines, summary};
use engine::unattended::{self, PromptSource};
use engine::{
    Attachment, EngineError, EngineHandle, ErrorKind, ListAgents, StartRequest, StartedRun, WaitRequest,
    WaitUntil,
};

/// The time between the end of this command and the cancel of its run.
const DISCONNECT_GRACE_MS: u64 = 30_000;
/// The tools that most rules are about, for suggestions.
const TOOLS: [&str; 10] =
    ["Agent", "Bash", "Edit", "Glob", "Grep", "Read", "Task", "WebFetch", "WebSearch", "Write"];

/// Run an agent and wait for its answer
///
/// The answer goes to standard output, progress and warnings go to standard
/// error. On a terminal you see what the agent does and can answer its
/// questions; `volery approve` answers them from another terminal. The first
/// Ctrl-C asks the run to stop and waits until it has ended, the second kills
/// it. If the terminal closes, the run continues: find it with `volery ps`.
///
/// Several words make one prompt. Options may stand between them; after `--`
/// every word belongs to the prompt.
///
/// Examples:
///   volery run reviewer "review the last commit"
///   volery run claude explain this repo to me
///   volery run --continue "and now fix what you found"
///   git diff | volery run reviewer
///   volery run fixer - --dir ../api --timeout 20m < task.md
///   id=$(volery run fixer "fix the build" --background); volery wait $id
///   volery run reporter "nightly" --idempotency-key "nightly-$(date +%F)"
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The agent to run; `volery agents` lists them
    #[arg(required_unless_present = "continue_last")]
    pub(crate) agent: Option<String>,

    /// The task; `-`, or a pipe without this argument, reads standard input (up to 1 MiB)
    pub(crate) prompt: Vec<String>,

    /// The directory that the agent works in [default: the working directory]
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) dir: Option<PathBuf>,

    /// Print the run's id and return at once
    #[arg(long, short)]
    pub(crate) background: bool,

    /// End the run after this time, such as 90s, 5m or 1h30m
    #[arg(long, value_name = "TIME", value_parser = parse_ms)]
    pub(crate) timeout: Option<u64>,

    /// End the run after this time without output
    #[arg(long, value_name = "TIME", value_parser = parse_ms)]
    pub(crate) idle_timeout: Option<u64>,

    /// Continue your last conversation in this directory: that of AGENT, or without AGENT any. The first word is AGENT
    /// if an agent has that name
    #[arg(long = "continue", short = 'c', conflicts_with_all = ["session", "fork"])]
    pub(crate) continue_last: bool,

    /// Continue this conversation: a session id, or the id of a run (at least its last four digits)
    #[arg(long, value_name = "SESSION")]
    pub(crate) session: Option<String>,

    /// Start from a copy of this conversation, named like that of --session; the original stays unchanged
    #[arg(long, value_name = "SESSION", conflicts_with = "session")]
    pub(crate) fork: Option<String>,

    /// Use this model instead of the agent's own
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,

    /// Validate the answer against the JSON schema in this file instead of the agent's own
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) schema: Option<PathBuf>,

    /// Background information, placed before the prompt
    #[arg(long, value_name = "TEXT")]
    pub(crate) context: Option<String>,

    /// A value for one of the agent's inputs; `volery agents show AGENT` lists them
    #[arg(long = "input", value_name = "NAME=VALUE", value_parser = parse_input)]
    pub(crate) inputs: Vec<(String, String)>,

    /// Your own name for this request: a second request with the same key returns the same run
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,

    /// What happens to the run if this command receives SIGTERM
    #[arg(long, value_name = "WHAT")]
    pub(crate) on_disconnect: Option<OnDisconnectChoice>,

    /// Exit with code 3 if the agent was denied something, even if the run succeeded
    #[arg(long, conflicts_with = "background")]
    pub(crate) fail_on_denied: bool,

    /// Replace the agent's permission level; rules can still allow or deny single actions
    #[arg(long, value_name = "LEVEL")]
    pub(crate) permission: Option<LevelChoice>,

    /// Allow the actions that match this rule, for example 'Bash(git log:*)'; can be repeated
    #[arg(long, value_name = "RULE")]
    pub(crate) allow: Vec<Rule>,

    /// Ask before the agent does anything that matches this rule; can be repeated
    #[arg(long, value_name = "RULE")]
    pub(crate) ask: Vec<Rule>,

    /// Deny the actions that match this rule, even if another rule allows them; can be repeated
    #[arg(long, value_name = "RULE")]
    pub(crate) deny: Vec<Rule>,

    /// Deny all questions of the agent at once. Implied without a terminal, or if CI is set
    #[arg(long)]
    pub(crate) unattended: bool,

    /// Print each step of the agent on standard error: tool calls, failures, questions, its sentences
    #[arg(long, short)]
    pub(crate) verbose: bool,
}

/// What was typed for `--on-disconnect`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnDisconnectChoice {
    /// Cancel it after 30 s
    Cancel,
    /// Let it continue
    Continue,
}

/// What was typed for `--permission`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LevelChoice {
    /// Read files, change nothing
    ReadOnly,
    /// Also edit files in the directory
    SafeEdit,
    /// Do everything without asking
    Yolo,
}

impl From<LevelChoice> for Level {
    fn from(choice: LevelChoice) -> Self {
        match choice {
            LevelChoice::ReadOnly => Self::ReadOnly,
            LevelChoice::SafeEdit => Self::SafeEdit,
            LevelChoice::Yolo => Self::Yolo,
        }
    }
}

/// How a command that follows its run prints steps and treats denials.
#[derive(Debug, Clone, Copy)]
pub(super) struct Following {
    pub(super) verbosity: Verbosity,
    pub(super) on_denied: OnDenied,
}

/// The effect of a denial on the exit code of a run that succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnDenied {
    Report,
    Fail,
}

pub(crate) async fn run(mut args: Args, context: &Context, out: &mut Out) -> Result<Exit, CommandError> {
    let continued = match args.continue_last {
        true => Some(conversation_to_continue(&mut args, context, out).await?),
        false => None,
    };
    let following = Following {
        verbosity: Verbosity::steps_if(args.verbose, Verbosity::Warnings),
        on_denied: if args.fail_on_denied { OnDenied::Fail } else { OnDenied::Report },
    };
    let is_prompt_typed = !args.prompt.is_empty() && args.prompt != ["-"];
    let mut unread = is_prompt_typed.then(UnreadInput::default);
    let mut start = into_start(args, context, out)?;
    if let Some(LastConversation { agent, session, directory }) = continued {
        (start.agent, start.session, start.directory) = (agent, Some(session), Some(directory));
    }
    unread.iter_mut().for_each(|input| input.report(context, out));
    let exit = carry_out(start, following, context, out).await;
    unread.iter_mut().for_each(|input| input.report(context, out));
    exit
}

/// Returns the conversation that `--continue` means. The first word counts as the agent only if an agent has that name.
async fn conversation_to_continue(
    args: &mut Args,
    context: &Context,
    out: &mut Out,
) -> Result<LastConversation, CommandError> {
    let app = context.open()?;
    let typed =
        args.dir.as_ref().map_or_else(|| context.directory.clone(), |dir| context.directory.join(dir));
    let directory = typed.canonicalize().map_err(|error| {
        EngineError::usage(format!("could not open the directory {}: {error}", typed.display()))
    })?;
    let directory = context.absolute(Some(&directory))?;
    let known = app.ask(ListAgents { directory: directory.clone() }).await?.agents;
    let agent = args.agent.take_if(|word| known.iter().any(|agent| agent.name == *word));
    args.prompt.splice(0..0, args.agent.take());
    last_run::last_conversation(&app, directory.unwrap_or_default(), agent, out).await
}

/// Starts a run, and follows it unless it runs in the background.
pub(super) async fn carry_out(
    start: StartRequest,
    following: Following,
    context: &Context,
    out: &mut Out,
) -> Result<Exit, CommandError> {
    let attachment = start.attachment;
    // Before the run exists, so that no Ctrl-C is lost between its start and the wait.
    let mut signals = match attachment {
        Attachment::Attached => Signals::listen()?,
        Attachment::Detached => Signals::default_actions(),
    };
    let app = context.open()?;
    let started = match app.ask(start.clone()).await {
        // The project is not trusted: a user at a terminal can trust it now.
        Err(error) if error.kind == ErrorKind::Denied => {
            match trust::offer_trust(&app, start.directory.clone(), out).await? {
                true => app.ask(start).await?,
                false => return Err(error.into()),
            }
        }
        started => started?,
    };
    for warning in &started.warnings {
        out.warning(warning);
    }
    match attachment {
        Attachment::Detached => announce(&started, out),
        Attachment::Attached => {
            let own = OwnRun { run: started.run_id, user_name: context.user_name() };
            let verbosity = following.verbosity;
            let RunExit { exit, has_denials } =
                follow(&app, &started, (own, verbosity), &mut signals, out).await?;
            let is_denied = has_denials && exit == Exit::Done && following.on_denied == OnDenied::Fail;
            Ok(if is_denied { Exit::Denied } else { exit })
        }
    }
}

/// Warns about rules for unknown tools. They still apply, because an agent may have tools of its own.
fn warn_about_unknown_tools(args: &Args, out: &mut Out) {
    for (option, rules) in [("--allow", &args.allow), ("--ask", &args.ask), ("--deny", &args.deny)] {
        for rule in rules {
            let ToolKind::Other(tool) = rule.kind() else { continue };
            let suggestion = match nearest(tool, TOOLS) {
                Some(near) => format!("did you mean {near}?"),
                None => "it counts only for an agent that has a tool of this name".to_owned(),
            };
            out.warning(&format!("{option} {rule}: {tool} is not a known tool; {suggestion}"));
        }
    }
}

fn into_start(args: Args, context: &Context, out: &mut Out) -> Result<StartRequest, CommandError> {
    warn_about_unknown_tools(&args, out);
    let prompt = (!args.prompt.is_empty()).then(|| args.prompt.join(" "));
    if let (None, Some(words)) = (&prompt, args.agent.as_deref().filter(|agent| agent.contains(' '))) {
        let hint = format!("name the agent before the prompt: volery run AGENT {words:?}");
        return Err(EngineError::usage("no agent is named").hint(hint).into());
    }
    let from = match prompt.as_deref() {
        None | Some("-") => PromptSource::StandardInput,
        Some(_) => PromptSource::Arguments,
    };
    // A directive needs no prompt. For any other agent, the engine refuses an empty one.
    let prompt = match prompt {
        None if std::io::stdin().is_terminal() => String::new(),
        prompt => prompt::read(prompt, "prompt", out)?,
    };
    let limits = RequestedLimits {
        timeout_ms: check_timeout(args.timeout)?,
        idle_timeout_ms: args.idle_timeout,
        ..RequestedLimits::default()
    };
    let on_disconnect = args.on_disconnect.map(|choice| match choice {
        OnDisconnectChoice::Cancel => OnDisconnect::Cancel { grace_ms: DISCONNECT_GRACE_MS },
        OnDisconnectChoice::Continue => OnDisconnect::Continue,
    });
    Ok(StartRequest {
        // The agent is absent only with --continue, which finds it later.
        agent: args.agent.unwrap_or_default(),
        prompt,
        directory: context.absolute(args.dir.as_ref())?,
        context: args.context,
        inputs: collect_inputs(args.inputs)?,
        fork: args.fork.is_some(),
        session: args.session.or(args.fork),
        model: args.model,
        output_schema: args.schema.map(|file| read_schema(&file)).transpose()?,
        limits,
        permission: Permission {
            level: args.permission.map(Level::from),
            allow: args.allow,
            ask: args.ask,
            deny: args.deny,
        },
        idempotency_key: args.idempotency_key,
        on_disconnect,
        attachment: if args.background { Attachment::Detached } else { Attachment::Attached },
        unattended: unattended::unattended_command(args.unattended, from),
        ..StartRequest::default()
    })
}

fn read_schema(file: &Path) -> Result<serde_json::Value, CommandError> {
    let wrong = |reason: String| EngineError::usage(format!("the schema {}: {reason}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
    Ok(serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?)
}

/// Returns the limit on the time of a run, which cannot be 0.
pub(super) fn check_timeout(typed: Option<u64>) -> Result<Option<u64>, EngineError> {
    match typed {
        Some(0) => Err(EngineError::usage("--timeout must be more than 0")),
        Some(_) | None => Ok(typed),
    }
}

fn parse_input(typed: &str) -> Result<(String, String), String> {
    let (name, value) = typed.split_once('=').ok_or("write it as NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn collect_inputs(typed: Vec<(String, String)>) -> Result<Inputs, CommandError> {
    let mut inputs = Inputs::new();
    for (name, value) in typed {
        if inputs.insert(name.clone(), value.into()).is_some() {
            let message = format!("the input {name} is given twice");
            return Err(EngineError::usage(message).into());
        }
    }
    Ok(inputs)
}

fn announce(started: &StartedRun, out: &mut Out) -> Result<Exit, CommandError> {
    match out.format() {
        OutputFormat::Json => out.json(started)?,
        OutputFormat::Text => out.line(&started.run_id.to_string())?,
    }
    let short = started.run_id.short();
    if started.reused {
        out.hint("the idempotency key was known: this is the run of the earlier request");
    }
    out.hint(&format!("volery wait {short} fetches the answer, volery logs -f {short} follows its steps"));
    Ok(Exit::Done)
}

async fn follow(
    app: &EngineHandle,
    started: &StartedRun,
    (own, verbosity): (OwnRun, Verbosity),
    signals: &mut Signals,
    out: &mut Out,
) -> Result<RunExit, CommandError> {
    let run = started.run_id;
    if started.reused {
        out.note(&format!("the idempotency key was known: this is the earlier run {}", run.short()));
    }
    let request = WaitRequest { runs: vec![run.to_string()], until: WaitUntil::All, timeout_ms: None };
    let user_name = own.user_name.clone();
    let follower = EventFollower::new(verbosity, &request.runs);
    let mut follower = follower.with_known_warnings(&started.warnings);
    match watch(app, request, Some(own), (signals, &mut follower), out).await? {
        WatchOutcome::Left(response) => {
            Ok(RunExit { exit: leave(app, run, response, out), has_denials: false })
        }
        WatchOutcome::Waited { interrupted, .. } => {
            let RunExit { exit, has_denials } = show_end(app, run, (&user_name, verbosity), out).await?;
            app.sweep_if_due();
            // After Ctrl-C the exit code says so, even if the run still delivered a result.
            let exit = if interrupted && exit != Exit::Done { Exit::Interrupted } else { exit };
            Ok(RunExit { exit, has_denials })
        }
    }
}

/// How a run ended for its command.
struct RunExit {
    exit: Exit,
    has_denials: bool,
}

async fn show_end(
    app: &EngineHandle,
    run: RunId,
    (user_name, verbosity): (&str, Verbosity),
    out: &mut Out,
) -> Result<RunExit, CommandError> {
    let run = run.to_string();
    let detail = match out.format() {
        OutputFormat::Json => {
            let detail = run_result::fetch_whole(app, &run).await?;
            out.json(&detail)?;
            out.flush()?;
            detail
        }
        OutputFormat::Text => run_result::print(app, &run, out).await?,
    };
    let view = &detail.run;
    out.note(&summary(view));
    // With --verbose, the command has already printed a line for each denial.
    if verbosity != Verbosity::Steps {
        denial_lines(view, user_name).iter().for_each(|line| out.warning(line));
    }
    let exit = Exit::from_run(view);
    if let Some(advice) = &view.after_interruption {
        out.hint(&advice.sentence());
    } else if exit != Exit::Done {
        out.hint(&format!("volery show {} tells all that is known about it", view.short_id));
    }
    Ok(RunExit { exit, has_denials: view.denials_count > 0 })
}

fn leave(app: &EngineHandle, run: RunId, response: SignalResponse, out: &mut Out) -> Exit {
    if response == SignalResponse::Detach {
        app.detach(run);
    }
    app.disconnect();
    let fate = match response {
        SignalResponse::Detach => "goes on",
        SignalResponse::Leave => "is left to its on_disconnect",
        SignalResponse::Cancel | SignalResponse::CancelNow | SignalResponse::GiveUp => "is being killed",
    };
    let short = run.short();
    out.note(&format!("left; the run {short} {fate}"));
    out.hint(&format!("volery wait {short} fetches its answer"));
    Exit::Interrupted
}
