//! `volery serve`: starts the MCP server.

use std::io::{IsTerminal, stdin};
use std::net::SocketAddr;
use std::sync::Arc;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use domain::dialect::DialectName;
use domain::run::CallerOrigin;
use rmcp::model::Tool;

use super::context::Context;
use super::error::CommandError;
use super::exit::Exit;
use super::output::{Out, OutputFormat};
use super::serve_budgie_flags;
use crate::mcp::{
    BudgieFlags, NativeTools, Options, announcements, codex_settings, http, open_tool_registry, serve,
};
use crate::report::sanitize_for_terminal;
use engine::env;
use engine::{EngineError, EngineHandle, TokenCreator};

// `volery import` uses the dialects' own readers to predict how they handle the files of other systems.
pub(super) use crate::mcp::{
    check_sub_agents, find_powerspawn_version, is_sub_agents_session, stored_jarvis_session,
};

/// Serve MCP clients over standard input and output, or over HTTP
///
/// `volery init` adds this command to an MCP client, whose agent can then
/// delegate to every agent that `volery agents` lists. The client starts and
/// ends the server. Whether a run continues after that depends on its
/// on_disconnect setting.
///
/// With --http one server serves many clients, each with its own token. The
/// first start creates and prints a token; `volery token` creates more.
///
/// Examples:
///   claude mcp add volery -- volery serve
///   codex mcp add volery -- volery serve
///   volery serve --http 127.0.0.1:7337
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The system whose tools the server offers; can be repeated
    ///
    /// The default is the [serve] dialects setting, which is volery unless you change it.
    #[arg(long = "dialect", value_name = "NAME", value_parser = dialect_parser(), verbatim_doc_comment)]
    dialects: Vec<DialectName>,

    /// Also offer one tool for each agent of this directory's project
    #[arg(long, value_name = "WHICH", value_enum, default_value_t)]
    tools: NativeTools,

    /// Serve HTTP at this address; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = parse_address)]
    http: Option<SocketAddr>,

    #[command(flatten)]
    budgie: serve_budgie_flags::Args,
}

/// Parses ADDRESS:PORT; `localhost` means 127.0.0.1.
fn parse_address(typed: &str) -> Result<SocketAddr, String> {
    let numeric = typed.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    let address = numeric.as_deref().unwrap_or(typed).parse();
    address.map_err(|_| "write an address and a port, such as 127.0.0.1:7337 or [::1]:7337".to_owned())
}

pub(super) fn dialect_parser() -> impl TypedValueParser<Value = DialectName> {
    let names = PossibleValuesParser::new(DialectName::ALL.map(DialectName::as_str));
    names.map(|name| DialectName::parse(&name).expect("one of these names"))
}

fn budgie_flags(typed: serve_budgie_flags::Args) -> BudgieFlags {
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
        OutputFormat::Json => out.json(&serde_json::json!({ "tools": tools }))?,
        OutputFormat::Text => {
            let described = |tool: &Tool| {
                let lines = tool.description.as_deref().unwrap_or_default().lines();
                let indented = lines.map(|line| format!("  {line}").trim_end().to_owned());
                std::iter::once(tool.name.to_string()).chain(indented).collect::<Vec<_>>().join("\n")
            };
            let all: Vec<String> = tools.iter().map(described).collect();
            out.page(&sanitize_for_terminal(&format!("{}\n", all.join("\n\n"))))?;
        }
    }
    Ok(Exit::Done)
}

pub(crate) async fn run(args: Args, context: &Context, out: &mut Out) -> Result<Exit, CommandError> {
    let app = context.open_as(CallerOrigin::Mcp)?;
    let configured = &app.config().dialects.value;
    let dialects = if args.dialects.is_empty() { configured } else { &args.dialects };
    if !dialects.contains(&DialectName::Budgie) {
        args.budgie.check_unused()?;
    }
    let lists_tools = args.budgie.list_tools;
    let tool_registry = open_tool_registry(dialects, args.tools, &app, &budgie_flags(args.budgie)).await?;
    if lists_tools {
        return print_tools(&tool_registry.tools(), out);
    }
    for line in announcements(dialects, app.config()) {
        out.note(&line);
    }
    let mut options = Options::new(app.config(), tool_registry);
    match args.http {
        Some(address) => serve_http(app, options, address, out).await?,
        None => {
            let codex_home = env::codex_home();
            options.waits.codex_limit = codex_settings::limit(&context.directory, codex_home.as_deref());
            app.spawn_housekeeping();
            if stdin().is_terminal() {
                out.note("waiting for an MCP client on standard input; Ctrl-C ends it");
                out.hint(
                    "a client starts this command itself: volery init adds it to the clients that you have",
                );
            }
            serve(app, options).await.map_err(|error| {
                EngineError::internal(format!("could not serve on standard input and output: {error}"))
            })?;
        }
    }
    Ok(Exit::Done)
}

async fn serve_http(
    app: Arc<EngineHandle>,
    options: Options,
    address: SocketAddr,
    out: &mut Out,
) -> Result<(), EngineError> {
    let config = app.config();
    let origin_check = http::OriginCheck::new(&config.allowed_hosts.value, &config.allowed_origins.value);
    let origin_check = origin_check.map_err(|entry| {
        EngineError::usage(format!("{entry:?} in [serve] allowed_hosts or allowed_origins is neither"))
            .hint("a host is name or name:port, an origin is https://name or https://name:port")
    })?;
    if !http::is_loopback(&address) {
        check_open_to_others(&app).await?;
    }
    let made = app.ask(engine::CreateFirstToken).await?;
    let listener = http::HttpListener::bind(address)
        .await
        .map_err(|error| EngineError::usage(format!("could not listen at {address}: {error}")))?;
    app.spawn_housekeeping();
    if let Some(made) = made {
        out.note(&format!("the token of {} is printed this once: {}", made.name, made.token));
    }
    out.note(&format!("listening at http://{}/mcp", listener.address));
    let served = http::serve(listener, app, options, origin_check).await;
    served.map(|_| ()).map_err(|error| EngineError::internal(format!("could not serve over HTTP: {error}")))
}

/// Refuses to listen for other machines before a user has created a token: the token that the first start prints ends up
/// in the logs of the process that started the server.
async fn check_open_to_others(app: &EngineHandle) -> Result<(), EngineError> {
    let tokens = app.ask(engine::ListTokens).await?.tokens;
    if tokens.iter().any(|token| token.created_by == TokenCreator::User) {
        return Ok(());
    }
    let message = "other machines could connect to this address, and nobody has made a token for one";
    Err(EngineError::denied(message).hint("volery token new NAME, or serve at 127.0.0.1"))
}
