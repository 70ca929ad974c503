//! Arguments and variables of the vendors' programs, and the meaning of their exit codes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{agent, ask, command, run};
use crate::test_env::{Client, TestEnv};

/// A fake Claude Code and Cursor: it records its arguments and variables, and follows its prompt.
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
  *reports-an-error*) echo '{"type":"result","subtype":"success","is_error":true,"result":"no model",'$session'}' ;;
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

struct RecorderEnv {
    env: TestEnv,
    record: PathBuf,
}

impl RecorderEnv {
    fn new() -> Self {
        let env = TestEnv::new();
        fs::create_dir(env.path("agents")).unwrap();
        agent(&env, "reviewer.md", "# Reviews changes\n\nBe strict.");
        let (bin, record) = (env.path("bin"), env.path("record"));
        fs::create_dir(&bin).unwrap();
        let text = CLAUDE.replace("$RECORD", &record.display().to_string());
        for name in ["claude", "cursor-agent"] {
            fs::write(bin.join(name), &text).unwrap();
            fs::set_permissions(bin.join(name), PermissionsExt::from_mode(0o755)).unwrap();
        }
        Self { env, record }
    }

    fn serve(&self, variables: &[(&str, &str)]) -> Client {
        let mut command = command(&self.env, &[("AGENT_TYPE", "claude")]);
        command.env("PATH", format!("{}:/usr/bin:/bin", self.env.path("bin").display()));
        command.envs(variables.iter().copied());
        Client::start(command).initialize("test")
    }

    fn argv(&self) -> Vec<String> {
        let text = fs::read_to_string(self.record.with_extension("words")).unwrap();
        text.lines().map(ToOwned::to_owned).collect()
    }

    fn variables(&self) -> String {
        fs::read_to_string(self.record.with_extension("env")).unwrap()
    }
}

