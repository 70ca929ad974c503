//! An agent that can never run says so before somebody asks for it, and an agent that only this machine stops is told
//! apart.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::stage::{Said, Stage, said};

/// Returns a stage on whose PATH a program stands for Claude Code.
fn stage() -> Stage {
    let stage = Stage::new();
    install(&stage, "claude", "2.1.197");
    stage
}

fn install(stage: &Stage, name: &str, version: &str) {
    let program = stage.path("home/bin").join(name);
    std::fs::create_dir_all(program.parent().unwrap()).unwrap();
    std::fs::write(&program, format!("#!/bin/sh\necho {version}\n")).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn volery(stage: &Stage, words: &[&str]) -> Said {
    let path = format!("{}:/usr/bin:/bin", stage.path("home/bin").display());
    said(stage.command(words).env("PATH", path).env_remove("TRACKER_KEY").output().unwrap())
}

fn problem(list: &Value, name: &str) -> String {
    let agents = list["agents"].as_array().unwrap();
    let agent = agents.iter().find(|agent| agent["name"] == name).unwrap();
    agent["problem"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn what_a_file_can_never_get_is_an_error_of_the_check() {
    for (settings, reason) in [
        ("backend: claude\nextra_args: [--foo]", "the argument \"--foo\" may not be given by an agent"),
        ("backend: api-openai", "it needs a model"),
        ("backend: cursor\npermission: {deny: ['Bash(curl:*)']}", "cannot enforce"),
        ("backend: claude\nfallback: [{backend: nosuch}]", "the fallback to nosuch cannot be used"),
        (
            "backend: claude\nfallback: [{backend: api-openai}]",
            "the fallback to api-openai cannot be used: the api-openai backend",
        ),
        ("backend: rehearsal\nscript: nowhere.yaml", "the script nowhere.yaml cannot be read"),
    ] {
        let stage = stage();
        stage.agent("stuck", settings);
        let checked = volery(&stage, &["agents", "check"]).exits(1);
        let lines: Vec<&str> = checked.stdout.lines().filter(|line| line.contains(reason)).collect();
        assert!(matches!(lines[..], [line] if line.contains(": error: ")), "{checked:?}");
        let list = volery(&stage, &["agents", "--json"]).ok().json();
        let not_installed = settings.contains("cursor");
        assert!(not_installed || problem(&list, "stuck").contains(reason), "{list}");
        assert!(not_installed || !checked.stderr.contains(reason), "said twice: {checked:?}");
        let ran = volery(&stage, &["run", "stuck", "x"]);
        assert_ne!(ran.code, 0, "{ran:?}");
    }
}

#[test]
fn what_this_machine_lacks_blocks_an_agent_and_is_no_error_of_its_file() {
    let stage = stage();
    let server = "mcp_servers: {tracker: {command: tracker, env: {KEY: '${TRACKER_KEY}', B: '${OTHER:-b}'}}}";
    stage.agent("keyless", &format!("backend: claude\n{server}"));
    stage.agent("fine", "backend: claude");
    stage.volery(["trust", "--yes"]).ok();
    let checked = volery(&stage, &["agents", "check"]).ok();
    let missing = "these variables are needed and not set: TRACKER_KEY";
    assert!(checked.stderr.contains(&format!("keyless: {missing}")), "{checked:?}");
    assert!(checked.stderr.contains("2 agents, 1 of them blocked, 0 errors"), "{checked:?}");
    let list = volery(&stage, &["agents", "--json"]).ok().json();
    assert_eq!((problem(&list, "keyless"), problem(&list, "fine")), (missing.to_owned(), String::new()));
    let shown = volery(&stage, &["agents", "show", "keyless", "--json"]).ok().json();
    assert!(shown["invocation"]["process"]["argv"].is_array(), "{shown}");
}

#[test]
fn an_agent_that_may_delegate_to_nobody_who_is_there_is_warned_about() {
    let stage = stage();
    stage.rehearsal("host", "- say: x", "delegates: [gost, helper]");
    stage.rehearsal("ghost", "- say: x", "");
    stage.rehearsal("helper", "- say: x", "");
    let checked = volery(&stage, &["agents", "check", "--json"]).ok().json();
    let found = checked["diagnostics"].as_array().unwrap();
    let expected = (json!("delegates: there is no agent gost here"), json!("did you mean ghost?"));
    assert_eq!(found.len(), 1, "{checked}");
    assert_eq!((found[0]["message"].clone(), found[0]["hint"].clone()), expected);
    let listed = volery(&stage, &["agents"]).ok();
    assert!(listed.stderr.contains("hint: 1 finding in the files"), "{listed:?}");
}

#[test]
fn what_a_project_would_execute_is_not_repeated_for_each_agent() {
    let stage = stage();
    let config = "[backends.upper]\ncommand = [\"tr\", \"a-z\", \"A-Z\"]\n";
    std::fs::write(stage.project().join(".volery/config.toml"), config).unwrap();
    stage.agent("one", "backend: upper");
    stage.agent("two", "backend: upper");
    let list = volery(&stage, &["agents", "--json"]).ok().json();
    let project = stage.project().display().to_string();
    let told = format!(
        "the project {project} would execute programs that you have not trusted\n\
         hint: look at them, then: volery trust {project}"
    );
    assert_eq!((problem(&list, "one"), problem(&list, "two")), (told.clone(), told));
    let refused = volery(&stage, &["run", "one", "x"]).exits(3).stderr;
    assert!(refused.contains("backend upper: "), "{refused}");
}

#[test]
fn settings_of_a_vendor_that_would_have_a_run_refused_block_its_agents_before_they_are_asked_for() {
    let stage = stage();
    install(&stage, "gemini", "0.46.0");
    let hooks = r#"{"hooks": {"BeforeTool": [{"hooks": [{"type": "command", "command": "touch x"}]}]}}"#;
    in_project(&stage, ".gemini/settings.json", hooks);
    in_project(&stage, ".claude/settings.json", hooks);
    stage.agent("follows", "backend: gemini");
    stage.agent("falls_back", "backend: claude\nfallback: [{backend: gemini}]");
    stage.agent("leaves_out", "backend: claude");
    stage.agent("untouched", "backend: rehearsal");
    let (project, list) = (stage.project().display().to_string(), || {
        let list = volery(&stage, &["agents", "--json"]).ok().json();
        ["follows", "falls_back", "leaves_out", "untouched"].map(|name| problem(&list, name))
    });
    let told = format!(
        "gemini would follow {project}/.gemini/settings.json, which you have not trusted\n\
         hint: look at it, then: volery trust {project}"
    );
    assert_eq!(list(), [told.clone(), told, String::new(), String::new()]);
    volery(&stage, &["run", "follows", "x"]).exits(3);
    let shown = volery(&stage, &["agents", "show", "leaves_out", "--json"]).ok().json();
    let warning = shown["warnings"][0].as_str().unwrap_or_default();
    assert!(warning.starts_with("claude leaves out the settings of the project, since "), "{shown}");

    volery(&stage, &["trust", "--yes"]).ok();
    assert_eq!(list(), [const { String::new() }; 4]);
    let shown = volery(&stage, &["agents", "show", "leaves_out", "--json"]).ok().json();
    assert_eq!(shown["warnings"], Value::Null, "{shown}");

    // What goes round in a circle has no end that could be looked at, so nobody can have trusted it.
    let commands = stage.project().join(".claude/commands");
    std::fs::create_dir_all(&commands).unwrap();
    std::os::unix::fs::symlink(&commands, commands.join("round")).unwrap();
    volery(&stage, &["trust", "--yes"]).ok();
    let shown = volery(&stage, &["agents", "show", "leaves_out", "--json"]).ok().json();
    let warning = shown["warnings"][0].as_str().unwrap_or_default();
    assert!(warning.contains(&commands.display().to_string()), "{shown}");
}

fn in_project(stage: &Stage, file: &str, text: &str) {
    let path = stage.project().join(file);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

#[test]
fn tools_of_servers_that_the_agent_does_not_get_are_warned_about() {
    for (file, tools, servers) in [
        (".github/agents/a.agent.md", "['read', 'github/*', 'playwright/*']", &["github", "playwright"][..]),
        (".claude/agents/a.md", "Read, mcp__github__*, mcp__git_hub__get", &["git_hub", "github"]),
        (".gemini/agents/a.md", "[read_file, mcp_my-server_*, mcp_*]", &["my-server"]),
    ] {
        let stage = stage();
        in_project(&stage, file, &format!("---\nname: a\ndescription: d\ntools: {tools}\n---\nx\n"));
        let checked = volery(&stage, &["agents", "check", "--json"]).ok().json();
        let found = checked["diagnostics"].as_array().unwrap();
        let told: Vec<&str> = found.iter().filter_map(|found| found["message"].as_str()).collect();
        let sentence = |server: &&str| {
            format!(
                "no tool of the MCP server {server} can be used: the agent has only the servers that its own file \
                 defines and does not switch off"
            )
        };
        let expected: Vec<String> = servers.iter().map(sentence).collect();
        let told: Vec<&str> = told.into_iter().filter(|told| told.contains("MCP server")).collect();
        assert_eq!(told, expected, "{checked}");
    }
    let stage = stage();
    let own = "mcpServers:\n  - my_tracker:\n      command: x\n";
    let text = format!("---\nname: a\ndescription: d\ntools: Read, mcp__my_tracker__find\n{own}---\nx\n");
    in_project(&stage, ".claude/agents/a.md", &text);
    let checked = volery(&stage, &["agents", "check", "--json"]).ok().json();
    assert_eq!(checked["diagnostics"], json!(null), "{checked}");
}

#[test]
fn what_to_do_about_a_permission_depends_on_the_format_and_less_than_allowed_is_a_warning() {
    let stage = stage();
    let permission =
        "permission:\n  external_directory:\n    \"~/x/**\": allow\n  webfetch:\n    \"x\": allow\n";
    in_project(&stage, ".opencode/agent/able.md", &format!("---\ndescription: d\n{permission}---\nx\n"));
    let denies = "permission:\n  webfetch:\n    \"x\": deny\n";
    in_project(&stage, ".opencode/agent/stuck.md", &format!("---\ndescription: d\n{denies}---\nx\n"));
    let checked = volery(&stage, &["agents", "check", "--json"]).exits(1).json();
    let found = checked["diagnostics"].as_array().unwrap();
    let told: Vec<String> =
        found.iter().map(|found| format!("{}: {}", found["severity"], found["message"])).collect();
    let expected = [
        "\"error\": \"the backend opencode cannot enforce the rule deny webfetch(x)\"",
        "\"warning\": \"the rule allow webfetch(x) grants nothing: opencode has no words for it\"",
    ];
    assert_eq!(told, expected, "{checked}");
    let hint = "choose another backend, or define the agent in Volery's own format, which has unenforceable: warn; \
                `volery agents new` begins one";
    assert_eq!(found[0]["hint"], json!(hint), "{checked}");
}

#[test]
fn what_a_backend_does_not_honour_is_told_with_its_line() {
    let stage = stage();
    stage.agent("warm", "backend: claude\ntemperature: 0.5");
    let checked = volery(&stage, &["agents", "check"]).ok().stdout;
    let text = std::fs::read_to_string(stage.project().join(".volery/agents/warm.md")).unwrap();
    let line = text.lines().position(|line| line.starts_with("temperature")).unwrap() + 1;
    let told = format!("warm.md:{line}:1: warning: temperature is not honoured by claude");
    assert!(checked.contains(&told), "{checked}");
}

#[test]
fn an_agent_answers_into_a_file_only_where_its_backend_can() {
    let stage = stage();
    let template = "response_file: {template: 'Write to {{RESPONSE_FILE}}.'}";
    stage.agent("speaker", &format!("backend: claude\n{template}"));
    stage.agent("reader", &format!("backend: kiro\npermission: read-only\n{template}"));
    stage.agent("writer", &format!("backend: kiro\n{template}"));
    let list = volery(&stage, &["agents", "--json"]).ok().json();
    let ways: Vec<&Value> =
        list["agents"].as_array().unwrap().iter().map(|agent| &agent["answers_by"]).collect();
    assert_eq!(ways[..3], [&json!("output"), &json!("output"), &json!("file")], "{list}");
    let told = volery(&stage, &["agents", "check"]).ok();
    let (checked, findings) = (told.stderr, told.stdout);
    assert!(
        checked.contains("writer answers into a file") && !checked.contains("speaker answers"),
        "{checked}"
    );
    assert!(!checked.contains("reader answers"), "{checked}");
    let unhonoured =
        "response_file is not honoured: the agent may not write files, and answers by its output";
    assert_eq!(findings.matches(unhonoured).count(), 1, "{findings}");
}

#[test]
fn tools_that_are_denied_unasked_and_rules_that_want_a_question_are_told_with_their_line() {
    let stage = stage();
    install(&stage, "copilot", "1.0.0");
    install(&stage, "gemini", "0.1.0");
    let copilot = "---\nname: a\ndescription: d\ntools: [read, execute]\n---\nx\n";
    in_project(&stage, ".github/agents/a.agent.md", copilot);
    stage.agent("asking", "backend: gemini\npermission: {ask: [Edit]}");
    let checked = volery(&stage, &["agents", "check"]).ok().stdout;
    assert!(
        checked.contains("a.agent.md:4:1: warning: tools: execute is denied: without a level"),
        "{checked}"
    );
    assert!(checked.contains("copilot cannot ask anybody; to allow that, write permission = { allow = [\"execute\"] } under [agents.a]"), "{checked}");
    let asks = "warning: permission: the rule ask Edit denies, since gemini cannot ask anybody";
    assert!(
        checked.lines().any(|line| line.contains("asking.md:4:1: ") && line.ends_with(asks)),
        "{checked}"
    );
    let shown = volery(&stage, &["agents", "show", "a"]).ok().stdout;
    assert!(shown.contains("tools: execute is denied"), "{shown}");
}

#[test]
fn the_users_own_agents_are_the_users_also_from_their_home() {
    let stage = stage();
    let file = stage.path("home/.claude/agents/mine.md");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let text = "---\nname: mine\ndescription: d\nmcpServers:\n  - a:\n      command: x\n---\nx\n";
    std::fs::write(&file, text).unwrap();
    let link = stage.path("link");
    std::os::unix::fs::symlink(stage.path("home"), &link).unwrap();
    let path = format!("{}:/usr/bin:/bin", stage.path("home/bin").display());
    for home in [stage.path("home"), link] {
        let mut command = stage.command(["agents", "--json", "--dir", stage.path("home").to_str().unwrap()]);
        let list = said(command.env("PATH", &path).env("HOME", &home).output().unwrap()).ok().json();
        let agents = list["agents"].as_array().unwrap();
        let layers: Vec<&Value> = agents.iter().map(|agent| &agent["layer"]).collect();
        assert_eq!(layers, [&json!("user"), &json!("default")], "{list}");
        assert_eq!((problem(&list, "mine"), &list["diagnostics"]), (String::new(), &json!(null)), "{list}");
    }
}

#[test]
fn what_only_the_backend_knows_to_be_wrong_has_its_line() {
    for (settings, key, reason) in [
        ("backend: claud", "backend", "needs the backend claud, which is not configured"),
        ("backend: claude\nextra_args: [--foo]", "extra_args", "the argument \"--foo\""),
        ("backend: claude\noutput_schema: {type: strng}", "output_schema", "output_schema: "),
        ("backend: claude\nfallback: [{backend: nosuch}]", "fallback", "the fallback to nosuch"),
        ("backend: cursor\npermission: {deny: ['Bash(curl:*)']}", "permission", "cannot enforce"),
        ("backend: rehearsal\nscript: nowhere.yaml", "script", "the script nowhere.yaml cannot be read"),
        ("backend: claude\ndelegates: [nobody]", "delegates", "there is no agent nobody here"),
        ("backend: rehearsal", "backend", "a rehearsal without steps says nothing"),
    ] {
        let stage = stage();
        stage.agent("stuck", settings);
        let text = std::fs::read_to_string(stage.project().join(".volery/agents/stuck.md")).unwrap();
        let line = text.lines().position(|line| line.starts_with(key)).unwrap() + 1;
        let checked = volery(&stage, &["agents", "check"]).stdout;
        let place = format!("stuck.md:{line}:1: ");
        let told = |found: &str| found.contains(&place) && found.contains(reason);
        assert!(checked.lines().any(told), "{settings}: {checked}");
    }
}

#[test]
fn a_key_is_called_as_the_file_calls_it() {
    let stage = stage();
    in_project(&stage, ".opencode/agent/orch.md", "---\ndescription: d\nsteps: 5\n---\nx\n");
    let checked = volery(&stage, &["agents", "check"]).ok().stdout;
    assert!(checked.contains("orch.md:3:1: warning: steps is not honoured by opencode"), "{checked}");
}

#[test]
fn the_version_of_a_program_is_doubted_once_for_all_its_agents() {
    let stage = stage();
    install(&stage, "claude", "0.0.1");
    for name in ["one", "two", "three"] {
        stage.agent(name, "backend: claude");
    }
    let checked = volery(&stage, &["agents", "check"]).ok().stdout;
    assert_eq!(checked.matches("claude 0.0.1 is older than").count(), 1, "{checked}");
    let shown = volery(&stage, &["agents", "show", "two"]).ok().stdout;
    assert!(shown.contains("claude 0.0.1 is older than"), "{shown}");
}

#[test]
fn who_types_the_name_for_people_is_told_the_one_for_programs() {
    let stage = stage();
    in_project(&stage, ".claude/agents/c.md", "---\nname: Caps Name\ndescription: d\n---\nx\n");
    for words in [&["agents", "show", "Caps Name"][..], &["run", "Caps Name", "x"]] {
        let refused = volery(&stage, words).exits(2).stderr;
        assert!(refused.contains("hint: did you mean caps-name?"), "{refused}");
    }
}

#[test]
fn all_that_is_wrong_with_a_file_is_told_at_once() {
    let stage = stage();
    let settings = "backend: nosuch\ntimeout: banana\nfallback: [{backend: other}]\ndelegates: [nobody]";
    stage.agent("stuck", settings);
    let checked = volery(&stage, &["agents", "check"]).exits(1).stdout;
    for (line, told) in [
        (3, "error: agent stuck needs the backend nosuch, which is not configured"),
        (4, "error: timeout: "),
        (5, "error: the fallback to other cannot be used"),
        (6, "warning: delegates: there is no agent nobody here"),
    ] {
        let wanted = format!("stuck.md:{line}:");
        let found = |found: &str| found.contains(&wanted) && found.contains(told);
        assert_eq!(checked.lines().filter(|line| found(line)).count(), 1, "{told}: {checked}");
    }
    let refused = volery(&stage, &["run", "stuck", "x"]).exits(5).stderr;
    assert!(refused.contains("its file has a problem"), "{refused}");
}

#[test]
fn a_wrong_word_for_the_program_is_told_beside_the_other_mistakes_of_the_file() {
    let stage = stage();
    in_project(
        &stage,
        ".agents/dotted.md",
        "---\nrun-agent: nosuch\npermission: banana\n---\nYou are an agent.\n",
    );
    let jarvis =
        "---\nname: butler\ndescription: d\ntimeout_ms: banana\noutput_schema: {type: strng}\n---\nx\n";
    in_project(&stage, "agents/butler/agent.md", jarvis);
    let checked = volery(&stage, &["agents", "check"]).exits(1).stdout;
    for (place, told) in [
        ("dotted.md:2:1: ", "needs the backend nosuch, which is not configured"),
        ("dotted.md:3:13: ", "permission: "),
        ("agent.md:4:13: ", "timeout_ms: "),
        ("agent.md:5:1: ", "output_schema: "),
    ] {
        let found = |line: &&str| line.contains(&format!("{place}error: ")) && line.contains(told);
        assert_eq!(checked.lines().filter(found).count(), 1, "{place}{told}: {checked}");
    }
}

#[test]
fn what_only_the_backend_knows_has_its_column_in_json_on_one_line() {
    let stage = stage();
    let one_line =
        r#"{"description": "sub-agent: \"tools\": [", "name": "one", "tools": ["fs_read", "execute_bash"]}"#;
    in_project(&stage, ".kiro/agents/one.json", one_line);
    let checked = volery(&stage, &["agents", "check"]).stdout;
    let column = one_line.find("\"tools\": [\"").unwrap() + 1;
    let place = format!("one.json:1:{column}: warning: tools: execute_bash is denied");
    assert!(checked.contains(&place), "{place}: {checked}");
}

#[test]
fn agents_that_stand_below_the_top_of_the_project_are_said_to_be_unread() {
    let stage = stage();
    let text = "---\nname: near\ndescription: d\n---\nx\n";
    in_project(&stage, "part/.claude/agents/near.md", text);
    in_project(&stage, "part/agents/notes.md", "no agent of anybody's");
    let part = stage.project().join("part");
    let below = part.join("deep");
    std::fs::create_dir(&below).unwrap();
    let folder = part.join(".claude/agents");
    let told = format!("{}: warning: its agents are not read, since the project is ", folder.display());
    for directory in [&part, &below] {
        let directory = directory.to_str().unwrap();
        let checked = volery(&stage, &["agents", "check", "--dir", directory]);
        assert_eq!(checked.stdout.matches("are not read, since").count(), 1, "{checked:?}");
        assert!(checked.stdout.contains(&told), "{checked:?}");
        let refused = volery(&stage, &["run", "near", "x", "--dir", directory]).exits(5).stderr;
        assert!(refused.contains(&told), "{refused}");
    }
    assert!(!volery(&stage, &["agents", "check"]).stdout.contains("are not read"), "nobody looks there");
    std::fs::create_dir(part.join(".volery")).unwrap();
    let list = volery(&stage, &["agents", "--json", "--dir", part.to_str().unwrap()]).ok().json();
    assert_eq!(problem(&list, "near"), "", "{list}");
}

#[test]
fn equal_problems_of_many_agents_are_told_once() {
    let stage = Stage::new();
    for number in 0..17 {
        let text = format!("---\nname: dev{number:02}\ndescription: Works\ncolor: red\n---\nWork.\n");
        in_project(&stage, &format!(".claude/agents/dev{number:02}.md"), &text);
    }
    let without_claude =
        |words: &[&str]| said(stage.command(words).env("PATH", "/nowhere").output().unwrap());
    let list = without_claude(&["agents"]).ok().stdout;
    assert_eq!(list.matches("needs claude, which is not on the PATH").count(), 1, "{list}");
    assert!(list.contains("dev00, dev01, dev02, dev03, dev04 and 12 more cannot run:"), "{list}");
    let checked = without_claude(&["agents", "check"]).ok();
    assert_eq!(checked.stdout.matches("color").count(), 1, "{checked:?}");
    assert_eq!(checked.stderr.matches("needs claude").count(), 1, "{checked:?}");
    assert!(checked.stderr.contains("volery agents check --all"), "{checked:?}");
    assert_eq!(without_claude(&["agents", "check", "--all"]).ok().stdout.matches("color").count(), 17);
    let mut command = stage.command(["serve"]);
    command.env("PATH", "/nowhere");
    let mut client = crate::stage::Client::start(command).initialize("it");
    let listed = client.call("list_agents", serde_json::json!({"directory": stage.project()}));
    assert_eq!(listed.to_string().matches("needs claude").count(), 1, "{listed}");
    let none =
        client.call("list_agents", serde_json::json!({"directory": stage.project(), "filter": "zzzz"}));
    assert_eq!((none["agents"].as_array().unwrap().len(), none.get("problems")), (0, None), "{none}");
}
