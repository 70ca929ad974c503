//! The files of `tests/agent_files`, which have the shapes of files in public collections of agents, and what becomes of
//! each.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use definition::agent::plain::PlainDefaults;
use domain::agent::{Agent, Format, Layer};
use domain::diagnostic::Diagnostic;

use super::agents::{Agents, enter, read_into, report};
use super::config_agents::read_config_file;
use super::folders::{ConfigFile, ConfigKind, Folder, Prompts};
use super::plugins::read_plugins;

const FOLDERS: [(Format, &str); 10] = [
    (Format::DotAgents, "dot-agents"),
    (Format::Kiro, "kiro"),
    (Format::Opencode, "opencode"),
    (Format::Qwen, "qwen"),
    (Format::Gemini, "gemini"),
    (Format::Cursor, "cursor"),
    (Format::Copilot, "copilot"),
    (Format::Codex, "codex"),
    (Format::Claude, "claude"),
    (Format::Volery, "volery"),
];
const CONFIG_FILES: [(ConfigKind, &str); 2] = [
    (ConfigKind::Opencode, "opencode-config/opencode.jsonc"),
    (ConfigKind::Codex, "codex-config/config.toml"),
];
/// Files that define no agent, for no fault of theirs.
const NO_AGENTS: [&str; 3] =
    ["kiro/prompts.md", "opencode-config/prompts/json-reviewer.txt", "opencode/switched-off.md"];

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/agent_files")
}

fn folder(path: PathBuf, format: Format) -> Folder {
    Folder { path, format, layer: Layer::Project, within: None, prompts: Prompts::default() }
}

