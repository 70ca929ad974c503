//! The tables of the documents that follow from the vendors' tables. `scripts/vendor-tables` writes them into the pages;
//! a test fails if a page has others.

use domain::permission::{Level, Permission, ToolKind};
use domain::policy::Extent;
use serde_json::Value;

use crate::acp::profile::AgentProfile;
use crate::api;
use crate::client_setup::{ClientPatience, RESULT_BYTES};
use crate::clients;
use crate::contract::{Backend, Capabilities};
use crate::registry::{self, VENDORS};

#[cfg(test)]
mod tests;

/// The pages with such tables, from the root of the repository.
pub const PAGES: [&str; 2] = ["docs/agents.md", "docs/mcp.md"];

/// The mark before a table, with its name between the two parts, and the mark after it.
const BEGIN: (&str, &str) = ("<!-- vendor table ", ": written by scripts/vendor-tables -->");
const END: &str = "<!-- end of vendor table -->";

/// Returns a page with its tables replaced. An error names a mark that does not fit.
pub fn update(page: &str) -> Result<String, String> {
    let mut pieces = page.split(BEGIN.0);
    let mut updated = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (name, rest) = piece.split_once(BEGIN.1).ok_or("a mark of a vendor table is cut")?;
        let (_, after) = rest.split_once(END).ok_or_else(|| format!("the table {name} has no end"))?;
        let table = table(name).ok_or_else(|| format!("there is no vendor table {name}"))?;
        updated.push_str(&format!("{}{name}{}\n\n{table}\n{END}{after}", BEGIN.0, BEGIN.1));
    }
    Ok(updated)
}

fn table(name: &str) -> Option<String> {
    Some(match name {
        "features" => features(),
        "levels" => levels(),
        "extra_args" => extra_args(),
        "acp_settings" => acp_settings(),
        "patience" => patience(),
        _ => return None,
    })
}

