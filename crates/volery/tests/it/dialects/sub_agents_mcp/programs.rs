//! What the programs of vendors are given, and what their ends mean.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{agent, ask, command, run};
use crate::stage::{Client, Stage};

/// A stand-in for Claude Code and Cursor: writes down its words and variables, and does what its prompt says.
const CLAUDE: &str = r#"#!/bin/sh
[ "$1" = --version ] && { echo '2.1.0 (Claude Code)'; exit 0; }
for word in "$@"; do printf '%s\n' "$word"; done > "$RECORD.words"
env > "$RECORD.env"
for word in "$@"; do case "$word" in --settings=*) cat "${word#--settings=}" > "$RECORD.settings" ;; esac; done
read -r prompt
session='"session_id":"11111111-1111-1111-1111-111111111111"'
echo '{"type":"system","subtype":"init",'$session',"model":"sonnet","tools":[]}'
case "$prompt $*" in
  *silent*) ;;
  *said-in-content*) echo '{"type":"result","subtype":"success","is_error":false,"content":"from content",'$session'}' ;;
  *) echo '{"type":"result","subtype":"success","is_error":false,"result":"an answer",'$session',"usage":{"input_tokens":5,"output_tokens":7}}' ;;
esac
case "$prompt" in
  *exit3*) exit 3 ;;
  *exit124*) exit 124 ;;
  *term*) kill -TERM $$ ;;
  *kill*) kill -KILL $$ ;;
esac
exit 0
"#;

struct Scene {
    stage: Stage,
    record: PathBuf,
}

impl Scene {
    fn new() -> Self {
        let stage = Stage::new();
        fs::create_dir(stage.path("agents")).unwrap();
        agent(&stage, "reviewer.md", "# Reviews changes\n\nBe strict.");
        let (bin, record) = (stage.path("bin"), stage.path("record"));
        fs::create_dir(&bin).unwrap();
        let text = CLAUDE.replace("$RECORD", &record.display().to_string());
        for name in ["claude", "cursor-agent"] {
            fs::write(bin.join(name), &text).unwrap();
            fs::set_permissions(bin.join(name), PermissionsExt::from_mode(0o755)).unwrap();
        }
        Self { stage, record }
    }

    fn serve(&self, variables: &[(&str, &str)]) -> Client {
        let mut command = command(&self.stage, &[("AGENT_TYPE", "claude")]);
        command.env("PATH", format!("{}:/usr/bin:/bin", self.stage.path("bin").display()));
        command.envs(variables.iter().copied());
        Client::start(command).initialize("test")
    }

    fn words(&self) -> Vec<String> {
        let text = fs::read_to_string(self.record.with_extension("words")).unwrap();
        text.lines().map(ToOwned::to_owned).collect()
    }

    fn variables(&self) -> String {
        fs::read_to_string(self.record.with_extension("env")).unwrap()
    }
}

#[test]
fn an_exit_code_counts_also_behind_an_answer() {
    let scene = Scene::new();
    let mut client = scene.serve(&[]);
    let mut end = |prompt: &str| {
        let result = run(&mut client, ask(&scene.stage, "reviewer", prompt));
        let said = &result["structuredContent"];
        let answered = said["result"].as_str().unwrap().contains("an answer");
        (said["status"].clone(), said["exit_code"].clone(), result["isError"].clone(), answered)
    };
    let cases = [
        ("plain", "success", 0, false, true),
        ("exit124", "partial", 124, false, true),
        ("term", "success", 143, false, true),
        ("kill", "success", 137, false, true),
        ("exit3", "error", 3, true, true),
        ("silent exit124", "error", 124, true, false),
        ("silent term", "error", 143, true, false),
        ("silent kill", "error", 137, true, false),
        ("silent exit3", "error", 3, true, false),
    ];
    for (prompt, status, code, is_error, answered) in cases {
        let expected = (json!(status), json!(code), json!(is_error), answered);
        assert_eq!(end(prompt), expected, "{prompt}");
    }
    let (status, _, is_error, _) = end("silent");
    assert_eq!((status, is_error), (json!("error"), json!(true)), "no answer is no success");
}

