//! `volery run`: one run, and its answer.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use domain::budget::AskedLimits;
use domain::duration::parse_ms;
use domain::id::RunId;
use domain::inputs::Inputs;
use domain::nearest::nearest;
use domain::permission::{Level, Permission, Rule, ToolKind};
use domain::run::OnDisconnect;

use super::context::Context;
use super::error::CommandError;
use super::exit::Exit;
use super::out::{Format, Out};
use super::signals::{Response, Signals};
use super::trust;
use super::watch::{Own, Watched, watch};
use super::{prompt, result};
use crate::app::{App, AppError, Attachment, ErrorKind, Start, Started, Wait, WaitUntil};
use crate::attendance::{self, PromptFrom};
use crate::report::{denials, summary};

/// Between the leaving of this command and the cancel of its run.
const DISCONNECT_GRACE_MS: u64 = 30_000;
/// Names of tools that rules are mostly about.
const TOOLS: [&str; 10] =
    ["Agent", "Bash", "Edit", "Glob", "Grep", "Read", "Task", "WebFetch", "WebSearch", "Write"];

/// Run an agent and wait for its answer
///
/// The answer goes to standard output, what happened to standard error. On a
/// terminal you see what the agent does, and answer what it asks, there or with
/// `volery approve` elsewhere. The first Ctrl-C asks the run to stop
/// and waits for its end, the second kills it now. When the terminal goes away
/// the run goes on: find it with `volery ps`.
///
/// Examples:
///   volery run reviewer "review the last commit"
///   git diff | volery run reviewer
///   volery run fixer - --dir ../api --timeout 20m < task.md
///   id=$(volery run fixer "mend the build" --background); volery wait $id
///   volery run reporter "nightly" --idempotency-key "nightly-$(date +%F)"
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The agent to run; `volery agents` lists them
    pub(crate) agent: String,

    /// What to do; `-`, or nothing with text piped in, reads standard input (up to 1 MiB)
    pub(crate) prompt: Option<String>,

    /// Where the agent works [default: the project of the working directory]
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

    /// Continue this conversation: the id that an earlier run of the agent tells
    #[arg(long, value_name = "SESSION")]
    pub(crate) session: Option<String>,

    /// Begin a copy of this conversation and leave the conversation itself as it is
    #[arg(long, value_name = "SESSION", conflicts_with = "session")]
    pub(crate) fork: Option<String>,

    /// Ask for this model instead of the agent's own
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,

    /// A file with the JSON schema that the answer must satisfy, instead of the agent's own
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) schema: Option<PathBuf>,

    /// Background that is put before the prompt
    #[arg(long, value_name = "TEXT")]
    pub(crate) context: Option<String>,

    /// A value that the agent asks for beside the prompt; `volery agents show AGENT` names them
    #[arg(long = "input", value_name = "NAME=VALUE", value_parser = parse_input)]
    pub(crate) inputs: Vec<(String, String)>,

    /// Your own name for this request: the same key again gives the same run
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,

    /// What becomes of the run when this command is told to end (SIGTERM)
    #[arg(long, value_name = "WHAT")]
    pub(crate) on_disconnect: Option<OnDisconnectChoice>,

    /// The most that the agent may do without a rule, instead of its own level
    #[arg(long, value_name = "LEVEL")]
    pub(crate) permission: Option<LevelChoice>,

    /// Allow the agent what this rule names, for example 'Bash(git log:*)'; may be given several times
    #[arg(long, value_name = "RULE")]
    pub(crate) allow: Vec<Rule>,

    /// Ask before the agent does what this rule names
    #[arg(long, value_name = "RULE")]
    pub(crate) ask: Vec<Rule>,

    /// Deny the agent what this rule names, whatever allows it
    #[arg(long, value_name = "RULE")]
    pub(crate) deny: Vec<Rule>,

    /// Nobody answers questions: deny them at once. Implied without a terminal, and where CI is set
    #[arg(long)]
    pub(crate) unattended: bool,
}

/// What was typed for `--on-disconnect`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnDisconnectChoice {
    /// It is cancelled after 30 s
    Cancel,
    /// It goes on
    Continue,
}

/// What was typed for `--permission`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LevelChoice {
    /// It looks, and changes nothing
    ReadOnly,
    /// It also edits files in its directory
    SafeEdit,
    /// It does everything, unasked
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

pub(crate) async fn run(args: Args, context: &Context, out: &mut Out) -> Result<Exit, CommandError> {
    let start = into_start(args, context, out)?;
    carry_out(start, context, out).await
}