type Column<T> = (&'static str, fn(&T) -> bool);

const FEATURES: [Column<Capabilities>; 9] = [
    ("`effort`", |can| can.effort),
    ("`tools`", |can| can.tools),
    ("`context: none`", |can| can.can_skip_project_context),
    ("`max_turns`", |can| can.max_turns),
    ("`temperature`", |can| can.temperature),
    ("`prompt_mode: replace`", |can| can.replaces_prompt),
    ("`extra_directories`", |can| can.extra_directories),
    ("own `mcp_servers`", |can| can.mcp_servers),
    ("asks a person", |can| can.ask),
];

/// What each backend can do.
fn features() -> String {
    let row = |backend: &dyn Backend| {
        let can = backend.capabilities(&Value::Null);
        FEATURES.iter().map(|(_, has)| if has(&can) { "yes" } else { "no" }.to_owned()).collect()
    };
    let mut rows: Vec<(String, Vec<String>)> =
        VENDORS.iter().map(|vendor| (format!("`{}`", vendor.name), row(*vendor))).collect();
    let service = api::BUILT_IN.first().map(|service| ("`api-…`".to_owned(), row(service)));
    rows.extend(service);
    let columns: Vec<&str> = FEATURES.iter().map(|(name, _)| *name).collect();
    markdown("backend", &columns, joined(rows))
}

const LEVELS: [Option<Level>; 4] = [Some(Level::ReadOnly), Some(Level::SafeEdit), None, Some(Level::Yolo)];
const KINDS: [(&str, ToolKind<'static>); 5] = [
    ("read, search", ToolKind::Read),
    ("edit", ToolKind::Edit),
    ("command", ToolKind::Shell),
    ("web", ToolKind::Fetch),
    ("MCP tool", ToolKind::Mcp { server: "own", tool: None }),
];

/// What each level allows with each backend, without rules.
fn levels() -> String {
    let columns: Vec<&str> = std::iter::once("level").chain(KINDS.map(|(name, _)| name)).collect();
    let rows = LEVELS.iter().flat_map(|level| {
        let name = level.map_or("none".to_owned(), |level| format!("`{}`", level.as_str()));
        let mut groups: Vec<(String, Vec<String>)> = Vec::new();
        for backend in registry::all().filter(|backend| backend.program().is_some()) {
            let cells: Vec<String> =
                std::iter::once(name.clone()).chain(level_cells(backend, *level)).collect();
            let kind = format!("`{}`", backend.kind());
            match groups.iter_mut().find(|(_, known)| *known == cells) {
                Some((kinds, _)) => kinds.push_str(&format!(", {kind}")),
                None => groups.push((kind, cells)),
            }
        }
        groups
    });
    markdown("backend", &columns, rows.collect())
}

/// Returns what a level allows for each kind of tool.
fn level_cells(backend: &dyn Backend, level: Option<Level>) -> Vec<String> {
    let permission = Permission { level, ..Permission::default() };
    if !backend.unenforceable(&permission.for_vendor(), &Value::Null).is_empty() {
        return KINDS.map(|_| "refused".to_owned()).to_vec();
    }
    let can = backend.capabilities(&Value::Null);
    // Without a level, Volery enforces the default only as far as the program allows it.
    let safe_edit = Permission { level: Some(Level::SafeEdit), ..Permission::default() };
    let is_held = level.is_some() || backend.unenforceable(&safe_edit.for_vendor(), &Value::Null).is_empty();
    let cell = |kind: ToolKind<'_>| match (permission.level_extent(kind), kind, level) {
        (Extent::Everything, _, _) => "allowed",
        (_, ToolKind::Edit, None) if !is_held => "program decides",
        (Extent::Nothing, ToolKind::Shell | ToolKind::Fetch, None) if !is_held && can.ask => {
            "asked, unless its settings allow it"
        }
        (Extent::Directory, _, _) => "allowed in its directory",
        // An agent may use the servers of its own file, and the run has no other servers.
        (Extent::Nothing, ToolKind::Mcp { .. }, _) => "own servers",
        (Extent::Nothing, ToolKind::Shell, _) if can.sandboxes_commands => "in the program's sandbox",
        (Extent::Nothing, ToolKind::Shell, None) if can.ask => "reading: allowed, else asked",
        (Extent::Nothing, ToolKind::Shell, Some(_)) if can.ask => "reading only",
        (Extent::Nothing, _, None) if can.ask => "asked",
        (Extent::Nothing, _, _) => "denied",
    };
    KINDS.map(|(_, kind)| cell(kind).to_owned()).to_vec()
}

/// The further arguments that agents may pass.
fn extra_args() -> String {
    let with_any = VENDORS.iter().filter(|vendor| !vendor.extra_args.is_empty());
    let rows = with_any.map(|vendor| (format!("`{}`", vendor.name), vec![argument_list(vendor.extra_args)]));
    let others = ("others".to_owned(), vec!["none".to_owned()]);
    markdown("backend", &["allowed `extra_args`"], joined(rows.chain([others]).collect()))
}

/// Returns the arguments, and settings of one option once as `--option=KEY`.
fn argument_list(arguments: &[&str]) -> String {
    let (settings, plain): (Vec<&str>, Vec<&str>) =
        arguments.iter().partition(|argument| argument.contains('='));
    let list =
        |names: Vec<&str>| names.into_iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let option = settings.first().and_then(|first| first.split('=').next());
    let keys = settings.iter().filter_map(|setting| setting.split_once('=')).map(|(_, key)| key);
    match option {
        Some(option) => format!("{}; `{option}=KEY` for {}", list(plain), list(keys.collect())),
        None => list(plain),
    }
}

const ACP_SETTINGS: [Column<AgentProfile>; 4] = [
    ("`context: none`", |profile| profile.options.no_context.is_some()),
    ("`tools`", |profile| profile.options.tools.is_some()),
    ("`max_turns`", |profile| profile.options.max_turns.is_some()),
    ("`prompt_mode: replace`", |profile| profile.replaces_prompt),
];

/// Settings that a session of the protocol offers or not.
const ACP_SESSION_SETTINGS: [(&str, &str); 3] = [
    ("`effort`", "`acp-claude`, `acp-codex`, `acp-copilot`, and others whose session offers it"),
    ("`model`, `extra_directories`", "all whose session offers it"),
    ("`temperature`", "none"),
];

/// Which ACP agents apply a setting.
fn acp_settings() -> String {
    let agents: Vec<(&str, &AgentProfile)> =
        VENDORS.iter().filter_map(|vendor| vendor.acp).map(|agent| (agent.kind(), &agent.profile)).collect();
    let rows = ACP_SETTINGS.iter().map(|(setting, applies)| {
        let mut names: Vec<&str> =
            agents.iter().filter(|(_, profile)| applies(profile)).map(|(name, _)| *name).collect();
        names.sort_unstable();
        let names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
        ((*setting).to_owned(), vec![names.join(", ")])
    });
    let of_session = ACP_SESSION_SETTINGS.map(|(setting, by)| (setting.to_owned(), vec![by.to_owned()]));
    markdown("setting", &["applied by"], rows.chain(of_session).collect())
}

/// How long calls of each client wait.
fn patience() -> String {
    let known = clients::all().flat_map(|client| client.patience);
    let rows = known.map(|known| (format!("`{}`", known.prefix), vec![wait_text(known), size_text(known)]));
    let whole = size_in_kib(RESULT_BYTES);
    let unnamed = "`mcp`, the whole name: the Python SDK's default".to_owned();
    let others = [
        (unnamed, vec!["3 s".to_owned(), whole.clone()]),
        ("any other".to_owned(), vec!["45 s, or `[serve] wait`".to_owned(), whole]),
    ];
    let columns = ["waits", "result shown inline"];
    markdown("client, by the beginning of its name", &columns, joined(rows.chain(others).collect()))
}

fn wait_text(known: &ClientPatience) -> String {
    let mut text = format!("{} s", known.wait_s);
    if known.wait_with_progress_s != known.wait_s {
        text.push_str(&format!("; {} s with progress", known.wait_with_progress_s));
    }
    if let Some(limit_s) = known.http_limit_s {
        // The server answers after four fifths of the client's time.
        text.push_str(&format!("; over HTTP {} s without progress", limit_s * 4 / 5));
    }
    text
}

fn size_text(known: &ClientPatience) -> String {
    size_in_kib(known.result_bytes)
}

fn size_in_kib(bytes: usize) -> String {
    format!("{} KiB", bytes >> 10)
}

/// Joins neighbours with the same cells.
fn joined(rows: Vec<(String, Vec<String>)>) -> Vec<(String, Vec<String>)> {
    let mut all: Vec<(String, Vec<String>)> = Vec::new();
    for (name, cells) in rows {
        match all.last_mut() {
            Some((names, before)) if *before == cells => names.push_str(&format!(", {name}")),
            _ => all.push((name, cells)),
        }
    }
    all
}

fn markdown(first: &str, columns: &[&str], rows: Vec<(String, Vec<String>)>) -> String {
    let line = |first: &str, cells: Vec<&str>| format!("| {first} | {} |\n", cells.join(" | "));
    let ruler = format!("|---|{}\n", "---|".repeat(columns.len()));
    let rows = rows.iter().map(|(name, cells)| line(name, cells.iter().map(String::as_str).collect()));
    std::iter::once(line(first, columns.to_vec())).chain([ruler]).chain(rows).collect()
}