fn read_all() -> (Agents, Vec<Diagnostic>) {
    let (mut agents, mut diagnostics) = (Agents::default(), Vec::new());
    for (kind, below) in CONFIG_FILES {
        let config = ConfigFile { path: top().join(below), kind, layer: Layer::Project, within: Some(top()) };
        read_config_file(&config, &mut diagnostics).into_iter().for_each(|agent| enter(agent, &mut agents));
    }
    for (format, below) in FOLDERS {
        let folder = folder(top().join(below), format);
        read_into(&mut agents, &folder, &PlainDefaults::default(), &mut diagnostics);
    }
    report(&mut agents, &mut diagnostics);
    (agents, diagnostics)
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

/// Returns what follows the top folder in a path or a message.
fn relative(text: &str) -> String {
    text.replace(&format!("{}/", top().display()), "")
}

#[test]
fn every_file_of_a_public_shape_is_an_agent_or_says_why_not() {
    let (agents, diagnostics) = read_all();
    let mut of_file: BTreeMap<String, Vec<String>> =
        files_below(&top()).iter().map(|path| (relative(&path.display().to_string()), Vec::new())).collect();
    assert!(of_file.len() >= 60, "{} files", of_file.len());
    for agent in agents.sound.values().chain(agents.shadowed.values()) {
        let line = format!("= {} ({})", agent.name, agent.source.format.as_str());
        of_file.get_mut(&relative(&agent.source.file)).unwrap().push(line);
    }
    for found in &diagnostics {
        let line = relative(&found.to_string());
        let file = relative(&found.file);
        of_file.get_mut(&file).unwrap().push(line.strip_prefix(&file).unwrap_or(&line).to_owned());
    }
    let lost = of_file.iter().filter(|(file, lines)| {
        let is_agent = lines.iter().any(|line| line.starts_with("= "));
        let is_explained = lines.iter().any(|line| line.contains(": error: "));
        !is_agent && !is_explained && !NO_AGENTS.contains(&file.as_str())
    });
    assert_eq!(lost.collect::<Vec<_>>(), Vec::new(), "neither an agent nor an error");
    let shown = of_file.iter().map(|(file, lines)| {
        let lines: Vec<String> = lines.iter().map(|line| format!("    {line}\n")).collect();
        format!("{file}\n{}", lines.concat())
    });
    insta::assert_snapshot!(shown.collect::<String>());
}

#[test]
fn a_file_with_errors_takes_no_name_away() {
    let place = tempfile::tempdir().unwrap();
    let write = |below: &str, text: &str| {
        let path = place.path().join(below);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("gemini/reviewer.md", "---\nname: reviewer\ndescription: good\n---\nx");
    write("claude/reviewer.md", "---\nname: reviewer\ndescription: bad\nisolation: sideways\n---\nx");
    let (mut agents, mut diagnostics) = (Agents::default(), Vec::new());
    for (format, below) in [(Format::Gemini, "gemini"), (Format::Claude, "claude")] {
        let folder = folder(place.path().join(below), format);
        read_into(&mut agents, &folder, &PlainDefaults::default(), &mut diagnostics);
    }
    report(&mut agents, &mut diagnostics);
    let used: Vec<&str> = agents.sound.values().map(|agent| agent.description.as_str()).collect();
    assert_eq!(used, ["good"]);
    let said = diagnostics.last().unwrap().to_string();
    let good = place.path().join("gemini/reviewer.md");
    let expected = format!("this file has errors, so the agent reviewer is the one in {}", good.display());
    assert!(said.ends_with(&expected), "{said}");
}

fn plugin(claude: &Path, name: &str, enabled: bool, manifest: &str) -> PathBuf {
    let root = claude.join("plugins/cache/market").join(name);
    std::fs::create_dir_all(root.join(".claude-plugin")).unwrap();
    std::fs::create_dir_all(root.join("agents/deep")).unwrap();
    std::fs::write(root.join(".claude-plugin/plugin.json"), manifest).unwrap();
    let settings = claude.join("settings.json");
    let known = std::fs::read(&settings).unwrap_or_else(|_| b"{\"enabledPlugins\": {}}".to_vec());
    let mut known: serde_json::Value = serde_json::from_slice(&known).unwrap();
    known["enabledPlugins"][format!("{name}@market")] = enabled.into();
    std::fs::write(settings, known.to_string()).unwrap();
    root
}

#[test]
fn plugin_agents_have_the_names_that_claude_code_lists() {
    let place = tempfile::tempdir().unwrap();
    let (claude, project) = (place.path().join(".claude"), place.path().join("project"));
    std::fs::create_dir_all(&project).unwrap();
    let kit = plugin(&claude, "birdkit", true, r#"{"name": "birdkit"}"#);
    let off = plugin(&claude, "offkit", false, r#"{"name": "offkit"}"#);
    let named = plugin(&claude, "listkit", true, r#"{"name": "listkit", "agents": ["./own/one.md"]}"#);
    std::fs::create_dir_all(named.join("own")).unwrap();
    let agent =
        |name: &str| format!("---\nname: {name}\ndescription: d\n---\nLook in ${{CLAUDE_PLUGIN_ROOT}}.\n");
    std::fs::write(kit.join("agents/counter.md"), agent("counter")).unwrap();
    std::fs::write(kit.join("agents/file.md"), agent("other-name")).unwrap();
    std::fs::write(kit.join("agents/deep/diver.md"), agent("diver")).unwrap();
    std::fs::write(kit.join("agents/plain.md"), "No frontmatter.\n").unwrap();
    std::fs::write(
        kit.join("agents/wide.md"),
        "---\nname: wide\ndescription: d\npermissionMode: bypassPermissions\nmcpServers: {x: {command: x}}\n---\n",
    )
    .unwrap();
    std::fs::write(off.join("agents/off.md"), agent("off")).unwrap();
    std::fs::write(named.join("agents/unlisted.md"), agent("unlisted")).unwrap();
    std::fs::write(named.join("own/one.md"), agent("one")).unwrap();
    let install = |root: &Path| serde_json::json!([{"scope": "user", "installPath": root}]);
    let installed = serde_json::json!({"version": 2, "plugins": {
        "birdkit@market": install(&kit), "offkit@market": install(&off), "listkit@market": install(&named),
    }});
    std::fs::write(claude.join("plugins/installed_plugins.json"), installed.to_string()).unwrap();
    let mut diagnostics = Vec::new();
    let mut agents: Vec<Agent> = read_plugins(&claude, &project, &mut diagnostics);
    agents.sort_by(|one, two| one.name.cmp(&two.name));
    let names: Vec<&str> = agents.iter().map(|agent| agent.name.as_str()).collect();
    let expected = [
        "birdkit:counter",
        "birdkit:deep:diver",
        "birdkit:other-name",
        "birdkit:plain",
        "birdkit:wide",
        "listkit:one",
    ];
    assert_eq!(names, expected);
    assert_eq!(agents[0].system_prompt, format!("Look in {}.", kit.display()));
    let wide = &agents[4].setup;
    assert_eq!((wide.permission.level, wide.mcp_servers.len()), (None, 0), "{diagnostics:?}");
}