/// Differs from sub-agents-mcp: `extra_args` | checked and never passed on | passed on if known to be harmless,
///    else refused
#[test]
fn extra_arguments_reach_the_program_and_others_are_refused_before_anything_starts() {
    let scene = Scene::new();
    let mut client = scene.serve(&[]);
    let with = |words: Value| {
        let mut arguments = ask(&scene.stage, "reviewer", "x");
        arguments["extra_args"] = words;
        arguments
    };
    let refused = run(&mut client, with(json!(["--dangerously-skip-permissions"])));
    let error = refused["structuredContent"]["error"].as_str().unwrap_or_else(|| panic!("{refused}"));
    assert!(error.starts_with("Agent execution failed: "), "{error}");
    assert!(error.contains("\"--dangerously-skip-permissions\" may not be given"), "{error}");
    assert_eq!(scene.stage.runs(), Vec::<String>::new());
    let taken = run(&mut client, with(json!(["--debug=api"])));
    assert_eq!(taken["isError"], json!(false), "{taken}");
    assert!(scene.words().contains(&"--debug=api".to_owned()), "{:?}", scene.words());
}

#[test]
fn what_the_environment_says_reaches_the_program() {
    let scene = Scene::new();
    let settings = scene.stage.path("settings.json");
    fs::write(&settings, "{\"cleanupPeriodDays\": 7}").unwrap();
    let variables = [
        ("AGENT_MODEL", "opus"),
        ("AGENT_EFFORT", "high"),
        ("AGENTS_SETTINGS_PATH", settings.to_str().unwrap()),
        ("SESSION_ENABLED", "true"),
        ("SESSION_RETENTION_DAYS", "3"),
    ];
    let mut client = scene.serve(&variables);
    let result = run(&mut client, ask(&scene.stage, "reviewer", "x"));
    assert_eq!(result["isError"], json!(false), "{result}");
    let words = scene.words();
    for word in ["--model=opus", "--effort=high"] {
        assert!(words.iter().any(|known| known == word), "{word} in {words:?}");
    }
    // Together with what holds the agent to its grant.
    let given = fs::read_to_string(scene.record.with_extension("settings")).unwrap();
    let given: Value = serde_json::from_str(&given).unwrap();
    assert_eq!(given["cleanupPeriodDays"], json!(7), "{given}");
    let names = fs::read_dir(scene.stage.path("state/sessions")).unwrap();
    let kept: Vec<Value> = names
        .map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap_or_default())
        .filter_map(|text| serde_json::from_str(&text).ok())
        .collect();
    assert!(kept.iter().any(|named| named["keep_ms"] == json!(3 * 86_400_000_u64)), "{kept:?}");
}

#[test]
fn the_key_for_all_programs_reaches_cursor() {
    let scene = Scene::new();
    let mut client = scene.serve(&[("AGENT_TYPE", "cursor"), ("CLI_API_KEY", "cli-key-0123456789")]);
    run(&mut client, ask(&scene.stage, "reviewer", "x"));
    let variables = scene.variables();
    assert!(variables.contains("CURSOR_API_KEY=cli-key-0123456789\n"), "{variables}");
}

/// Differs from sub-agents-mcp: the key for glm | `CLI_API_KEY` | `ZAI_API_KEY`, else `CLI_API_KEY`
#[test]
fn the_key_for_all_programs_reaches_glm() {
    let scene = Scene::new();
    let key = ("CLI_API_KEY", "cli-key-0123456789");
    let mut client = scene.serve(&[("AGENT_TYPE", "glm"), key]);
    let result = run(&mut client, ask(&scene.stage, "reviewer", "x"));
    assert_eq!(result["isError"], json!(false), "{result}");
    assert!(scene.variables().contains("ANTHROPIC_AUTH_TOKEN=cli-key-0123456789\n"), "{}", scene.variables());
    let given = fs::read_to_string(scene.record.with_extension("settings")).unwrap();
    let given: Value = serde_json::from_str(&given).unwrap();
    assert_eq!(given["env"]["ANTHROPIC_AUTH_TOKEN"], json!("cli-key-0123456789"));
    drop(client);
    let mut client = scene.serve(&[("AGENT_TYPE", "glm"), key, ("ZAI_API_KEY", "zai-key-0123456789")]);
    run(&mut client, ask(&scene.stage, "reviewer", "x"));
    let variables = scene.variables();
    assert!(
        variables.contains("ANTHROPIC_AUTH_TOKEN=zai-key-0123456789\n"),
        "its own key counts: {variables}"
    );
}

#[test]
fn an_answer_in_content_counts_where_there_is_no_result() {
    let scene = Scene::new();
    for kind in ["claude", "cursor"] {
        let mut client = scene.serve(&[("AGENT_TYPE", kind)]);
        let result = run(&mut client, ask(&scene.stage, "reviewer", "said-in-content"));
        assert_eq!(result["structuredContent"]["result"], json!("from content"), "{kind}: {result}");
    }
}

