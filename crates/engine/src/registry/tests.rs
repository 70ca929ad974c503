//! Tests how each file of `tests/agent_files` is read. These have the shapes of files in public collections of
//! agents.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use config::agent_formats::plain::PlainDefaults;
use domain::agent::{Agent, AgentFormat, Layer};
use domain::diagnostic::Diagnostic;

use super::agent_folders::{AgentFolder, ConfigFile, ConfigKind, KiroPrompts};
use super::agents::{Agents, add_agent, read_folder_into, report_duplicates};
use super::claude_plugins::read_plugins;
use super::config_agents::read_config_file;

const FOLDERS: [(AgentFormat, &str); 10] = [
    (AgentFormat::DotAgents, "dot-agents"),
    (AgentFormat::Kiro, "kiro"),
    (AgentFormat::Opencode, "opencode"),
    (AgentFormat::Qwen, "qwen"),
    (AgentFormat::Gemini, "gemini"),
    (AgentFormat::Cursor, "cursor"),
    (AgentFormat::Copilot, "copilot"),
    (AgentFormat::Codex, "codex"),
    (AgentFormat::Claude, "claude"),
    (AgentFormat::Volery, "volery"),
];
const CONFIG_FILES: [(ConfigKind, &str); 2] = [
    (ConfigKind::Opencode, "opencode-config/opencode.jsonc"),
    (ConfigKind::Codex, "codex-config/config.toml"),
];
/// Files that define no agent, without an error.
const NO_AGENTS: [&str; 3] =
    ["kiro/prompts.md", "opencode-config/prompts/json-reviewer.txt", "opencode/switched-off.md"];

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../volery/tests/agent_files")
}

fn folder(path: PathBuf, format: AgentFormat) -> AgentFolder {
    AgentFolder { path, format, layer: Layer::Project, boundary: None, prompts: KiroPrompts::default() }
}

fn read_all() -> (Agents, Vec<Diagnostic>) {
    let (mut agents, mut diagnostics) = (Agents::default(), Vec::new());
    for (kind, below) in CONFIG_FILES {
        let config = ConfigFile { path: top().join(below), kind, layer: Layer::Project, within: Some(top()) };
        read_config_file(&config, &mut diagnostics)
            .into_iter()
            .for_each(|agent| add_agent(Arc::new(agent), &mut agents));
    }
    for (format, below) in FOLDERS {
        let folder = folder(top().join(below), format);
        read_folder_into(&mut agents, &folder, &PlainDefaults::default(), &mut diagnostics);
    }
    report_duplicates(&mut agents, &mut diagnostics);
    (agents, diagnostics)
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

/// Returns the part after the top folder in a path or a message.
fn relative(text: &str) -> String {
    text.replace(&format!("{}/", top().display()), "")
}

#[test]
fn every_file_of_a_public_shape_is_an_agent_or_says_why_not() {
    let (agents, diagnostics) = read_all();
    let mut findings_by_file: BTreeMap<String, Vec<String>> =
        files_below(&top()).iter().map(|path| (relative(&path.display().to_string()), Vec::new())).collect();
    assert!(findings_by_file.len() >= 60, "{} files", findings_by_file.len());
    for agent in agents.usable.values().chain(agents.shadowed.values()) {
        let line = format!("= {} ({})", agent.name, agent.source.format.as_str());
        findings_by_file.get_mut(&relative(&agent.source.file)).unwrap().push(line);
    }
    for found in &diagnostics {
        let line = relative(&found.to_string());
        let file = relative(&found.file);
        findings_by_file.get_mut(&file).unwrap().push(line.strip_prefix(&file).unwrap_or(&line).to_owned());
    }
    let lost = findings_by_file.iter().filter(|(file, lines)| {
        let is_agent = lines.iter().any(|line| line.starts_with("= "));
        let is_explained = lines.iter().any(|line| line.contains(": error: "));
        !is_agent && !is_explained && !NO_AGENTS.contains(&file.as_str())
    });
    assert_eq!(lost.collect::<Vec<_>>(), Vec::new(), "neither an agent nor an error");
    let shown = findings_by_file.iter().map(|(file, lines)| {
        let lines: Vec<String> = lines.iter().map(|line| format!("    {line}\n")).collect();
        format!("{file}\n{}", lines.concat())
    });
    insta::assert_snapshot!(shown.collect::<String>());
}

#[test]
fn a_file_with_errors_takes_no_name_away() {
    let dir = tempfile::tempdir().unwrap();
    let write = |below: &str, text: &str| {
        let path = dir.path().join(below);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("gemini/reviewer.md", "---\nname: reviewer\ndescription: good\n---\nx");
    write("claude/reviewer.md", "---\nname: reviewer\ndescription: bad\nisolation: sideways\n---\nx");
    let (mut agents, mut diagnostics) = (Agents::default(), Vec::new());
    for (format, below) in [(AgentFormat::Gemini, "gemini"), (AgentFormat::Claude, "claude")] {
        let folder = folder(dir.path().join(below), format);
        read_folder_into(&mut agents, &folder, &PlainDefaults::default(), &mut diagnostics);
    }
    report_duplicates(&mut agents, &mut diagnostics);
    let used: Vec<&str> = agents.usable.values().map(|agent| agent.description.as_str()).collect();
    assert_eq!(used, ["good"]);
    let last = diagnostics.last().unwrap().to_string();
    let good = dir.path().join("gemini/reviewer.md");
    let expected = format!("this file has errors, so the agent reviewer is the one in {}", good.display());
    assert!(last.ends_with(&expected), "{last}");
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
    let dir = tempfile::tempdir().unwrap();
    let (claude, project) = (dir.path().join(".claude"), dir.path().join("project"));
    std::fs::create_dir_all(&project).unwrap();
    let kit = plugin(&claude, "birdkit", true, r#"{"name": "birdkit"}"#);
    let off = plugin(&claude, "offkit", false, r#"{"name": "offkit"}"#);
    let listed = plugin(&claude, "listkit", true, r#"{"name": "listkit", "agents": ["./own/one.md"]}"#);
    std::fs::create_dir_all(listed.join("own")).unwrap();
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
    std::fs::write(listed.join("agents/unlisted.md"), agent("unlisted")).unwrap();
    std::fs::write(listed.join("own/one.md"), agent("one")).unwrap();
    let install = |root: &Path| serde_json::json!([{"scope": "user", "installPath": root}]);
    let installed = serde_json::json!({"version": 2, "plugins": {
        "birdkit@market": install(&kit), "offkit@market": install(&off), "listkit@market": install(&listed),
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