/// Starts a run, and stays with it if it is not asked to go on by itself.
pub(super) async fn carry_out(start: Start, context: &Context, out: &mut Out) -> Result<Exit, CommandError> {
    let attachment = start.attachment;
    // From before the run exists, so that no Ctrl-C falls between its start and the wait.
    let mut signals = match attachment {
        Attachment::Attached => Signals::listen()?,
        Attachment::Detached => Signals::default_actions(),
    };
    let app = context.open()?;
    let started = match app.start(start.clone()).await {
        // Programs of a project that nobody has agreed to: a person at a terminal can.
        Err(error) if error.kind == ErrorKind::Denied => {
            match trust::offer(&app, start.directory.clone(), out).await? {
                true => app.start(start).await?,
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
            let own = Own { run: started.run_id, person: context.person() };
            follow(&app, &started, own, &mut signals, out).await
        }
    }
}

/// Warns of rules about tools that nobody here knows. They are passed on: an agent may have tools of its own.
fn warn_of_unknown_tools(args: &Args, out: &mut Out) {
    for (option, rules) in [("--allow", &args.allow), ("--ask", &args.ask), ("--deny", &args.deny)] {
        for rule in rules {
            let ToolKind::Other(tool) = rule.kind() else { continue };
            let meant = match nearest(tool, TOOLS) {
                Some(near) => format!("did you mean {near}?"),
                None => "it counts only for an agent that has a tool of this name".to_owned(),
            };
            out.warning(&format!("{option} {rule}: {tool} is not a known tool; {meant}"));
        }
    }
}

fn into_start(args: Args, context: &Context, out: &mut Out) -> Result<Start, CommandError> {
    warn_of_unknown_tools(&args, out);
    let from = match args.prompt.as_deref() {
        None | Some("-") => PromptFrom::StandardInput,
        Some(_) => PromptFrom::Arguments,
    };
    let prompt = prompt::read(args.prompt, "prompt", out)?;
    let limits = AskedLimits {
        timeout_ms: args.timeout,
        idle_timeout_ms: args.idle_timeout,
        ..AskedLimits::default()
    };
    let on_disconnect = args.on_disconnect.map(|choice| match choice {
        OnDisconnectChoice::Cancel => OnDisconnect::Cancel { grace_ms: DISCONNECT_GRACE_MS },
        OnDisconnectChoice::Continue => OnDisconnect::Continue,
    });
    Ok(Start {
        agent: args.agent,
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
        unattended: attendance::of_command(args.unattended, from),
        ..Start::default()
    })
}

fn read_schema(file: &Path) -> Result<serde_json::Value, CommandError> {
    let wrong = |reason: String| AppError::usage(format!("the schema {}: {reason}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
    Ok(serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?)
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
            return Err(AppError::usage(message).into());
        }
    }
    Ok(inputs)
}

fn announce(started: &Started, out: &mut Out) -> Result<Exit, CommandError> {
    match out.format() {
        Format::Json => out.json(started)?,
        Format::Text => out.line(&started.run_id.to_string())?,
    }
    let short = started.run_id.short();
    if started.reused {
        out.hint("the idempotency key was known: this is the run of the earlier request");
    }
    out.hint(&format!("volery wait {short} fetches the answer, volery logs -f {short} follows the output"));
    Ok(Exit::Done)
}

async fn follow(
    app: &App,
    started: &Started,
    own: Own,
    signals: &mut Signals,
    out: &mut Out,
) -> Result<Exit, CommandError> {
    let run = started.run_id;
    if started.reused {
        out.note(&format!("the idempotency key was known: this is the earlier run {}", run.short()));
    }
    let ask = Wait { runs: vec![run.to_string()], until: WaitUntil::All, timeout_ms: None };
    match watch(app, ask, Some(own), signals, out).await? {
        Watched::Left(response) => Ok(leave(app, run, response, out)),
        Watched::Waited { interrupted, .. } => {
            let exit = show_end(app, run, out).await?;
            app.sweep_if_due();
            // Whoever pressed Ctrl-C is told so, whatever the run could still hand back.
            Ok(if interrupted && exit != Exit::Done { Exit::Interrupted } else { exit })
        }
    }
}

async fn show_end(app: &App, run: RunId, out: &mut Out) -> Result<Exit, CommandError> {
    let run = run.to_string();
    let detail = match out.format() {
        Format::Json => {
            let detail = result::whole(app, &run).await?;
            out.json(&detail)?;
            out.flush()?;
            detail
        }
        Format::Text => result::print(app, &run, out).await?,
    };
    let view = &detail.run;
    out.note(&summary(view));
    denials(view).iter().for_each(|denial| out.warning(denial));
    let exit = Exit::of_run(view);
    if exit != Exit::Done {
        out.hint(&format!("volery show {} tells all that is known about it", view.short_id));
    }
    Ok(exit)
}

fn leave(app: &App, run: RunId, response: Response, out: &mut Out) -> Exit {
    if response == Response::Detach {
        app.detach(run);
    }
    app.leave();
    let fate = match response {
        Response::Detach => "goes on",
        Response::Leave => "is left to its on_disconnect",
        Response::Cancel | Response::CancelNow | Response::GiveUp => "is being killed",
    };
    let short = run.short();
    out.note(&format!("left; the run {short} {fate}"));
    out.hint(&format!("volery wait {short} fetches its answer"));
    Exit::Interrupted
}
