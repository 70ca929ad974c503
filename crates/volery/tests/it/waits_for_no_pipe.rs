//! A named pipe in the place of a file that somebody wrote is no file: nothing waits for whoever writes it.

use std::path::Path;
use std::process::Stdio;

use rustix::fs::{CWD, FileType, Mode};
use serde_json::json;

use crate::stage::{PATIENCE, Said, Stage, said};

const REASON: &str = "it is no regular file";

/// Agents and settings of the project, with what must stand beside them.
const IN_PROJECT: [&str; 22] = [
    ".volery/agents/p.md",
    ".claude/agents/p.md",
    ".claude/agents/below/p.md",
    ".cursor/agents/p.md",
    ".gemini/agents/p.md",
    ".github/agents/p.md",
    ".opencode/agent/p.md",
    ".agents/p.md",
    ".ai/directives/p.md",
    ".codex/agents/p.toml",
    ".kiro/agents/p.json",
    ".kiro/sub-agents/prompts/k.md",
    ".kiro/sub-agents/prompts/_system.md",
    "agents/p/agent.md",
    "agents/x/memory.md",
    "agents/x/skills/a.md",
    ".claude/settings.json",
    ".gemini/settings.json",
    ".qwen/settings.json",
    "opencode.json",
    ".gemini/.env",
    ".qwen/.env",
];

fn make_pipe(path: &Path) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

/// Runs a command that must come to an end by itself.
fn ends(stage: &Stage, words: &[&str]) -> Said {
    let mut command = stage.command(words);
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let before = std::time::Instant::now();
    while child.try_wait().unwrap().is_none() && before.elapsed() < PATIENCE {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let ended = child.try_wait().unwrap().is_some();
    if !ended {
        child.kill().unwrap();
    }
    let output = child.wait_with_output().unwrap();
    assert!(ended, "{words:?} waits: {output:?}");
    said(output)
}

fn stage() -> Stage {
    let stage = Stage::new();
    stage.rehearsal("fine", "- say: fine", "");
    let beside = [
        ("agents/x/agent.md", "---\nname: x\ndescription: d\n---\nOwn.\n"),
        (".kiro/agents/k.json", r#"{"name": "k", "description": "sub-agent: d"}"#),
    ];
    for (file, text) in beside {
        let path = stage.project().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    stage
}

#[test]
fn a_pipe_among_agents_and_settings_is_named_and_holds_nothing_up() {
    let stage = stage();
    for file in IN_PROJECT {
        let path = stage.project().join(file);
        make_pipe(&path);
        let checked = ends(&stage, &["agents", "check"]).stdout;
        let wanted = format!("{}: ", path.display());
        let line = checked.lines().find(|line| line.starts_with(&wanted));
        assert!(line.is_some_and(|line| line.contains(REASON)), "{file}: {checked}");
        assert_eq!(ends(&stage, &["run", "fine", "go"]).ok().stdout, "fine\n", "{file}");
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn a_server_answers_whatever_becomes_a_pipe_meanwhile() {
    let stage = stage();
    let mut client = stage.serve().initialize("it");
    for file in IN_PROJECT {
        make_pipe(&stage.project().join(file));
    }
    let listed = client.call("list_agents", json!({"directory": stage.project()}));
    let names: Vec<&str> =
        listed["agents"].as_array().unwrap().iter().map(|agent| agent["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["fine", "k", "x"], "{listed}");
    let run = json!({"directory": stage.project(), "agent": "fine", "prompt": "go"});
    let answered = client.call("run_agent", run);
    assert_eq!(answered["result"], "fine\n", "{answered}");
}

#[test]
fn a_pipe_as_configuration_starts_nothing_and_says_so() {
    let stage = stage();
    for path in [stage.project().join(".volery/config.toml"), stage.path("config/config.toml")] {
        make_pipe(&path);
        let checked = ends(&stage, &["agents", "check"]).exits(1).stdout;
        let wanted = format!("{}: error: could not read it: {REASON}", path.display());
        assert!(checked.contains(&wanted), "{checked}");
        let refused = ends(&stage, &["run", "fine", "go"]).exits(2).stderr;
        assert!(
            refused.starts_with("error: the configuration has errors") && refused.contains(REASON),
            "{refused}"
        );
        std::fs::remove_file(&path).unwrap();
    }
    let path = stage.path("home/.claude/agents/p.md");
    make_pipe(&path);
    assert!(ends(&stage, &["agents", "check"]).stdout.contains(REASON));
}

#[test]
fn a_pipe_as_script_of_a_rehearsal_fails_its_run_alone() {
    let stage = Stage::new();
    stage.agent("scripted", "backend: rehearsal\nscript: steps.yaml");
    make_pipe(&stage.project().join(".volery/agents/steps.yaml"));
    let failed = ends(&stage, &["run", "scripted", "go"]).exits(1).stderr;
    assert!(failed.contains("the script steps.yaml could not be read"), "{failed}");
}