/// Differs from sub-agents-mcp: the text of exit code 127 | `spawn NAME ENOENT` | which program is missing, and
///    what to do
#[test]
fn a_vendors_program_that_is_not_installed_is_exit_code_127() {
    let scene = Scene::new();
    let mut client = scene.serve(&[("AGENT_TYPE", "gemini"), ("SESSION_ENABLED", "true")]);
    let mut arguments = ask(&scene.stage, "reviewer", "x");
    arguments["session_id"] = json!("mine");
    let result = run(&mut client, arguments);
    let said = &result["structuredContent"];
    let keys: Vec<&String> = said.as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        ["result", "agent", "exit_code", "execution_time", "status", "session_id", "request_id"],
        "{said}"
    );
    assert_eq!((&said["exit_code"], &said["status"]), (&json!(127), &json!("error")));
    assert!(said["result"].as_str().unwrap().contains("needs gemini, which is not on the PATH"), "{said}");
    assert_eq!((&result["isError"], &result["_meta"]["session_id"]), (&json!(true), &json!("mine")));
    assert_eq!(scene.stage.runs(), Vec::<String>::new());
}

/// Differs from sub-agents-mcp: the environment of an agent | all of the server's | all of the server's, without Volery's own
///    variables
#[test]
fn the_servers_environment_reaches_an_agent_without_volerys_own() {
    let scene = Scene::new();
    let variables = [("AVIARY_COLOUR", "blue"), ("ODD_TOKEN", "s3cret"), ("VOLERY_SLOTS", "3")];
    run(&mut scene.serve(&variables), ask(&scene.stage, "reviewer", "x"));
    let reached = scene.variables();
    let has = |line: &str| reached.lines().any(|known| known == line);
    assert!(has("AVIARY_COLOUR=blue") && has("ODD_TOKEN=s3cret"), "{reached}");
    assert!(!reached.contains("VOLERY_SLOTS"), "{reached}");
    let words = scene.words();
    assert!(words.contains(&"--permission-mode=acceptEdits".to_owned()), "{words:?}");
    assert!(!words.contains(&"--strict-mcp-config".to_owned()), "{words:?}");
    let shown = scene.stage.volery(["show", &scene.stage.only_run()]).ok().stdout;
    assert!(shown.contains("the server's environment, the user's MCP servers"), "{shown}");
}

#[test]
fn what_the_configuration_withholds_does_not_reach_an_agent_and_is_named_in_the_answer() {
    let scene = Scene::new();
    scene.stage.configure("[dialects.sub-agents-mcp]\ninherit = [\"settings\"]\n");
    let result = run(&mut scene.serve(&[("AVIARY_COLOUR", "blue")]), ask(&scene.stage, "reviewer", "x"));
    assert!(!scene.variables().contains("AVIARY_COLOUR"), "{}", scene.variables());
    assert!(scene.words().contains(&"--strict-mcp-config".to_owned()), "{:?}", scene.words());
    let note =
        "withheld: the server's environment and the user's MCP servers, by [dialects.sub-agents-mcp] inherit";
    assert_eq!(result["structuredContent"]["notes"], json!([note]), "{result}");
}

