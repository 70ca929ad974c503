//! An agent file of each format, with the content that people really write, runs unchanged: Volery finds it where its
//! program looks for it, the real program runs it, and its instructions are in the request.

use std::fs;

use fake_llm::ScriptedReply;
use serde_json::json;

use super::vendor_env::VendorEnv;

/// The instructions in every file; each format has its own key for them.
const INSTRUCTIONS: &str = "You count herons and never cranes.";

struct File {
    program: &'static str,
    path: &'static str,
    text: &'static str,
    env: &'static [(&'static str, &'static str)],
}

/// Puts the file into a project, runs its agent, and checks that the instructions reached the model.
fn runs_unchanged(file: &File) {
    let script = vec![ScriptedReply::say("Three herons.").always()];
    let Some(mut vendor_env) = VendorEnv::make_for(&[file.program], "formats", script) else { return };
    for (name, value) in file.env {
        vendor_env.set(name, value);
    }
    let path = vendor_env.env.project().join(file.path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, file.text).unwrap();
    let listed = vendor_env.volery(&["agents", "--json"]).ok().json();
    assert_eq!(listed["agents"][0]["name"], json!("worker"), "{listed}");
    let errors =
        listed["diagnostics"].as_array().into_iter().flatten().filter(|found| found["severity"] == "error");
    assert_eq!(errors.count(), 0, "{listed}");
    let run = vendor_env.run("How many are there?", &[]);
    assert_eq!((&run["status"], &run["agent"]), (&json!("succeeded"), &json!("worker")), "{run}");
    assert_eq!(run["result"].as_str().unwrap_or_default().trim(), "Three herons.", "{run}");
    let seen = vendor_env.offline.server().requests();
    let has_instructions = seen.iter().any(|seen| seen.body.to_string().contains(INSTRUCTIONS));
    assert!(has_instructions, "the instructions did not reach the model: {run}");
}

macro_rules! formats {
    ($($name:ident: $program:literal, $path:literal, $text:expr, $env:expr;)*) => {
        $(#[test]
        fn $name() {
            runs_unchanged(&File { program: $program, path: $path, text: $text, env: $env });
        })*
    };
}

formats! {
    our_own: "claude", ".volery/agents/worker.md",
        "---\nname: worker\ndescription: Counts birds.\nbackend: claude\ntimeout: 100s\n---\nYou count herons and never cranes.\n", &[];
    of_claude_code: "claude", ".claude/agents/worker.md",
        "---\nname: worker\ndescription: Counts birds. Use it proactively after each walk.\ntools: Read, Grep, Glob, Bash\nmodel: inherit\ncolor: green\n---\n\nYou count herons and never cranes.\n\nWhen invoked:\n1. Look.\n2. Count.\n", &[];
    of_codex: "codex", ".codex/agents/worker.toml",
        "name = \"worker\"\ndescription = \"Counts birds.\"\nmodel_reasoning_effort = \"high\"\nsandbox_mode = \"read-only\"\nnickname_candidates = [\"Heron\"]\ndeveloper_instructions = \"\"\"\nYou count herons and never cranes.\nPrefer to count twice.\n\"\"\"\n", &[];
    of_gemini: "gemini", ".gemini/agents/worker.md",
        "---\nname: worker\ndescription: Counts birds.\nkind: local\ntools:\n  - read_file\n  - grep_search\nmodel: gemini-2.5-flash\ntemperature: 0.2\nmax_turns: 10\n---\n\nYou count herons and never cranes.\n", &[];
    of_opencode: "opencode", ".opencode/agent/worker.md",
        "---\ndescription: Counts birds without making edits\nmode: subagent\ntemperature: 0.1\ntools:\n  write: false\n  edit: false\n  bash: false\n---\n\nYou count herons and never cranes.\n", &[];
    of_opencode_with_patterns: "opencode", ".opencode/agents/worker.md",
        "---\ndescription: Counts birds and looks at what changed\nmode: all\nmodel: script/scripted-model\nsteps: 5\npermission:\n  edit: deny\n  bash:\n    \"*\": ask\n    \"git diff\": allow\n    \"git log*\": allow\n  webfetch: deny\n  task:\n    \"*\": deny\n    \"bird-*\": allow\n---\n\nYou count herons and never cranes.\n", &[];
    of_copilot: "copilot", ".github/agents/worker.agent.md",
        "---\nname: worker\ndescription: Counts birds and writes no code\ntools: [\"read\", \"search\"]\n---\n\nYou count herons and never cranes.\n", &[];
    of_cursor: "cursor", ".cursor/agents/worker.md",
        "---\nname: worker\ndescription: Counts birds. Use it for every walk.\nmodel: inherit\nreadonly: true\nis_background: false\n---\n\nYou count herons and never cranes.\n", &[];
    of_kiro: "kiro", ".kiro/agents/worker.json",
        r#"{"$schema": "https://example.org/agent.json", "name": "worker", "description": "sub-agent: Counts birds",
            "prompt": "You count herons and never cranes.", "model": "claude-sonnet-4",
            "tools": ["fs_read", "fs_write", "execute_bash", "@birds"], "toolAliases": {"@birds/list": "birds"},
            "allowedTools": ["fs_read", "@birds/list"],
            "toolsSettings": {"fs_write": {"allowedPaths": ["notes/**"]}, "execute_bash": {"allowedCommands": ["git status"]}},
            "resources": ["file://README.md", "file://docs/**/*.md"], "includeMcpJson": true,
            "keyboardShortcut": "ctrl+b", "welcomeMessage": "What shall be counted?"}"#, &[];
    of_jarvis: "claude", "agents/worker/agent.md",
        "---\nname: worker\ndescription: Counts birds\nsession: false\nallowed_callers: [main]\ntimeout_ms: 90000\npermissions:\n  allow:\n    - Read\n    - Bash(ls:*)\noutput_format: text\n---\n\nYou count herons and never cranes.\n", &[];
    of_dot_agents: "claude", ".agents/worker.md",
        "---\nrun-agent: claude\npermission: read-only\n---\n\n# Counter\n\nYou count herons and never cranes.\n", &[];
    plain_text: "claude", ".agents/worker.txt",
        "Counter\nYou count herons and never cranes.\n", &[("AGENT_TYPE", "claude")];
    plain: "claude", ".agents/worker.md",
        "# Counter\n\nYou count herons and never cranes.\n\n## Task\n- Look\n- Count\n", &[("AGENT_TYPE", "claude")];
}

#[test]
fn the_servers_of_a_file_of_gemini_are_offered_to_its_agent() {
    let script = vec![ScriptedReply::say("Three herons.").always()];
    let Some(vendor_env) = VendorEnv::make_for(&["gemini"], "formats", script) else { return };
    let program = env!("CARGO_BIN_EXE_volery");
    let text = format!(
        "---\nname: worker\ndescription: Counts birds.\nkind: local\ntools:\n  - read_file\n  - mcp_*\n\
         mcpServers:\n  aviary:\n    command: {program}\n    args: [serve]\nmodel: gemini-2.5-flash\n\
         timeout_mins: 2\n---\n\n{INSTRUCTIONS}\n"
    );
    let path = vendor_env.env.project().join(".gemini/agents/worker.md");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    assert_eq!(vendor_env.volery(&["trust", "--yes"]).code, 0);
    let run = vendor_env.run("How many are there?", &[]);
    assert_eq!(run["status"], json!("succeeded"), "{run}");
    let seen = vendor_env.offline.server().requests();
    let offered = seen.iter().any(|seen| seen.body.to_string().contains("mcp_aviary_"));
    assert!(offered, "no tool of the server is offered: {run}");
}