/// Differs from sub-agents-mcp: a program that reports an error, or gives no answer, and ends with 0 | `status: "success"` with
///    `exit_code: 0`; without an answer, what it wrote or `No output` is the result | `status: "error"` with `exit_code: 1`, and why
#[test]
fn an_exit_code_counts_even_after_an_answer() {
    let recorder = RecorderEnv::new();
    let mut client = recorder.serve(&[]);
    let mut end = |prompt: &str| {
        let result = run(&mut client, ask(&recorder.env, "reviewer", prompt));
        let content = &result["structuredContent"];
        let answered = content["result"].as_str().unwrap().contains("an answer");
        (content["status"].clone(), content["exit_code"].clone(), result["isError"].clone(), answered)
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
    for prompt in ["silent", "reports-an-error"] {
        let expected = (json!("error"), json!(1), json!(true), false);
        assert_eq!(end(prompt), expected, "{prompt} is no success, whatever the exit code");
    }
}

/// Differs from sub-agents-mcp: `extra_args` | checked and never passed on | passed on if known to be harmless,
///    else refused
#[test]
fn extra_arguments_reach_the_program_and_others_are_refused_before_anything_starts() {
    let recorder = RecorderEnv::new();
    let mut client = recorder.serve(&[]);
    let with = |extra: Value| {
        let mut arguments = ask(&recorder.env, "reviewer", "x");
        arguments["extra_args"] = extra;
        arguments
    };
    let refused = run(&mut client, with(json!(["--dangerously-skip-permissions"])));
    let error = refused["structuredContent"]["error"].as_str().unwrap_or_else(|| panic!("{refused}"));
    assert!(error.starts_with("Agent execution failed: "), "{error}");
    insta::assert_snapshot!(recorder.env.masked(error), @r#"Agent execution failed: agent reviewer: the argument "--dangerously-skip-permissions" may not be given by an agent; these may: --betas, --debug, --fallback-model, --max-budget-usd, --exclude-dynamic-system-prompt-sections"#);
    assert_eq!(recorder.env.runs(), Vec::<String>::new());
    let taken = run(&mut client, with(json!(["--debug=api"])));
    assert_eq!(taken["isError"], json!(false), "{taken}");
    assert!(recorder.argv().contains(&"--debug=api".to_owned()), "{:?}", recorder.argv());
}

#[test]
fn variables_of_the_server_reach_the_program() {
    let recorder = RecorderEnv::new();
    let settings = recorder.env.path("settings.json");
    fs::write(&settings, "{\"cleanupPeriodDays\": 7}").unwrap();
    let variables = [
        ("AGENT_MODEL", "opus"),
        ("AGENT_EFFORT", "high"),
        ("AGENTS_SETTINGS_PATH", settings.to_str().unwrap()),
        ("SESSION_ENABLED", "true"),
        ("SESSION_RETENTION_DAYS", "3"),
    ];
    let mut client = recorder.serve(&variables);
    let result = run(&mut client, ask(&recorder.env, "reviewer", "x"));
    assert_eq!(result["isError"], json!(false), "{result}");
    let argv = recorder.argv();
    for argument in ["--model=opus", "--effort=high"] {
        assert!(argv.iter().any(|known| known == argument), "{argument} in {argv:?}");
    }
    // Together with what holds the agent to its grant.
    let passed_settings = fs::read_to_string(recorder.record.with_extension("settings")).unwrap();
    let passed_settings: Value = serde_json::from_str(&passed_settings).unwrap();
    assert_eq!(passed_settings["cleanupPeriodDays"], json!(7), "{passed_settings}");
    let names = fs::read_dir(recorder.env.path("state/sessions")).unwrap();
    let sessions: Vec<Value> = names
        .map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap_or_default())
        .filter_map(|text| serde_json::from_str(&text).ok())
        .collect();
    assert!(sessions.iter().any(|session| session["keep_ms"] == json!(3 * 86_400_000_u64)), "{sessions:?}");
}

#[test]
fn the_key_for_all_programs_reaches_cursor() {
    let recorder = RecorderEnv::new();
    let mut client = recorder.serve(&[("AGENT_TYPE", "cursor"), ("CLI_API_KEY", "cli-key-0123456789")]);
    run(&mut client, ask(&recorder.env, "reviewer", "x"));
    let variables = recorder.variables();
    assert!(variables.contains("CURSOR_API_KEY=cli-key-0123456789\n"), "{variables}");
}

/// Differs from sub-agents-mcp: the key for glm | `CLI_API_KEY` | `ZAI_API_KEY`, else `CLI_API_KEY`
#[test]
fn the_key_for_all_programs_reaches_glm() {
    let recorder = RecorderEnv::new();
    let key = ("CLI_API_KEY", "cli-key-0123456789");
    let mut client = recorder.serve(&[("AGENT_TYPE", "glm"), key]);
    let result = run(&mut client, ask(&recorder.env, "reviewer", "x"));
    assert_eq!(result["isError"], json!(false), "{result}");
    assert!(
        recorder.variables().contains("ANTHROPIC_AUTH_TOKEN=cli-key-0123456789\n"),
        "{}",
        recorder.variables()
    );
    let passed_settings = fs::read_to_string(recorder.record.with_extension("settings")).unwrap();
    let passed_settings: Value = serde_json::from_str(&passed_settings).unwrap();
    assert_eq!(passed_settings["env"]["ANTHROPIC_AUTH_TOKEN"], json!("cli-key-0123456789"));
    drop(client);
    let mut client = recorder.serve(&[("AGENT_TYPE", "glm"), key, ("ZAI_API_KEY", "zai-key-0123456789")]);
    run(&mut client, ask(&recorder.env, "reviewer", "x"));
    let variables = recorder.variables();
    assert!(
        variables.contains("ANTHROPIC_AUTH_TOKEN=zai-key-0123456789\n"),
        "its own key counts: {variables}"
    );
}

#[test]
fn a_service_without_a_key_names_the_variable_and_is_exit_code_1() {
    let recorder = RecorderEnv::new();
    let mut texts = Vec::new();
    for kind in ["glm", "claude-kimi"] {
        let mut client = recorder.serve(&[("AGENT_TYPE", kind)]);
        let result = run(&mut client, ask(&recorder.env, "reviewer", "x"));
        let content = &result["structuredContent"];
        assert_eq!((&content["exit_code"], &content["status"]), (&json!(1), &json!("error")), "{result}");
        assert_eq!(result["isError"], json!(true), "{result}");
        texts.push(recorder.env.masked_texts(&content["result"]));
    }
    insta::assert_snapshot!(texts.join("\n"), @"
    agent reviewer needs a key for glm, and none of these variables is set: CLI_API_KEY, ZAI_API_KEY
    hint: set CLI_API_KEY in the environment of this server, and start the server again
    agent reviewer needs a key for claude-kimi, and none of these variables is set: CLI_API_KEY, KIMI_API_KEY
    hint: set CLI_API_KEY in the environment of this server, and start the server again
    ");
    assert_eq!(recorder.env.runs(), Vec::<String>::new());
}

#[test]
fn an_answer_in_content_counts_where_there_is_no_result() {
    let recorder = RecorderEnv::new();
    for kind in ["claude", "cursor"] {
        let mut client = recorder.serve(&[("AGENT_TYPE", kind)]);
        let result = run(&mut client, ask(&recorder.env, "reviewer", "said-in-content"));
        assert_eq!(result["structuredContent"]["result"], json!("from content"), "{kind}: {result}");
    }
}

/// Differs from sub-agents-mcp: the text of exit code 127 | `spawn NAME ENOENT` | which program is missing, and
///    what to do
#[test]
fn a_vendors_program_that_is_not_installed_is_exit_code_127() {
    let recorder = RecorderEnv::new();
    let mut client = recorder.serve(&[("AGENT_TYPE", "gemini"), ("SESSION_ENABLED", "true")]);
    let mut arguments = ask(&recorder.env, "reviewer", "x");
    arguments["session_id"] = json!("mine");
    let result = run(&mut client, arguments);
    let content = &result["structuredContent"];
    let keys: Vec<&String> = content.as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        ["result", "agent", "exit_code", "execution_time", "status", "session_id", "request_id"],
        "{content}"
    );
    assert_eq!((&content["exit_code"], &content["status"]), (&json!(127), &json!("error")));
    insta::assert_snapshot!(recorder.env.masked_texts(&content["result"]), @r"
    agent reviewer needs gemini, which is not on the PATH
    hint: install it: npm install -g @google/gemini-cli; or give the agent another backend
    ");
    assert_eq!((&result["isError"], &result["_meta"]["session_id"]), (&json!(true), &json!("mine")));
    assert_eq!(recorder.env.runs(), Vec::<String>::new());
}

/// Differs from sub-agents-mcp: the environment of an agent | all of the server's | all of the server's, without Volery's own
///    variables
#[test]
fn the_servers_environment_reaches_an_agent_without_volerys_own() {
    let recorder = RecorderEnv::new();
    let variables = [("AVIARY_COLOUR", "blue"), ("ODD_TOKEN", "s3cret"), ("VOLERY_SLOTS", "3")];
    run(&mut recorder.serve(&variables), ask(&recorder.env, "reviewer", "x"));
    let reached = recorder.variables();
    let has = |line: &str| reached.lines().any(|known| known == line);
    assert!(has("AVIARY_COLOUR=blue") && has("ODD_TOKEN=s3cret"), "{reached}");
    assert!(!reached.contains("VOLERY_SLOTS"), "{reached}");
    let argv = recorder.argv();
    assert!(argv.contains(&"--permission-mode=acceptEdits".to_owned()), "{argv:?}");
    assert!(!argv.contains(&"--strict-mcp-config".to_owned()), "{argv:?}");
    let shown = recorder.env.volery(["show", &recorder.env.only_run()]).ok().stdout;
    insta::assert_snapshot!(recorder.env.masked(&shown), @r"
    run         [run id]
    short id    [run-id]
    agent       reviewer (backend claude)
    status      succeeded
    asked by    test
    prompt      x
    questions   denied at once: the MCP client test cannot put a question to its user
    created     [time] ([span] ago)
    started     [time] ([span] ago)
    ended       [time] ([span] ago)
    time        [span]
    tokens      5 in, 7 out
    cost        not known
    exit code   0
    directory   [stage]/project
    inherits    the server's environment, the user's MCP servers and the user's settings and allow rules
    success     unverified (no accept commands)
    session     [session id]
    contained   [as this machine can]
    warning     claude [version] is older than [version], the oldest that volery was tried with

    result (9 B)
      an answer
    ");
}

#[test]
fn withheld_settings_do_not_reach_an_agent_and_are_named_in_the_answer() {
    let recorder = RecorderEnv::new();
    recorder.env.configure("[dialects.sub-agents-mcp]\ninherit = [\"settings\"]\n");
    let result = run(&mut recorder.serve(&[("AVIARY_COLOUR", "blue")]), ask(&recorder.env, "reviewer", "x"));
    assert!(!recorder.variables().contains("AVIARY_COLOUR"), "{}", recorder.variables());
    assert!(recorder.argv().contains(&"--strict-mcp-config".to_owned()), "{:?}", recorder.argv());
    let note =
        "withheld: the server's environment and the user's MCP servers, by [dialects.sub-agents-mcp] inherit";
    assert_eq!(result["structuredContent"]["notes"], json!([note]), "{result}");
}

#[test]
fn a_server_announces_what_its_agents_inherit() {
    let recorder = RecorderEnv::new();
    let mut command = command(&recorder.env, &[("AGENT_TYPE", "claude")]);
    let output = command.stdin(std::process::Stdio::null()).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    let expected = "volery: agents of the dialect sub-agents-mcp get the server's environment, the user's MCP servers and the \
                  user's settings and allow rules; [dialects.sub-agents-mcp] inherit in your configuration narrows this";
    assert!(stderr.lines().any(|line| line == expected), "{stderr}");
}

/// Differs from sub-agents-mcp: the user's home or `/` as `cwd` | agents edit everywhere there | agents of claude, glm and kimi (by
///    Claude Code) may not edit in the folders there that hold Volery's own files, which the answer names
#[test]
fn an_agent_works_in_its_users_home_and_cannot_edit_volerys_own_folders() {
    let recorder = RecorderEnv::new();
    let home = recorder.env.path("state").parent().unwrap().to_owned();
    let key = ("CLI_API_KEY", "cli-key-0123456789");
    let mut notes = String::new();
    for (kind, directory) in
        [("claude", home.as_path()), ("glm", &home), ("kimi", &home), ("claude", Path::new("/"))]
    {
        let mut client = recorder.serve(&[("AGENT_TYPE", kind), key]);
        let result = run(&mut client, json!({"agent": "reviewer", "prompt": "x", "cwd": directory}));
        assert_eq!(result["structuredContent"]["status"], json!("success"), "{kind}: {result}");
        let denied =
            recorder.argv().into_iter().find(|argument| argument.starts_with("--disallowedTools=")).unwrap();
        assert!(denied.contains("Edit(//"), "{kind}: {denied}");
        // Of the root, the folder of all temporary folders is withheld, which differs from machine to machine.
        if directory == home {
            notes += &(recorder.env.masked_texts(&result["structuredContent"]["notes"]) + "\n");
        }
    }
    insta::assert_snapshot!(notes, @"
    withheld: edits in /[stage]/config/**: Volery's own files are there
    withheld: edits in /[stage]/state/**: Volery's own files are there
    withheld: edits in /[stage]/config/**: Volery's own files are there
    withheld: edits in /[stage]/state/**: Volery's own files are there
    withheld: edits in /[stage]/config/**: Volery's own files are there
    withheld: edits in /[stage]/state/**: Volery's own files are there
    ");
}

/// Differs from sub-agents-mcp: the user's home or `/` as `cwd` with cursor, codex, gemini, grok, opencode or Kimi's own program |
///    agents edit everywhere there | an agent that may edit is refused: these programs cannot be held to leave Volery's own files
///    alone; one that may only read works there, and so does `yolo`
#[test]
fn programs_without_path_rules_are_refused_around_volerys_own_folders() {
    let recorder = RecorderEnv::new();
    for name in ["codex", "gemini", "grok", "opencode", "kimi"] {
        fs::copy(recorder.env.path("bin/claude"), recorder.env.path("bin").join(name)).unwrap();
    }
    let home = recorder.env.path("state").parent().unwrap().to_owned();
    let mut refusals = Vec::new();
    for kind in ["cursor", "codex", "gemini", "grok", "opencode", "kimi"] {
        let mut client = recorder.serve(&[("AGENT_TYPE", kind)]);
        for directory in [home.as_path(), Path::new("/")] {
            let refused = run(&mut client, json!({"agent": "reviewer", "prompt": "x", "cwd": directory}));
            let error =
                refused["structuredContent"]["error"].as_str().unwrap_or_else(|| panic!("{kind}: {refused}"));
            refusals.push(recorder.env.masked(error));
        }
    }
    insta::assert_snapshot!(refusals.join("\n"), @"
    Agent execution failed: [stage] holds [stage]/state, where Volery keeps its own files: no agent may edit those
    hint: choose another directory, such as a project's; cursor cannot be held to leave these files alone, and these can: claude, glm, claude-kimi; an agent that may only read works here too
    Agent execution failed: / holds [stage]/state, where Volery keeps its own files: no agent may edit those
    hint: choose another directory, such as a project's; cursor cannot be held to leave these files alone, and these can: claude, glm, claude-kimi; an agent that may only read works here too
    Agent execution failed: [stage] holds [stage]/state, where Volery keeps its own files: no agent may edit those
    hint: choose another directory, such as a project's; codex cannot be held to leave these files alone, and these can: claude, glm, claude-kimi; an agent that may only read works here too
    Agent execution failed: / holds [stage]/state, where Volery keeps its own files: no agent may edit those
    hint: choose another directory, such as a project's; codex cannot be held to leave these files alone, and these can: claude, glm, claude-kimi; an agent that may only read works here too
    Agent execution failed: [stage] holds [stage]/state, where Volery keeps its own files: no agent may edit those
    hint: choose another directory, such as a project's; gemini cannot be held to leave these files alone, and these can: claude, glm, claude-kimi; an agent that may only read works here too
    Agent execution failed: / holds [stage]/state, where Volery keeps its own files: no agent may edit those
    hint: choose another directory, such as a project's; gemini cannot be held to leave these files alone, and these can: claude, glm, claude-kimi; an agent that may only read works here too
    Agent execution failed: [stage] holds [stage]/state, where Volery keeps its own files: no agent may edit those
    hint: choose another directory, such as a project's; grok cannot be held to leave these files alone, and these can: claude, glm, claude-kimi; an agent that may only read works here too
    Agent execution failed: / holds [stage]/state, where Volery keeps its own files: no agent may edit those
    hint: choose another directory, such as a project's; grok cannot be held to leave these files alone, and these can: claude, glm, claude-kimi; an agent that may only read works here too
    Agent execution failed: [stage] holds [stage]/state, where Volery keeps its own files: no agent may edit those
    hint: choose another directory, such as a project's; opencode cannot be held to leave these files alone, and these can: claude, glm, claude-kimi; an agent that may only read works here too
    Agent execution failed: / holds [stage]/state, where Volery keeps its own files: no agent may edit those
    hint: choose another directory, such as a project's; opencode cannot be held to leave these files alone, and these can: claude, glm, claude-kimi; an agent that may only read works here too
    Agent execution failed: [stage] holds [stage]/state, where Volery keeps its own files: no agent may edit those
    hint: choose another directory, such as a project's; kimi cannot be held to leave these files alone, and these can: claude, glm, claude-kimi; an agent that may only read works here too
    Agent execution failed: / holds [stage]/state, where Volery keeps its own files: no agent may edit those
    hint: choose another directory, such as a project's; kimi cannot be held to leave these files alone, and these can: claude, glm, claude-kimi; an agent that may only read works here too
    ");
    assert_eq!(recorder.env.runs(), Vec::<String>::new());
    let mut client = recorder.serve(&[("AGENT_TYPE", "cursor"), ("AGENT_PERMISSION", "read-only")]);
    let read_only = run(&mut client, json!({"agent": "reviewer", "prompt": "x", "cwd": home}));
    assert_eq!(read_only["structuredContent"]["status"], json!("success"), "{read_only}");
}

/// Differs from sub-agents-mcp: the agent's file with glm and kimi | takes the place of Claude Code's system prompt | is added to it
#[test]
fn the_agents_file_is_added_to_the_system_prompt_of_claude_code() {
    let recorder = RecorderEnv::new();
    for kind in ["claude", "glm", "kimi"] {
        let mut client = recorder.serve(&[("AGENT_TYPE", kind), ("CLI_API_KEY", "cli-key-0123456789")]);
        let result = run(&mut client, ask(&recorder.env, "reviewer", "x"));
        assert_eq!(result["isError"], json!(false), "{kind}: {result}");
        let argv = recorder.argv();
        assert!(
            argv.iter().any(|argument| argument.starts_with("--append-system-prompt-file=")),
            "{kind}: {argv:?}"
        );
    }
}

/// Differs from sub-agents-mcp: `AGENT_TYPE=kimi` | Claude Code with Kimi's service; an error without `CLI_API_KEY` | the same with
///    `CLI_API_KEY`, and Kimi's own program without it
#[test]
fn kimi_is_claude_code_with_kimis_service_where_its_key_is_set() {
    let recorder = RecorderEnv::new();
    let mut client = recorder.serve(&[("AGENT_TYPE", "kimi"), ("CLI_API_KEY", "cli-key-0123456789")]);
    let result = run(&mut client, ask(&recorder.env, "reviewer", "x"));
    assert_eq!(result["isError"], json!(false), "{result}");
    let variables = recorder.variables();
    let has = |line: &str| variables.lines().any(|known| known == line);
    assert!(has("ANTHROPIC_API_KEY=cli-key-0123456789"), "{variables}");
    assert!(has("ANTHROPIC_BASE_URL=https://api.kimi.com/coding/"), "{variables}");
    let mut client = recorder.serve(&[("AGENT_TYPE", "kimi")]);
    let result = run(&mut client, ask(&recorder.env, "reviewer", "x"));
    insta::assert_snapshot!(recorder.env.masked_texts(&result["structuredContent"]["result"]), @r"
    agent reviewer needs kimi, which is not on the PATH
    hint: install it: npm install -g @moonshot-ai/kimi-code; or give the agent another backend
    ");
}
