//! `volery serve`: the MCP door.

use std::io::{IsTerminal, stdin};
use std::net::SocketAddr;
use std::sync::Arc;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use domain::dialect::DialectName;
use domain::run::Door;
use rmcp::model::Tool;

use super::context::Context;
use super::error::CommandError;
use super::exit::Exit;
use super::out::{Format, Out};
use super::serve_budgie;
use crate::app::{App, AppError, MadeBy};
use crate::door::mcp::{BudgieFlags, NativeTools, Options, announcements, codex_settings, http, open, serve};
use crate::env;
use crate::report::neutralise;

// How dialects read what other systems have left: `volery import` tells beforehand what they will say.
pub(super) use crate::door::mcp::{
    check_sub_agents, find_powerspawn_version, is_sub_agents_session, kept_by_jarvis,
};

/// Serve MCP clients over standard input and output, or over HTTP
///
/// `volery init` adds this command to an MCP client, and its agent can delegate
/// to any agent that `volery agents` lists. The client starts and ends it; runs
/// that were begun outlive it as their on_disconnect says.
///
/// With --http one server is there for many clients, each with a token: the
/// first start makes one and prints it, `volery token` makes more.
///
/// Examples:
///   claude mcp add volery -- volery serve
///   codex mcp add volery -- volery serve
///   volery serve --http 127.0.0.1:7337
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Which system's tools to offer; several if given several times
    ///
    /// Without any: what [serve] dialects says, which is volery.
    #[arg(long = "dialect", value_name = "NAME", value_parser = dialect_parser(), verbatim_doc_comment)]
    dialects: Vec<DialectName>,

    /// Also offer one tool for each agent of this directory's project
    #[arg(long, value_name = "WHICH", value_enum, default_value_t)]
    tools: NativeTools,

    /// Serve HTTP at this address instead; port 0 takes any that is free
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = parse_address)]
    http: Option<SocketAddr>,

    #[command(flatten)]
    budgie: serve_budgie::Args,
}

/// Reads the name of a dialect.
fn parse_address(typed: &str) -> Result<SocketAddr, String> {
    let numeric = typed.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    let address = numeric.as_deref().unwrap_or(typed).parse();
    address.map_err(|_| "write an address and a port, such as 127.0.0.1:7337 or [::1]:7337".to_owned())
}

pub(super) fn dialect_parser() -> impl TypedValueParser<Value = DialectName> {
    let names = PossibleValuesParser::new(DialectName::ALL.map(DialectName::as_str));
    names.map(|name| DialectName::parse(&name).expect("one of these names"))
}

fn flags(typed: serve_budgie::Args) -> BudgieFlags {
    BudgieFlags {
        agents_dir: typed.agents_dir,
        sessions_dir: typed.sessions_dir,
        prompts_dir: typed.prompts_dir,
        system_prompt: typed.system_prompt,
        context_summary_prompt: typed.context_summary_prompt,
        kiro_binary: typed.kiro_binary,
        tool_prefix: typed.tool_prefix,
        agent_timeout: typed.agent_timeout,
        safe_names: typed.safe_names,
        no_retry: typed.no_retry,
        verbose: typed.verbose,
        sandbox: typed.sandbox,
        sandbox_image: typed.sandbox_image,
    }
}

fn print_tools(tools: &[Tool], out: &mut Out) -> Result<Exit, CommandError> {
    match out.format() {
        Format::Json => out.json(&serde_json::json!({ "tools": tools }))?,
        Format::Text => {
            let described = |tool: &Tool| {
                let lines = tool.description.as_deref().unwrap_or_default().lines();
                let indented = lines.map(|line| format!("  {line}").trim_end().to_owned());
                std::iter::once(tool.name.to_string()).chain(indented).collect::<Vec<_>>().join("\n")
            };
            let all: Vec<String> = tools.iter().map(described).collect();
            out.page(&neutralise(&format!("{}\n", all.join("\n\n"))))?;
        }
    }
    Ok(Exit::Done)
}

pub(crate) async fn run(args: Args, context: &Context, out: &mut Out) -> Result<Exit, CommandError> {
    let app = context.open_as(Door::Mcp)?;
    // However the client ends it, leaving in good order is no failure.
    let configured = &app.config().dialects.value;
    let dialects = if args.dialects.is_empty() { configured } else { &args.dialects };
    if !dialects.contains(&DialectName::Budgie) {
        args.budgie.check_unused()?;
    }
    let lists_tools = args.budgie.list_tools;
    let surface = open(dialects, args.tools, &app, &flags(args.budgie)).await?;
    if lists_tools {
        return print_tools(&surface.tools(), out);
    }
    for line in announcements(dialects, app.config()) {
        out.note(&line);
    }
    let mut options = Options::new(app.config(), surface);
    match args.http {
        Some(address) => serve_http(app, options, address, out).await?,
        None => {
            let codex_home = env::codex_home();
            options.waits.codex_limit = codex_settings::limit(&context.directory, codex_home.as_deref());
            app.keep_house();
            if stdin().is_terminal() {
                out.note("waiting for an MCP client on standard input; Ctrl-C ends it");
                out.hint(
                    "a client starts this command itself: volery init adds it to the clients that you have",
                );
            }
            serve(app, options).await.map_err(|error| {
                AppError::internal(format!("could not serve on standard input and output: {error}"))
            })?;
        }
    }
    Ok(Exit::Done)
}

async fn serve_http(
    app: Arc<App>,
    options: Options,
    address: SocketAddr,
    out: &mut Out,
) -> Result<(), AppError> {
    let config = app.config();
    let allowed = http::Allowed::new(&config.allowed_hosts.value, &config.allowed_origins.value);
    let allowed = allowed.map_err(|entry| {
        AppError::usage(format!("{entry:?} in [serve] allowed_hosts or allowed_origins is neither"))
            .hint("a host is name or name:port, an origin is https://name or https://name:port")
    })?;
    if !http::is_loopback(&address) {
        check_open_to_others(&app).await?;
    }
    let made = app.first_token().await?;
    let listening = http::Listening::bind(address)
        .await
        .map_err(|error| AppError::usage(format!("could not listen at {address}: {error}")))?;
    app.keep_house();
    if let Some(made) = made {
        out.note(&format!("the token of {} is printed this once: {}", made.name, made.token));
    }
    out.note(&format!("listening at http://{}/mcp", listening.address));
    let served = http::serve(listening, app, options, allowed).await;
    served.map(|_| ()).map_err(|error| AppError::internal(format!("could not serve over HTTP: {error}")))
}

/// Whoever opens a server to other machines has made a token for somebody: the one that a first start prints is in the
/// logs of whatever started it.
async fn check_open_to_others(app: &App) -> Result<(), AppError> {
    let tokens = app.list_tokens().await?.tokens;
    if tokens.iter().any(|token| token.made_by == MadeBy::User) {
        return Ok(());
    }
    let message = "other machines could connect to this address, and nobody has made a token for one";
    Err(AppError::denied(message).hint("volery token new NAME, or serve at 127.0.0.1"))
}
