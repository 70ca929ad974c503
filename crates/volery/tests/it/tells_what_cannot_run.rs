//! An agent that can never run says so before somebody asks for it, and an agent that only this machine stops is told
//! apart.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::test_env::{CommandOutput, TestEnv, command_output, first_paragraph};

/// Returns a test environment with a fake Claude Code on its `PATH`.
fn env() -> TestEnv {
    let env = TestEnv::new();
    install(&env, "claude", "2.1.197");
    env
}

fn install(env: &TestEnv, name: &str, version: &str) {
    let program = env.path("home/bin").join(name);
    std::fs::create_dir_all(program.parent().unwrap()).unwrap();
    std::fs::write(&program, format!("#!/bin/sh\necho {version}\n")).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn volery(env: &TestEnv, words: &[&str]) -> CommandOutput {
    let path = format!("{}:/usr/bin:/bin", env.path("home/bin").display());
    command_output(env.command(words).env("PATH", path).env_remove("TRACKER_KEY").output().unwrap())
}

fn problem(list: &Value, name: &str) -> String {
    let agents = list["agents"].as_array().unwrap();
    let agent = agents.iter().find(|agent| agent["name"] == name).unwrap();
    agent["problem"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn what_a_file_can_never_get_is_an_error_of_the_check() {
    let mut messages = String::new();
    for settings in [
        "backend: claude\nextra_args: [--foo]",
        "backend: api-openai",
        "backend: cursor\npermission: {deny: ['Bash(curl:*)']}",
        "backend: claude\nfallback: [{backend: nosuch}]",
        "backend: claude\nfallback: [{backend: api-openai}]",
        "backend: rehearsal\nscript: nowhere.yaml",
    ] {
        let env = env();
        env.agent("stuck", settings);
        let checked = volery(&env, &["agents", "check"]).exits(1);
        let list = volery(&env, &["agents", "--json"]).ok().json();
        let texts = [settings, &checked.stdout, &checked.stderr, "problem:", &problem(&list, "stuck"), ""];
        messages += &env.masked(&texts.join("\n"));
        let ran = volery(&env, &["run", "stuck", "x"]);
        assert_ne!(ran.code, 0, "{ran:?}");
    }
    insta::assert_snapshot!("never", messages);
}

#[test]
fn what_this_machine_lacks_blocks_an_agent_and_is_no_error_of_its_file() {
    let env = env();
    let server = "mcp_servers: {tracker: {command: tracker, env: {KEY: '${TRACKER_KEY}', B: '${OTHER:-b}'}}}";
    env.agent("keyless", &format!("backend: claude\n{server}"));
    env.agent("fine", "backend: claude");
    env.volery(["trust", "--yes"]).ok();
    let checked = volery(&env, &["agents", "check"]).ok();
    insta::assert_snapshot!(env.masked(&checked.stderr), @"
    warning: keyless: these variables are needed and not set: TRACKER_KEY
    2 agents, 1 of them blocked, 0 errors, 1 warning
    ");
    let list = volery(&env, &["agents", "--json"]).ok().json();
    assert_eq!(problem(&list, "fine"), "");
    insta::assert_snapshot!(problem(&list, "keyless"), @"these variables are needed and not set: TRACKER_KEY");
    let shown = volery(&env, &["agents", "show", "keyless", "--json"]).ok().json();
    assert!(shown["invocation"]["process"]["argv"].is_array(), "{shown}");
}

#[test]
fn an_agent_that_may_delegate_to_nobody_who_is_there_is_warned_about() {
    let env = env();
    env.rehearsal("host", "- say: x", "delegates: [gost, helper]");
    env.rehearsal("ghost", "- say: x", "");
    env.rehearsal("helper", "- say: x", "");
    let checked = volery(&env, &["agents", "check"]).ok().stdout;
    insta::assert_snapshot!(env.masked(&checked), @"
    .volery/agents/host.md:4:1: warning: delegates: there is no agent gost here
      hint: did you mean ghost?
    ");
    let listed = volery(&env, &["agents"]).ok();
    insta::assert_snapshot!(env.masked(&listed.stderr), @"hint: 1 finding in the files: volery agents check");
}

#[test]
fn what_a_project_would_execute_is_not_repeated_for_each_agent() {
    let env = env();
    let config = "[backends.upper]\ncommand = [\"tr\", \"a-z\", \"A-Z\"]\n";
    std::fs::write(env.project().join(".volery/config.toml"), config).unwrap();
    env.agent("one", "backend: upper");
    env.agent("two", "backend: upper");
    let list = volery(&env, &["agents", "--json"]).ok().json();
    assert_eq!(problem(&list, "one"), problem(&list, "two"));
    assert_ne!(problem(&list, "one"), "");
    volery(&env, &["run", "one", "x"]).exits(3);
}

#[test]
fn settings_of_a_vendor_that_would_have_a_run_refused_block_its_agents_beforehand() {
    let env = env();
    install(&env, "gemini", "0.46.0");
    let hooks = r#"{"hooks": {"BeforeTool": [{"hooks": [{"type": "command", "command": "touch x"}]}]}}"#;
    in_project(&env, ".gemini/settings.json", hooks);
    in_project(&env, ".claude/settings.json", hooks);
    env.agent("follows", "backend: gemini");
    env.agent("falls_back", "backend: claude\nfallback: [{backend: gemini}]");
    env.agent("leaves_out", "backend: claude\npermission: safe-edit");
    env.agent("untouched", "backend: rehearsal");
    let list = || {
        let list = volery(&env, &["agents", "--json"]).ok().json();
        ["follows", "falls_back", "leaves_out", "untouched"].map(|name| problem(&list, name))
    };
    let [follows, falls_back, leaves_out, untouched] = list();
    assert_eq!((falls_back, leaves_out, untouched), (follows.clone(), String::new(), String::new()));
    insta::assert_snapshot!(env.masked(&follows), @"
    gemini would follow [stage]/project/.gemini/settings.json, which you have not trusted
    hint: look at it, then: volery trust [stage]/project
    ");
    volery(&env, &["run", "follows", "x"]).exits(3);
    let shown = volery(&env, &["agents", "show", "leaves_out", "--json"]).ok().json();
    insta::assert_snapshot!(env.masked_texts(&shown["warnings"]), @"claude leaves out the settings of the project, since [stage]/project/.claude/settings.json would execute programs or grant more than you have trusted; look at it, then: volery trust [stage]/project");

    volery(&env, &["trust", "--yes"]).ok();
    assert_eq!(list(), [const { String::new() }; 4]);
    let shown = volery(&env, &["agents", "show", "leaves_out", "--json"]).ok().json();
    assert_eq!(shown["warnings"], Value::Null, "{shown}");

    // What goes round in a circle has no end that could be looked at, so nobody can have trusted it.
    let commands = env.project().join(".claude/commands");
    std::fs::create_dir_all(&commands).unwrap();
    std::os::unix::fs::symlink(&commands, commands.join("round")).unwrap();
    volery(&env, &["trust", "--yes"]).ok();
    let shown = volery(&env, &["agents", "show", "leaves_out", "--json"]).ok().json();
    let warning = shown["warnings"][0].as_str().unwrap_or_default();
    assert!(warning.contains(&commands.display().to_string()), "{shown}");
}

fn in_project(env: &TestEnv, file: &str, text: &str) {
    let path = env.project().join(file);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

#[test]
fn tools_of_servers_that_the_agent_does_not_get_are_warned_about() {
    let mut messages = String::new();
    for (file, tools) in [
        (".github/agents/a.agent.md", "['read', 'github/*', 'playwright/*']"),
        (".claude/agents/a.md", "Read, mcp__github__*, mcp__git_hub__get"),
        (".gemini/agents/a.md", "[read_file, mcp_my-server_*, mcp_*]"),
    ] {
        let env = env();
        in_project(&env, file, &format!("---\nname: a\ndescription: d\ntools: {tools}\n---\nx\n"));
        messages += &env.masked(&volery(&env, &["agents", "check"]).ok().stdout);
    }
    insta::assert_snapshot!(messages, @"
    .github/agents/a.agent.md: warning: no tool of the MCP server github can be used: the agent has only the servers that its own file defines and does not switch off
    .github/agents/a.agent.md: warning: no tool of the MCP server playwright can be used: the agent has only the servers that its own file defines and does not switch off
    .claude/agents/a.md: warning: no tool of the MCP server git_hub can be used: the agent has only the servers that its own file defines and does not switch off
    .claude/agents/a.md: warning: no tool of the MCP server github can be used: the agent has only the servers that its own file defines and does not switch off
    .gemini/agents/a.md: warning: no tool of the MCP server my-server can be used: the agent has only the servers that its own file defines and does not switch off
    ");
    let env = env();
    let own = "mcpServers:\n  - my_tracker:\n      command: x\n";
    let text = format!("---\nname: a\ndescription: d\ntools: Read, mcp__my_tracker__find\n{own}---\nx\n");
    in_project(&env, ".claude/agents/a.md", &text);
    let checked = volery(&env, &["agents", "check", "--json"]).ok().json();
    assert_eq!(checked["diagnostics"], json!(null), "{checked}");
}

#[test]
fn what_to_do_about_a_permission_depends_on_the_format_and_less_than_allowed_is_a_warning() {
    let env = env();
    let permission =
        "permission:\n  external_directory:\n    \"~/x/**\": allow\n  webfetch:\n    \"x\": allow\n";
    in_project(&env, ".opencode/agent/able.md", &format!("---\ndescription: d\n{permission}---\nx\n"));
    let denies = "permission:\n  webfetch:\n    \"x\": deny\n";
    in_project(&env, ".opencode/agent/stuck.md", &format!("---\ndescription: d\n{denies}---\nx\n"));
    let checked = volery(&env, &["agents", "check"]).exits(1).stdout;
    insta::assert_snapshot!(env.masked(&checked), @r#"
    .opencode/agent/able.md: warning: the project's file .opencode/agent/able.md grants more than the defaults; until you trust the project (volery trust [stage]/project), this does not count: permission allow "external_directory(~/x/**)" "webfetch(x)"
    .opencode/agent/stuck.md:3:1: error: the backend opencode cannot enforce the rule deny webfetch(x)
      hint: choose another backend, or define the agent in Volery's own format, which has unenforceable: warn; `volery agents new` begins one
    "#);
}

#[test]
fn a_key_that_the_backend_does_not_honour_is_reported_with_its_line() {
    let env = env();
    env.agent("warm", "backend: claude\ntemperature: 0.5");
    let checked = volery(&env, &["agents", "check"]).ok().stdout;
    insta::assert_snapshot!(env.masked(&checked), @".volery/agents/warm.md:4:1: warning: temperature is not honoured by claude");
}

#[test]
fn an_agent_answers_into_a_file_only_where_its_backend_can() {
    let env = env();
    let template = "response_file: {template: 'Write to {{RESPONSE_FILE}}.'}";
    env.agent("speaker", &format!("backend: claude\n{template}"));
    env.agent("reader", &format!("backend: kiro\npermission: read-only\n{template}"));
    env.agent("writer", &format!("backend: kiro\n{template}"));
    let list = volery(&env, &["agents", "--json"]).ok().json();
    let ways: Vec<&Value> =
        list["agents"].as_array().unwrap().iter().map(|agent| &agent["answers_by"]).collect();
    assert_eq!(ways[..3], [&json!("output"), &json!("output"), &json!("file")], "{list}");
    let output = volery(&env, &["agents", "check"]).ok();
    let (checked, findings) = (output.stderr, output.stdout);
    insta::assert_snapshot!(env.masked(&checked), @r"
    warning: reader, writer: needs kiro-cli, which is not on the PATH
      hint: install it: the download at kiro.dev/cli; or give the agent another backend
    writer answers into a file
    3 agents, 2 of them blocked, 0 errors, 4 warnings
    ");
    insta::assert_snapshot!(env.masked(&findings), @"
    .volery/agents/reader.md:5:1: warning: response_file is not honoured: the agent may not write files, and answers by its output
    .volery/agents/speaker.md: warning: the response file is not honoured by claude
    ");
}

#[test]
fn tools_that_are_denied_unattended_and_ask_rules_are_reported_with_their_line() {
    let env = env();
    install(&env, "copilot", "1.0.0");
    install(&env, "gemini", "0.1.0");
    let copilot = "---\nname: a\ndescription: d\ntools: [read, execute]\n---\nx\n";
    in_project(&env, ".github/agents/a.agent.md", copilot);
    env.agent("asking", "backend: gemini\npermission: {ask: [Edit]}");
    let checked = volery(&env, &["agents", "check"]).ok().stdout;
    insta::assert_snapshot!(env.masked(&checked), @"
    .github/agents/a.agent.md: warning: copilot [version] is older than [version], the oldest that volery was tried with
    .github/agents/a.agent.md:4:1: warning: tools: execute is denied: copilot cannot ask anybody, and the level safe-edit does not allow it
    .volery/agents/asking.md: warning: gemini [version] is older than [version], the oldest that volery was tried with
    .volery/agents/asking.md:4:1: warning: permission: the rule ask Edit denies, since gemini cannot ask anybody
    ");
    let shown = volery(&env, &["agents", "show", "a"]).ok().stdout;
    insta::assert_snapshot!(env.masked(first_paragraph(&shown)), @r#"
    agent       a
    description d
    file        .github/agents/a.agent.md (copilot format, project layer)
    backend     copilot
    model       the backend's default
    settings    callers: "anyone"
                containment: "auto"
                delegates: "nobody"
                on_interrupt: "end"
                tools: ["read","execute"]
                vendor_agent: "a"
    warning     copilot [version] is older than [version], the oldest that volery was tried with
    warning     tools: execute is denied: copilot cannot ask anybody, and the level safe-edit does not allow it
    "#);
}

#[test]
fn the_users_own_agents_are_the_users_also_from_their_home() {
    let env = env();
    let file = env.path("home/.claude/agents/mine.md");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let text = "---\nname: mine\ndescription: d\ndisallowedTools: Bash\nmcpServers:\n  - a:\n      command: x\n---\nx\n";
    std::fs::write(&file, text).unwrap();
    let link = env.path("link");
    std::os::unix::fs::symlink(env.path("home"), &link).unwrap();
    let path = format!("{}:/usr/bin:/bin", env.path("home/bin").display());
    for home in [env.path("home"), link] {
        let mut command = env.command(["agents", "--json", "--dir", env.path("home").to_str().unwrap()]);
        let list =
            command_output(command.env("PATH", &path).env("HOME", &home).output().unwrap()).ok().json();
        let agents = list["agents"].as_array().unwrap();
        let layers: Vec<&Value> = agents.iter().map(|agent| &agent["layer"]).collect();
        assert_eq!(layers, [&json!("user"), &json!("default")], "{list}");
        assert_eq!((problem(&list, "mine"), &list["diagnostics"]), (String::new(), &json!(null)), "{list}");
    }
}

#[test]
fn what_only_the_backend_knows_to_be_wrong_has_its_line() {
    let mut messages = String::new();
    for settings in [
        "backend: claud",
        "backend: claude\nextra_args: [--foo]",
        "backend: claude\noutput_schema: {type: strng}",
        "backend: claude\nfallback: [{backend: nosuch}]",
        "backend: cursor\npermission: {deny: ['Bash(curl:*)']}",
        "backend: rehearsal\nscript: nowhere.yaml",
        "backend: claude\ndelegates: [nobody]",
        "backend: rehearsal",
    ] {
        let env = env();
        env.agent("stuck", settings);
        messages += &env.masked(&volery(&env, &["agents", "check"]).stdout);
    }
    insta::assert_snapshot!(messages, @r#"
    .volery/agents/stuck.md:3:1: error: agent stuck needs the backend claud, which is not configured
      hint: did you mean claude? [stage]/project/.volery/agents/stuck.md names it
    .volery/agents/stuck.md:4:1: error: the argument "--foo" may not be given by an agent; these may: --betas, --debug, --fallback-model, --max-budget-usd, --exclude-dynamic-system-prompt-sections
    .volery/agents/stuck.md:4:1: error: output_schema: the schema is wrong at /type: it is not valid under any of the schemas listed in the 'anyOf' keyword
      hint: output_schema is JSON Schema, draft 2020-12, and refers to nothing outside of itself
    .volery/agents/stuck.md:4:1: error: the fallback to nosuch cannot be used: agent stuck needs the backend nosuch, which is not configured
      hint: configured are: rehearsal, loop, claude, glm, claude-kimi, codex, gemini, copilot, qwen, opencode, goose, cursor, kiro, grok, kimi, acp-claude, acp-codex, acp-gemini, acp-copilot, acp-qwen, acp-opencode, acp-goose, acp-kiro, acp-kimi, api-anthropic, api-openai, api-grok, api-gemini, api-mistral; define it as [backends.nosuch]
    .volery/agents/stuck.md:4:1: error: the backend cursor cannot enforce the rule deny Bash(curl:*)
      hint: choose another backend, or write unenforceable: warn into the agent's file
    .volery/agents/stuck.md:4:1: error: the script nowhere.yaml cannot be read
    .volery/agents/stuck.md:4:1: warning: delegates: there is no agent nobody here
    .volery/agents/stuck.md:3:1: warning: a rehearsal without steps says nothing, and succeeds
      hint: write for example steps: [{say: hello}], or give it another backend
    "#);
}

#[test]
fn a_key_is_called_as_the_file_calls_it() {
    let env = env();
    in_project(&env, ".opencode/agent/orch.md", "---\ndescription: d\nsteps: 5\n---\nx\n");
    let checked = volery(&env, &["agents", "check"]).ok().stdout;
    insta::assert_snapshot!(env.masked(&checked), @".opencode/agent/orch.md:3:1: warning: steps is not honoured by opencode");
}

#[test]
fn the_version_of_a_program_is_doubted_once_for_all_its_agents() {
    let env = env();
    install(&env, "claude", "0.0.1");
    for name in ["one", "two", "three"] {
        env.agent(name, "backend: claude");
    }
    let checked = volery(&env, &["agents", "check"]).ok().stdout;
    insta::assert_snapshot!(env.masked(&checked), @".volery/agents/one.md: warning: claude [version] is older than [version], the oldest that volery was tried with");
    let shown = volery(&env, &["agents", "show", "two"]).ok().stdout;
    insta::assert_snapshot!(env.masked(first_paragraph(&shown)), @r#"
    agent       two
    description for a test
    file        .volery/agents/two.md (volery format, project layer)
    backend     claude
    model       the backend's default
    settings    callers: "anyone"
                containment: "auto"
                delegates: "nobody"
                on_interrupt: "end"
    warning     claude [version] is older than [version], the oldest that volery was tried with
    "#);
}

#[test]
fn a_display_name_is_refused_with_a_suggestion_of_the_agent_name() {
    let env = env();
    in_project(&env, ".claude/agents/c.md", "---\nname: Caps Name\ndescription: d\n---\nx\n");
    let refused = [&["agents", "show", "Caps Name"][..], &["run", "Caps Name", "x"]]
        .map(|words| volery(&env, words).exits(2).stderr);
    insta::assert_snapshot!(env.masked(&refused.concat()), @r#"
    error: agent name "Caps Name" is not valid: 1 to 100 letters, digits, '.', '_' or '-', beginning with a letter, digit or '_'; ':' and '/' join such words
    hint: did you mean caps-name?
    error: agent name "Caps Name" is not valid: 1 to 100 letters, digits, '.', '_' or '-', beginning with a letter, digit or '_'; ':' and '/' join such words
    hint: did you mean caps-name?
    "#);
}

#[test]
fn all_errors_of_a_file_are_reported_at_once() {
    let env = env();
    let settings = "backend: nosuch\ntimeout: banana\nfallback: [{backend: other}]\ndelegates: [nobody]";
    env.agent("stuck", settings);
    let checked = volery(&env, &["agents", "check"]).exits(1).stdout;
    insta::assert_snapshot!(env.masked(&checked), @r#"
    .volery/agents/stuck.md:4:10: error: timeout: expected a duration, found the text "banana"
      hint: write for example [span], [span], 5m or [span]; a number counts seconds
    .volery/agents/stuck.md:3:1: error: agent stuck needs the backend nosuch, which is not configured
      hint: configured are: rehearsal, loop, claude, glm, claude-kimi, codex, gemini, copilot, qwen, opencode, goose, cursor, kiro, grok, kimi, acp-claude, acp-codex, acp-gemini, acp-copilot, acp-qwen, acp-opencode, acp-goose, acp-kiro, acp-kimi, api-anthropic, api-openai, api-grok, api-gemini, api-mistral; define it as [backends.nosuch]
    .volery/agents/stuck.md:5:1: error: the fallback to other cannot be used: agent stuck needs the backend other, which is not configured
      hint: configured are: rehearsal, loop, claude, glm, claude-kimi, codex, gemini, copilot, qwen, opencode, goose, cursor, kiro, grok, kimi, acp-claude, acp-codex, acp-gemini, acp-copilot, acp-qwen, acp-opencode, acp-goose, acp-kiro, acp-kimi, api-anthropic, api-openai, api-grok, api-gemini, api-mistral; define it as [backends.other]
    .volery/agents/stuck.md:6:1: warning: delegates: there is no agent nobody here
    "#);
    let refused = volery(&env, &["run", "stuck", "x"]).exits(5).stderr;
    insta::assert_snapshot!(env.masked(&refused), @r#"
    error: agent stuck cannot be used: .volery/agents/stuck.md:4:10: timeout: expected a duration, found the text "banana"
    hint: write for example [span], [span], 5m or [span]; a number counts seconds
    "#);
}

#[test]
fn a_wrong_backend_name_is_reported_with_the_other_errors_of_the_file() {
    let env = env();
    in_project(
        &env,
        ".agents/dotted.md",
        "---\nrun-agent: nosuch\npermission: banana\n---\nYou are an agent.\n",
    );
    let jarvis =
        "---\nname: butler\ndescription: d\ntimeout_ms: banana\noutput_schema: {type: strng}\n---\nx\n";
    in_project(&env, "agents/butler/agent.md", jarvis);
    let checked = volery(&env, &["agents", "check"]).exits(1).stdout;
    insta::assert_snapshot!(env.masked(&checked), @r#"
    .agents/dotted.md:3:13: error: permission: expected read-only or safe-edit or yolo, found the text "banana"
    agents/butler/agent.md:4:13: error: timeout_ms: expected a whole number from 1 to [run-id], found the text "banana"
    .agents/dotted.md:2:1: error: agent dotted needs the backend nosuch, which is not configured
      hint: configured are: rehearsal, loop, claude, glm, claude-kimi, codex, gemini, copilot, qwen, opencode, goose, cursor, kiro, grok, kimi, acp-claude, acp-codex, acp-gemini, acp-copilot, acp-qwen, acp-opencode, acp-goose, acp-kiro, acp-kimi, api-anthropic, api-openai, api-grok, api-gemini, api-mistral; define it as [backends.nosuch]
    agents/butler/agent.md:5:1: error: output_schema: the schema is wrong at /type: it is not valid under any of the schemas listed in the 'anyOf' keyword
      hint: output_schema is JSON Schema, draft 2020-12, and refers to nothing outside of itself
    "#);
}

#[test]
fn what_only_the_backend_knows_has_its_column_in_json_on_one_line() {
    let env = env();
    let one_line =
        r#"{"description": "sub-agent: \"tools\": [", "name": "one", "tools": ["fs_read", "execute_bash"]}"#;
    in_project(&env, ".kiro/agents/one.json", one_line);
    let checked = volery(&env, &["agents", "check"]).stdout;
    insta::assert_snapshot!(env.masked(&checked), @".kiro/agents/one.json:1:59: warning: tools: execute_bash is denied: kiro cannot ask anybody, and the level safe-edit does not allow it");
}

#[test]
fn agents_below_the_top_of_the_project_are_reported_as_unread() {
    let env = env();
    let text = "---\nname: near\ndescription: d\n---\nx\n";
    in_project(&env, "part/.claude/agents/near.md", text);
    in_project(&env, "part/agents/notes.md", "no agent of anybody's");
    let part = env.project().join("part");
    let below = part.join("deep");
    std::fs::create_dir(&below).unwrap();
    let mut messages = String::new();
    for directory in [&part, &below] {
        let directory = directory.to_str().unwrap();
        let checked = volery(&env, &["agents", "check", "--dir", directory]);
        messages += &env.masked(&checked.stdout);
        let refused = volery(&env, &["run", "near", "x", "--dir", directory]).exits(5).stderr;
        messages += &env.masked(&refused);
    }
    insta::assert_snapshot!(messages, @"
    part/.claude/agents: warning: its agents are not read, since the project is [stage]/project
      hint: an empty folder [stage]/project/part/.volery makes a project of its own
    error: there is no agent near in [stage]/project
    hint: [stage]/project/part/.claude/agents: warning: its agents are not read, since the project is [stage]/project (hint: an empty folder [stage]/project/part/.volery makes a project of its own)
    part/.claude/agents: warning: its agents are not read, since the project is [stage]/project
      hint: an empty folder [stage]/project/part/.volery makes a project of its own
    error: there is no agent near in [stage]/project
    hint: [stage]/project/part/.claude/agents: warning: its agents are not read, since the project is [stage]/project (hint: an empty folder [stage]/project/part/.volery makes a project of its own)
    ");
    assert!(!volery(&env, &["agents", "check"]).stdout.contains("are not read"), "nobody looks there");
    std::fs::create_dir(part.join(".volery")).unwrap();
    let list = volery(&env, &["agents", "--json", "--dir", part.to_str().unwrap()]).ok().json();
    assert_eq!(problem(&list, "near"), "", "{list}");
}

#[test]
fn equal_problems_of_many_agents_are_reported_once() {
    let env = TestEnv::new();
    for number in 0..17 {
        let text = format!("---\nname: dev{number:02}\ndescription: Works\ncolor: red\n---\nWork.\n");
        in_project(&env, &format!(".claude/agents/dev{number:02}.md"), &text);
    }
    let without_claude =
        |words: &[&str]| command_output(env.command(words).env("PATH", "/nowhere").output().unwrap());
    let list = without_claude(&["agents"]).ok().stdout;
    insta::assert_snapshot!(env.masked(&list), @r"
    AGENT  BACKEND  MODEL  FORMAT  STATE    FILE                     DESCRIPTION
    dev00  claude   -      claude  blocked  .claude/agents/dev00.md  Works
    dev01  claude   -      claude  blocked  .claude/agents/dev01.md  Works
    dev02  claude   -      claude  blocked  .claude/agents/dev02.md  Works
    dev03  claude   -      claude  blocked  .claude/agents/dev03.md  Works
    dev04  claude   -      claude  blocked  .claude/agents/dev04.md  Works
    dev05  claude   -      claude  blocked  .claude/agents/dev05.md  Works
    dev06  claude   -      claude  blocked  .claude/agents/dev06.md  Works
    dev07  claude   -      claude  blocked  .claude/agents/dev07.md  Works
    dev08  claude   -      claude  blocked  .claude/agents/dev08.md  Works
    dev09  claude   -      claude  blocked  .claude/agents/dev09.md  Works
    dev10  claude   -      claude  blocked  .claude/agents/dev10.md  Works
    dev11  claude   -      claude  blocked  .claude/agents/dev11.md  Works
    dev12  claude   -      claude  blocked  .claude/agents/dev12.md  Works
    dev13  claude   -      claude  blocked  .claude/agents/dev13.md  Works
    dev14  claude   -      claude  blocked  .claude/agents/dev14.md  Works
    dev15  claude   -      claude  blocked  .claude/agents/dev15.md  Works
    dev16  claude   -      claude  blocked  .claude/agents/dev16.md  Works

    dev00, dev01, dev02, dev03, dev04 and 12 more cannot run:
      needs claude, which is not on the PATH
      hint: install it: npm install -g @anthropic-ai/claude-code; or give the agent another backend
    ");
    let checked = without_claude(&["agents", "check"]).ok();
    insta::assert_snapshot!(env.masked(&checked.stdout), @"
    .claude/agents/dev00.md:4:8: warning: color is not honoured: it only changes how a terminal shows the agent
      and the same for dev01, dev02, dev03, dev04, dev05 and 11 more
    ");
    insta::assert_snapshot!(env.masked(&checked.stderr), @"
    warning: dev00, dev01, dev02, dev03, dev04 and 12 more: needs claude, which is not on the PATH
      hint: install it: npm install -g @anthropic-ai/claude-code; or give the agent another backend
    17 agents, 17 of them blocked, 0 errors, 34 warnings
    hint: volery agents check --all lists equal warnings of every file
    ");
    assert_eq!(without_claude(&["agents", "check", "--all"]).ok().stdout.matches("color").count(), 17);
    let mut command = env.command(["serve"]);
    command.env("PATH", "/nowhere");
    let mut client = crate::test_env::Client::start(command).initialize("it");
    let listed = client.call("list_agents", serde_json::json!({"directory": env.project()}));
    assert_eq!(listed.to_string().matches("needs claude").count(), 1, "{listed}");
    let none = client.call("list_agents", serde_json::json!({"directory": env.project(), "filter": "zzzz"}));
    assert_eq!((none["agents"].as_array().unwrap().len(), none.get("problems")), (0, None), "{none}");
}