#[test]
fn a_server_announces_what_its_agents_get() {
    let scene = Scene::new();
    let mut command = command(&scene.stage, &[("AGENT_TYPE", "claude")]);
    let output = command.stdin(std::process::Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let wanted = "volery: agents of the dialect sub-agents-mcp get the server's environment, the user's MCP servers and the \
                  user's settings and allow rules; [dialects.sub-agents-mcp] inherit in your configuration narrows this";
    assert!(said.lines().any(|line| line == wanted), "{said}");
}

/// Differs from sub-agents-mcp: the user's home or `/` as `cwd` | agents edit everywhere there | agents of claude, glm and kimi (by
///    Claude Code) may not edit in the folders there that hold Volery's own files, which the answer names
#[test]
fn an_agent_works_in_its_users_home_and_cannot_edit_volerys_own_folders() {
    let scene = Scene::new();
    let home = scene.stage.path("state").parent().unwrap().to_owned();
    let key = ("CLI_API_KEY", "cli-key-0123456789");
    for (kind, place) in
        [("claude", home.as_path()), ("glm", &home), ("kimi", &home), ("claude", Path::new("/"))]
    {
        let mut client = scene.serve(&[("AGENT_TYPE", kind), key]);
        let result = run(&mut client, json!({"agent": "reviewer", "prompt": "x", "cwd": place}));
        assert_eq!(result["structuredContent"]["status"], json!("success"), "{kind}: {result}");
        let denied = scene.words().into_iter().find(|word| word.starts_with("--disallowedTools=")).unwrap();
        assert!(denied.contains("Edit(//"), "{kind}: {denied}");
        let note = result["structuredContent"]["notes"][0].as_str().unwrap();
        assert!(note.starts_with("withheld: edits in //"), "{kind}: {result}");
    }
}

/// Differs from sub-agents-mcp: the user's home or `/` as `cwd` with cursor, codex, gemini, grok, opencode or Kimi's own program |
///    agents edit everywhere there | an agent that may edit is refused: these programs cannot be held to leave Volery's own files
///    alone; one that may only read works there, and so does `yolo`
#[test]
fn who_cannot_be_held_to_leave_volerys_own_folders_alone_is_refused_there_with_the_reason() {
    let scene = Scene::new();
    for name in ["codex", "gemini", "grok", "opencode", "kimi"] {
        fs::copy(scene.stage.path("bin/claude"), scene.stage.path("bin").join(name)).unwrap();
    }
    let home = scene.stage.path("state").parent().unwrap().to_owned();
    for kind in ["cursor", "codex", "gemini", "grok", "opencode", "kimi"] {
        let mut client = scene.serve(&[("AGENT_TYPE", kind)]);
        for place in [home.as_path(), Path::new("/")] {
            let refused = run(&mut client, json!({"agent": "reviewer", "prompt": "x", "cwd": place}));
            let error =
                refused["structuredContent"]["error"].as_str().unwrap_or_else(|| panic!("{kind}: {refused}"));
            assert!(error.contains("where Volery keeps its own files"), "{kind}: {error}");
            let reason = format!(
                "{kind} cannot be held to leave these files alone, and these can: claude, glm, claude-kimi"
            );
            assert!(error.contains(&reason), "{kind}: {error}");
        }
    }
    assert_eq!(scene.stage.runs(), Vec::<String>::new());
    let mut client = scene.serve(&[("AGENT_TYPE", "cursor"), ("AGENT_PERMISSION", "read-only")]);
    let read_only = run(&mut client, json!({"agent": "reviewer", "prompt": "x", "cwd": home}));
    assert_eq!(read_only["structuredContent"]["status"], json!("success"), "{read_only}");
}

/// Differs from sub-agents-mcp: the agent's file with glm and kimi | takes the place of Claude Code's system prompt | is added to it
#[test]
fn the_agents_file_is_added_to_the_system_prompt_of_claude_code() {
    let scene = Scene::new();
    for kind in ["claude", "glm", "kimi"] {
        let mut client = scene.serve(&[("AGENT_TYPE", kind), ("CLI_API_KEY", "cli-key-0123456789")]);
        let result = run(&mut client, ask(&scene.stage, "reviewer", "x"));
        assert_eq!(result["isError"], json!(false), "{kind}: {result}");
        let words = scene.words();
        assert!(
            words.iter().any(|word| word.starts_with("--append-system-prompt-file=")),
            "{kind}: {words:?}"
        );
    }
}

/// Differs from sub-agents-mcp: `AGENT_TYPE=kimi` | Claude Code with Kimi's service; an error without `CLI_API_KEY` | the same with
///    `CLI_API_KEY`, and Kimi's own program without it
#[test]
fn kimi_is_claude_code_with_kimis_service_where_its_key_is_set() {
    let scene = Scene::new();
    let mut client = scene.serve(&[("AGENT_TYPE", "kimi"), ("CLI_API_KEY", "cli-key-0123456789")]);
    let result = run(&mut client, ask(&scene.stage, "reviewer", "x"));
    assert_eq!(result["isError"], json!(false), "{result}");
    let variables = scene.variables();
    let has = |line: &str| variables.lines().any(|known| known == line);
    assert!(has("ANTHROPIC_API_KEY=cli-key-0123456789"), "{variables}");
    assert!(has("ANTHROPIC_BASE_URL=https://api.kimi.com/coding/"), "{variables}");
    let mut client = scene.serve(&[("AGENT_TYPE", "kimi")]);
    let result = run(&mut client, ask(&scene.stage, "reviewer", "x"));
    let said = result["structuredContent"]["result"].as_str().unwrap_or_else(|| panic!("{result}"));
    assert!(said.contains("needs kimi, which is not on the PATH"), "{result}");
}
