//! What callers and configurations allow and deny an agent beyond its own file: recorded, shown, and never more than who
//! asks may ask for.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::test_env::{
    Client, CommandOutput, PATIENCE, TestEnv, command_output, first_paragraph, run_processes, wait_for,
};

/// A test environment with a program that is called like Claude Code and only fails.
fn env() -> TestEnv {
    let env = TestEnv::new();
    let program = env.path("bin/claude");
    std::fs::create_dir_all(program.parent().unwrap()).unwrap();
    std::fs::write(&program, "#!/bin/sh\nexit 9\n").unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let folder = env.project().join(".claude/agents");
    std::fs::create_dir_all(&folder).unwrap();
    let text = "---\nname: reviewer\ndescription: Reviews\nmodel: opus\ntools: Read, Bash\n---\nReview.\n";
    std::fs::write(folder.join("reviewer.md"), text).unwrap();
    env
}

fn command(env: &TestEnv, words: &[&str]) -> Command {
    let mut command = env.command(words);
    command.env("PATH", format!("{}:/usr/bin:/bin", env.path("bin").display())).stdin(Stdio::null());
    command
}

fn volery(env: &TestEnv, words: &[&str]) -> CommandOutput {
    command_output(command(env, words).output().unwrap())
}

/// Returns the permission of a run, without where its rules are written.
fn permission(spec: &Value) -> Value {
    let mut permission = spec["setup"]["permission"].clone();
    permission.as_object_mut().map(|permission| permission.remove("origins"));
    permission
}

/// Runs an agent, which fails, and returns the spec of the run.
fn spec_of(env: &TestEnv, agent: &str, words: &[&str]) -> Value {
    volery(env, &[&["run", agent, "go", "--timeout", "20s"], words].concat()).exits(1);
    env.spec(env.runs().last().unwrap())
}

fn project_config(env: &TestEnv, text: &str) {
    std::fs::write(env.project().join(".volery/config.toml"), text).unwrap();
}

#[test]
fn a_shell_user_allows_more_or_less_and_that_is_recorded() {
    let env = env();
    let words = ["--allow", "Bash(git log:*)", "--ask", "WebFetch", "--deny", "Edit(docs/**)"];
    let spec = spec_of(&env, "reviewer", &words);
    let permission = json!({"allow": ["Bash(git log:*)"], "ask": ["WebFetch"], "deny": ["Edit(docs/**)"]});
    assert_eq!(spec["setup"]["permission"], permission, "{spec}");
    let grant = json!({"source": "caller", "by": "the command line", "asked": permission,
        "widens": ["the rule allow Bash(git log:*)"]});
    assert_eq!(spec["grants"], json!([grant]), "{spec}");
    let page = volery(&env, &["show", spec["id"].as_str().unwrap()]).stdout;
    insta::assert_snapshot!(env.masked(&page), @r#"
    run         [run id]
    short id    [run-id]
    agent       reviewer (backend claude)
    status      failed: the agent exited with code 9
    asked by    you
    prompt      go
    permission  allow "Bash(git log:*)"; ask "WebFetch"; deny "Edit(docs/**)" by the command line; allows more than before: the rule allow Bash(git log:*)
    questions   denied at once: the command has no terminal
    created     [time] ([span] ago)
    started     [time] ([span] ago)
    ended       [time] ([span] ago)
    time        [span]
    tokens      not known
    cost        not known
    exit code   9
    directory   [stage]/project
    contained   [as this machine can]
    warning     claude does not tell its version (asked with --version, it exits with 9); [version] to [version] is what volery fits
    warning     permission: the rule ask WebFetch denies, since nobody can answer: the command has no terminal
    "#);
    let spec = spec_of(&env, "reviewer", &["--permission", "read-only"]);
    assert_eq!(spec["setup"]["permission"], json!({"level": "read-only"}), "{spec}");
    assert_eq!(spec["grants"][0]["widens"], json!(null), "{spec}");
    let refused = volery(&env, &["run", "reviewer", "go", "--allow", "Bash", "--deny", "Bash"]).exits(3);
    insta::assert_snapshot!(env.masked(&refused.stderr), @"
    error: agent reviewer: the rule allow Bash has no effect: the rule deny Bash wins
    hint: leave the rule out
    ");
    let refused = volery(&env, &["run", "reviewer", "go", "--allow", "Bash("]).exits(2);
    insta::assert_snapshot!(env.masked(&refused.stderr), @r#"
    error: invalid value 'Bash(' for '--allow <RULE>': "Bash(" is not a rule: the parenthesis is not closed at its end

    For more information, try '--help'.
    "#);
}

#[test]
fn a_caller_over_mcp_only_narrows_unless_its_user_says_otherwise() {
    let env = env();
    let ask = |permission: Value| json!({"agent": "reviewer", "prompt": "go", "permission": permission, "wait_s": 0});
    let mut client = Client::start(command(&env, &["serve"])).initialize("it");
    let refused = [json!({"level": "yolo"}), json!({"allow": ["Bash"]}), json!({"allow": ["("]})]
        .map(|wide| client.refused("run_agent", ask(wide)));
    insta::assert_snapshot!(env.masked(&refused.join("\n")), @r#"
    agent reviewer: the level yolo would allow more than its own permission (safe-edit by default)
    hint: callers may only ask for less; your user allows more by permission under [agents.reviewer] in their configuration, or lets callers do so by callers_may_widen = true under [serve]
    agent reviewer: the rule allow Bash would allow more than its own permission (safe-edit by default)
    hint: callers may only ask for less; your user allows more by permission under [agents.reviewer] in their configuration, or lets callers do so by callers_may_widen = true under [serve]
    permission: "(" is not a rule: no tool stands before the parenthesis
    hint: write for example Read or Bash(git log:*)
    "#);
    assert_eq!(env.runs(), Vec::<String>::new());
    let narrow = json!({"level": "read-only", "deny": ["WebFetch"]});
    let run = client.call("run_agent", ask(narrow.clone()))["run_id"].as_str().unwrap().to_owned();
    let spec = env.spec(&run);
    assert_eq!(spec["setup"]["permission"], narrow, "{spec}");
    assert_eq!(spec["grants"][0]["by"], json!("the caller it"), "{spec}");
    // A project has no say in it.
    project_config(&env, "[serve]\ncallers_may_widen = true\n");
    client.refused("run_agent", ask(json!({"level": "yolo"})));
    env.configure("[serve]\ncallers_may_widen = true\n");
    let run = client.call("run_agent", ask(json!({"level": "yolo"})))["run_id"].as_str().unwrap().to_owned();
    assert_eq!(env.spec(&run)["grants"][0]["widens"], json!(["the level yolo"]));
}

#[test]
fn the_users_configuration_overlays_agents_of_any_format() {
    let env = env();
    env.configure(
        "[agents.reviewer]\npermission = { allow = [\"Bash\"] }\nmodel = \"haiku\"\ntimeout = \"3m\"\n\
         [defaults.claude]\npermission = \"yolo\"\nmax_turns = 7\n",
    );
    let spec = spec_of(&env, "reviewer", &[]);
    assert_eq!(permission(&spec), json!({"level": "yolo", "allow": ["Bash"]}), "{spec}");
    let origin = spec["setup"]["permission"]["origins"]["allow Bash"].as_str().unwrap();
    assert!(origin.ends_with("/config/config.toml:3"), "{origin}");
    assert_eq!((&spec["model"], &spec["setup"]["max_turns"]), (&json!("haiku"), &json!(7)), "{spec}");
    let sections: Vec<&str> =
        spec["grants"].as_array().unwrap().iter().map(|grant| grant["by"].as_str().unwrap()).collect();
    insta::assert_snapshot!(env.masked(&sections.join("\n")), @"
    [defaults.claude] of [stage]/config/config.toml
    [agents.reviewer] of [stage]/config/config.toml
    ");
    let page = volery(&env, &["agents", "show", "reviewer"]).ok().stdout;
    insta::assert_snapshot!(env.masked(first_paragraph(&page)), @r#"
    agent       reviewer
    description Reviews
    file        .claude/agents/reviewer.md (claude format, project layer)
    backend     claude
    model       haiku
    settings    callers: "anyone"
                containment: "auto"
                delegates: "nobody"
                max_turns: 7
                on_interrupt: "end"
                permission: {"level":"yolo","allow":["Bash"]}
                prompt_mode: "replace"
                timeout_ms: 180000
                tools: ["Read","Bash"]
    permission  yolo by [defaults.claude] of [stage]/config/config.toml; allows more than before: the level yolo
    permission  allow "Bash" by [agents.reviewer] of [stage]/config/config.toml
    warning     claude does not tell its version (asked with --version, it exits with 9); [version] to [version] is what volery fits
    "#);
    // Built-in agents too; and a caller's time-out beats the section's.
    let spec = spec_of(&env, "claude", &[]);
    assert_eq!(spec["setup"]["permission"], json!({"level": "yolo"}), "{spec}");
    env.configure("[agents.claude]\nbudget = 5\n");
    let refused = volery(&env, &["run", "claude", "go"]).exits(2).stderr;
    insta::assert_snapshot!(env.masked(&refused), @"
    error: the configuration has errors, so nothing is started:
      [stage]/config/config.toml:11:10: error: agents.claude.budget: a budget in money cannot be enforced, so the section is refused (hint: bound the work instead: timeout, limits, max_turns)
    hint: `volery agents check` lists everything that is wrong
    ");
}

#[test]
fn a_projects_overlay_widens_only_after_trust() {
    let env = env();
    project_config(&env, "[agents.reviewer]\npermission = \"yolo\"\nmodel = \"haiku\"\n");
    let spec = spec_of(&env, "reviewer", &[]);
    assert_eq!((&spec["setup"]["permission"], &spec["model"]), (&json!(null), &json!("opus")), "{spec}");
    insta::assert_snapshot!(env.masked_texts(&spec["warnings"]), @"
    claude does not tell its version (asked with --version, it exits with 9); [version] to [version] is what volery fits
    [agents.reviewer] of [stage]/project/.volery/config.toml: model is not applied: the project is not trusted
    [agents.reviewer] of [stage]/project/.volery/config.toml: permission is not applied: the level yolo, and the project is not trusted
    ");
    let checked = volery(&env, &["agents", "check"]).stdout;
    insta::assert_snapshot!(env.masked(&checked), @"
    .claude/agents/reviewer.md: warning: [agents.reviewer] of .volery/config.toml: model is not applied: the project is not trusted
    .claude/agents/reviewer.md: warning: [agents.reviewer] of .volery/config.toml: permission is not applied: the level yolo, and the project is not trusted
    .claude/agents/reviewer.md: warning: claude does not tell its version (asked with --version, it exits with 9); [version] to [version] is what volery fits
    ");
    volery(&env, &["trust", "--yes"]).ok();
    let spec = spec_of(&env, "reviewer", &[]);
    let applied = (&json!({"level": "yolo"}), &json!("haiku"));
    assert_eq!((&spec["setup"]["permission"], &spec["model"]), applied, "{spec}");
    // What only narrows needs no trust.
    project_config(&env, "[agents.reviewer]\npermission = \"read-only\"\n");
    let spec = spec_of(&env, "reviewer", &[]);
    assert_eq!(spec["setup"]["permission"], json!({"level": "read-only"}), "{spec}");
}

#[test]
fn a_section_for_a_name_holds_for_every_file_of_that_name() {
    let env = env();
    // Volery's own format comes before Claude Code's, so that one has to be requested by its format.
    env.agent("reviewer", "backend: claude");
    env.configure("[agents.reviewer]\npermission = { level = \"read-only\", deny = [\"Bash\"] }\n");
    for name in ["reviewer", "claude:reviewer"] {
        let spec = spec_of(&env, name, &[]);
        let expected = json!({"level": "read-only", "deny": ["Bash"]});
        assert_eq!((&spec["agent"], permission(&spec)), (&json!(name), expected), "{spec}");
    }
}

/// Claude Code for a run that is interrupted after it has named its conversation, and for one that continues it.
const INTERRUPTED: &str = r#"#!/bin/sh
[ "$1" = --version ] && echo 2.1.325 && exit
for word in "$@"; do printf '%s\n' "$word"; done >> "$HOME/words"
printf 'COLOUR=%s\n--\n' "$AVIARY_COLOUR" >> "$HOME/words"
session='"session_id":"11111111-1111-1111-1111-111111111111"'
echo '{"type":"system","subtype":"init",'$session',"model":"sonnet","tools":[]}'
case "$*" in
  *--resume=*) echo '{"type":"result","subtype":"success","is_error":false,"result":"went on",'$session'}' ;;
  *) exec sleep 600 ;;
esac
"#;

#[test]
fn an_interrupted_run_of_a_dialect_goes_on_with_the_rights_that_it_had() {
    let env = env();
    std::fs::create_dir_all(env.path("home")).unwrap();
    std::fs::write(env.path("bin/claude"), INTERRUPTED).unwrap();
    std::fs::create_dir(env.path("agents")).unwrap();
    std::fs::write(env.path("agents/reviewer.md"), "# Reviews").unwrap();
    let mut serve = command(&env, &["serve", "--dialect", "sub-agents-mcp"]);
    serve
        .env("AGENTS_DIR", env.path("agents"))
        .env("AGENT_TYPE", "claude")
        .env("AGENT_PERMISSION", "read-only");
    serve.env("AVIARY_COLOUR", "blue");
    let mut client = Client::start(serve).initialize("it");
    let arguments = json!({"agent": "reviewer", "prompt": "go", "cwd": env.project()});
    client.send("tools/call", json!({"name": "run_agent", "arguments": arguments}));
    let id = wait_for(PATIENCE, "a run", || env.runs().pop());
    interrupt(&env, &id);
    // The native agent of this name, and what is in the shell's environment, are no matter.
    let mut resume = command(&env, &["resume", &id, "--json"]);
    resume.env("AVIARY_COLOUR", "green").env("AGENT_PERMISSION", "yolo");
    let went_on = command_output(resume.output().unwrap()).ok().json();
    assert_eq!(went_on["result"], json!("went on"), "{went_on}");
    let runs = env.runs();
    let (before, after) = (env.spec(&id), env.spec(runs.iter().find(|run| **run != id).unwrap()));
    for key in ["agent", "source", "system_prompt", "directory", "limits"] {
        assert_eq!(after[key], before[key], "{key}");
    }
    assert_eq!(after["setup"]["permission"], json!({"level": "read-only"}), "{after}");
    assert_eq!(after["setup"]["inherit"], json!(["mcp-servers", "settings"]), "{after}");
    insta::assert_snapshot!(env.masked_texts(&after["warnings"]), @"
    this run continues [run-id], which was interrupted
    withheld: the server's environment: the run goes on outside of the server that it was started by
    ");
    let words = std::fs::read_to_string(env.path("home/words")).unwrap();
    let calls: Vec<&str> = words.split("--\n").filter(|call| call.contains("COLOUR=")).collect();
    assert!(calls[0].contains("COLOUR=blue") && calls[1].ends_with("COLOUR=\n"), "{words}");
    assert!(calls.iter().all(|call| call.contains("--permission-mode=plan")), "{words}");
}

/// Claude Code that names its conversation and then works until it is killed.
const WORKS_ON: &str = r#"#!/bin/sh
[ "$1" = --version ] && echo 2.1.325 && exit
echo '{"type":"system","subtype":"init","session_id":"11111111-1111-1111-1111-111111111111","model":"sonnet","tools":[]}'
exec sleep 600
"#;

/// Kills the keeper and the worker of a run that has named its session.
fn interrupt(env: &TestEnv, id: &str) {
    env.wait_for_event(id, "session_named");
    let run_processes = run_processes(&env.run_dir(id));
    run_processes.keeper.unwrap().kill();
    run_processes.worker.unwrap().kill();
    assert_eq!(env.wait_for_end(id)["outcome"]["outcome"], json!("interrupted"));
}

#[test]
fn a_run_of_jarvis_can_be_resumed_again_after_a_second_interruption() {
    let env = env();
    std::fs::write(env.path("bin/claude"), WORKS_ON).unwrap();
    let folder = env.path("jarvis/agents/helper");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("agent.md"), "---\nname: helper\ndescription: Helps.\n---\nYou help.\n")
        .unwrap();
    let mut serve = command(&env, &["serve", "--dialect", "jarvis"]);
    serve.env("JARVIS_HOME", env.path("jarvis"));
    let mut client = Client::start(serve).initialize("it");
    let arguments = json!({"agent_name": "helper", "prompt": "go"});
    client.send("tools/call", json!({"name": "run_subagent", "arguments": arguments}));
    let first = env.wait_for_run_count(1);
    interrupt(&env, &first);
    volery(&env, &["resume", &first, "--background"]).ok();
    let second = env.wait_for_run_count(2);
    interrupt(&env, &second);
    std::fs::write(env.path("bin/claude"), INTERRUPTED).unwrap();
    let went_on = volery(&env, &["resume", &second, "--json"]).ok().json();
    assert_eq!(went_on["result"], json!("went on"), "{went_on}");
    let (before, after) = (env.spec(&first), env.spec(&env.wait_for_run_count(3)));
    for key in ["agent", "source", "system_prompt", "directory", "limits"] {
        assert_eq!(after[key], before[key], "{key}");
    }
    assert_eq!(after["setup"]["permission"], before["setup"]["permission"], "{after}");
}

#[test]
fn an_interrupted_run_of_a_dialect_that_named_no_session_is_not_begun_again() {
    let env = env();
    std::fs::write(
        env.path("bin/claude"),
        "#!/bin/sh\n[ \"$1\" = --version ] && echo 2.1.325 && exit\nexec sleep 600\n",
    )
    .unwrap();
    env.configure("[serve]\npowerspawn_permission = \"read-only\"\n");
    let mut client = Client::start(command(&env, &["serve", "--dialect", "powerspawn"])).initialize("it");
    client.request("tools/call", json!({"name": "spawn_claude", "arguments": {"prompt": "go"}}));
    let id = env.only_run();
    env.wait_for_event(&id, "agent_started");
    let run_processes = run_processes(&env.run_dir(&id));
    run_processes.keeper.unwrap().kill();
    run_processes.worker.unwrap().kill();
    assert_eq!(env.wait_for_end(&id)["outcome"]["outcome"], json!("interrupted"));
    volery(&env, &["resume", &id]).exits(2);
    assert_eq!(env.runs().len(), 1);
}

/// Returns the spec of the last run of an agent.
fn last_spec(env: &TestEnv, agent: &str) -> Value {
    let mut specs = env.runs().into_iter().rev().map(|id| env.spec(&id));
    specs.find(|spec| spec["agent"] == json!(agent)).expect("a run of the agent")
}

#[test]
fn what_a_caller_denies_holds_for_the_runs_that_the_agent_starts() {
    let env = env();
    env.rehearsal("boss", "- delegate: {agent: middle, prompt: deep}", "delegates: anyone");
    env.rehearsal(
        "middle",
        "- delegate: {agent: leaf, prompt: deeper}",
        "delegates: anyone\npermission: yolo",
    );
    env.agent("leaf", "backend: claude\npermission: {level: yolo, allow: [Bash]}");
    volery(&env, &["trust", "--yes"]).ok();
    let run = |words: &[&str]| {
        volery(&env, &[&["run", "boss", "go", "--timeout", "20s"], words].concat());
        (last_spec(&env, "middle"), last_spec(&env, "leaf"))
    };
    let (middle, leaf) = run(&["--permission", "read-only", "--deny", "WebFetch"]);
    let expected = json!({"level": "read-only", "deny": ["WebFetch"]});
    assert_eq!(middle["setup"]["permission"], expected, "{middle}");
    assert_eq!(leaf["setup"]["permission"], expected, "{leaf}");
    let grant = &leaf["grants"][0];
    assert_eq!((&grant["source"], &grant["asked"]), (&json!("parent"), &expected), "{leaf}");
    let short = |spec: &Value| {
        volery(&env, &["show", spec["id"].as_str().unwrap(), "--json"]).json()["short_id"].clone()
    };
    let by = format!("its parent run {} (agent middle)", short(&middle).as_str().unwrap());
    assert_eq!(grant["by"], json!(by), "{leaf}");
    insta::assert_snapshot!(env.masked_texts(&leaf["warnings"]), @r#"
    claude does not tell its version (asked with --version, it exits with 9); [version] to [version] is what volery fits
    permission: narrowed by its parent run [run-id] (agent middle), which has read-only; deny "WebFetch": the level yolo becomes read-only, the rule allow Bash does not count, the rule deny WebFetch is added; to allow more, write a wider permission under [agents.middle] in your configuration
    "#);
    let page = volery(&env, &["show", leaf["id"].as_str().unwrap()]).stdout;
    insta::assert_snapshot!(env.masked(&page), @r#"
    run         [run id]
    short id    [run-id]
    agent       leaf (backend claude)
    status      failed: the agent exited with code 9
    asked by    middle
    prompt      deeper
    permission  at most read-only; deny "WebFetch" by its parent run [run-id] (agent middle)
    questions   denied at once: the command has no terminal
    created     [time] ([span] ago)
    started     [time] ([span] ago)
    ended       [time] ([span] ago)
    time        [span]
    tokens      not known
    cost        not known
    exit code   9
    directory   [stage]/project
    parent      [run-id]
    contained   [as this machine can]
    warning     claude does not tell its version (asked with --version, it exits with 9); [version] to [version] is what volery fits
    warning     permission: narrowed by its parent run [run-id] (agent middle), which has read-only; deny "WebFetch": the level yolo becomes read-only, the rule allow Bash does not count, the rule deny WebFetch is added; to allow more, write a wider permission under [agents.middle] in your configuration
    "#);
    // A parent that was allowed everything holds nobody.
    let (middle, leaf) = run(&["--permission", "yolo"]);
    assert_eq!(middle["setup"]["permission"], json!({"level": "yolo"}), "{middle}");
    assert_eq!(permission(&leaf), json!({"level": "yolo", "allow": ["Bash"]}), "{leaf}");
    // A parent without a permission has the default: edits in the directory, and questions about the rest.
    let (middle, leaf) = run(&[]);
    assert_eq!((&middle["setup"]["permission"], &leaf["setup"]["permission"]), (&json!(null), &json!(null)));
    insta::assert_snapshot!(env.masked_texts(&leaf["warnings"]), @"
    claude does not tell its version (asked with --version, it exits with 9); [version] to [version] is what volery fits
    permission: narrowed by its parent run [run-id] (agent middle), which has safe-edit by default: the level yolo becomes safe-edit and questions, the rule allow Bash does not count; to allow more, write a wider permission under [agents.middle] in your configuration
    ");
    // A configuration of the user's for the parent holds its children too.
    env.configure("[agents.boss]\npermission = { level = \"yolo\", ask = [\"Bash\"] }\n");
    let (_, leaf) = run(&[]);
    assert_eq!(leaf["setup"]["permission"]["ask"], json!(["Bash"]), "{leaf}");
}

#[test]
fn a_child_that_its_backend_cannot_hold_to_its_parent_is_refused() {
    let env = env();
    env.backend("script", &["/bin/true"]).agent("helper", "backend: script\nunenforceable: warn");
    env.volery(["trust", "--yes"]).ok();
    env.rehearsal("boss", "- delegate: {agent: helper, prompt: deep}", "delegates: anyone");
    volery(&env, &["run", "boss", "go"]);
    assert_eq!(env.runs().len(), 2);
    let output = volery(&env, &["run", "boss", "go", "--deny", "Bash"]);
    assert_eq!(env.runs().len(), 3, "the child was started: {output:?}");
    insta::assert_snapshot!(env.masked(&output.stdout), @r#"
    agent helper: it may do no more than its parent run [run-id] (agent boss) (safe-edit by default; deny "Bash"), and the backend script cannot enforce the rule deny Bash
    hint: delegate to an agent whose backend can enforce it, or give the parent agent a wider permission
    "#);
}

#[test]
fn a_child_in_another_directory_edits_nothing_there_that_its_parent_may_not() {
    let env = env();
    let (inner, other) = (env.project().join("part"), env.path("other"));
    for folder in [&inner, &other] {
        std::fs::create_dir_all(folder).unwrap();
    }
    let text = "---\nname: helper\ndescription: Helps\n---\nHelp.\n";
    let agents = env.path("home/.claude/agents");
    std::fs::create_dir_all(&agents).unwrap();
    std::fs::write(agents.join("helper.md"), text).unwrap();
    let volery_path = env!("CARGO_BIN_EXE_volery");
    for (folder, expected) in [
        (
            &inner,
            json!({"level": "safe-edit", "deny": [format!("Edit(/{}/secret/**)", env.project().display())]}),
        ),
        (&other, json!({"level": "read-only", "deny": ["Edit"]})),
    ] {
        let name = format!("asks-in-{}", folder.file_name().unwrap().to_str().unwrap());
        let home = format!("VOLERY_HOME={}", env.path("state").display());
        let words = ["/usr/bin/env", &home, volery_path, "run", "helper", "go", "--timeout", "20s", "--dir"];
        env.backend(&name, &[&words[..], &[folder.to_str().unwrap()]].concat());
        env.agent(&name, &format!("backend: {name}\ndelegates: anyone\nunenforceable: warn"));
        env.volery(["trust", "--yes"]).ok();
        let words = ["run", &name, "go", "--permission", "safe-edit", "--deny", "Edit(secret/**)"];
        volery(&env, &words);
        let spec = last_spec(&env, "helper");
        assert_eq!(spec["setup"]["permission"], expected, "{spec}");
    }
}

#[test]
fn a_child_that_is_continued_by_hand_is_still_held_to_its_parent() {
    let env = env();
    env.rehearsal("boss", "- sleep: 2s\n- delegate: {agent: leaf, prompt: deep}", "delegates: anyone");
    env.rehearsal("leaf", "- say: done", "permission: yolo\non_interrupt: resume");
    let words = ["run", "boss", "go", "--permission", "safe-edit", "--deny", "WebFetch"];
    let mut boss = command(&env, &words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let parent = wait_for(PATIENCE, "the parent run", || env.runs().pop());
    env.wait_for_event(&parent, "call_requested");
    // The parent is past this point, so it is its child that stops there.
    env.hold("worker_claimed");
    env.wait_until_held("worker_claimed");
    let leaf = env.runs().into_iter().find(|id| *id != parent).unwrap();
    let run_processes = run_processes(&env.run_dir(&leaf));
    run_processes.keeper.unwrap().kill();
    run_processes.worker.unwrap().kill();
    env.release("worker_claimed");
    boss.wait().unwrap();
    volery(&env, &["resume", &leaf]).ok();
    let spec = env.spec(env.runs().last().unwrap());
    assert_eq!(spec["resumes"]["run"], env.spec(&leaf)["id"], "{spec}");
    assert_eq!(spec["setup"]["permission"], json!({"level": "safe-edit", "deny": ["WebFetch"]}), "{spec}");
}

#[test]
fn a_projects_file_with_the_name_of_a_built_in_agent_needs_trust_for_more() {
    let env = env();
    env.agent("claude", "backend: claude\npermission: {level: yolo, deny: [WebFetch]}\nenv: [AWS_KEY]");
    let spec = spec_of(&env, "claude", &[]);
    assert_eq!(permission(&spec), json!({"deny": ["WebFetch"]}), "{spec}");
    assert!(!spec["env"].to_string().contains("AWS_KEY"), "{spec}");
    insta::assert_snapshot!(env.masked_texts(&spec["warnings"]), @r#"
    claude does not tell its version (asked with --version, it exits with 9); [version] to [version] is what volery fits
    the project's file [stage]/project/.volery/agents/claude.md takes the name of the built-in agent claude; until you trust the project (volery trust [stage]/project), this does not count: permission yolo; deny "WebFetch"; env "AWS_KEY"
    "#);
    let page = volery(&env, &["agents", "show", "claude"]).ok().stdout;
    insta::assert_snapshot!(env.masked(first_paragraph(&page)), @r#"
    agent       claude
    description for a test
    file        .volery/agents/claude.md (volery format, project layer)
    backend     claude
    model       the backend's default
    settings    callers: "anyone"
                containment: "auto"
                delegates: "nobody"
                on_interrupt: "end"
                permission: {"deny":["WebFetch"]}
    permission  at most safe-edit by default by .volery/agents/claude.md, which is not trusted
    warning     the project's file .volery/agents/claude.md takes the name of the built-in agent claude; until you trust the project (volery trust [stage]/project), this does not count: permission yolo; deny "WebFetch"; env "AWS_KEY"
    warning     claude does not tell its version (asked with --version, it exits with 9); [version] to [version] is what volery fits
    "#);
    let listed = volery(&env, &["agents"]).ok().stderr;
    insta::assert_snapshot!(env.masked(&listed), @"
    warning: the project's file .volery/agents/claude.md takes the name of the built-in agent claude
    hint: 2 findings in the files: volery agents check
    ");
    let shown = volery(&env, &["trust", "--yes"]).ok();
    let shown = format!("{}{}", shown.stdout, shown.stderr);
    insta::assert_snapshot!(env.masked(&shown), @r#"
    [stage]/project is trusted
    project  [stage]/project
    state    not trusted

    its files would allow:
      agent claude in .volery/agents/claude.md
        line 4: permission yolo; deny "WebFetch"
          why: it would allow agent claude more than safe-edit
        line 5: env "AWS_KEY"
          why: agent claude would receive these variables of your environment

    in all: 2 grants
    "#);
    let spec = spec_of(&env, "claude", &[]);
    let origin = format!("{}:4", env.project().join(".volery/agents/claude.md").display());
    let permission = json!({"level": "yolo", "deny": ["WebFetch"], "origins": {"deny WebFetch": origin}});
    assert_eq!(spec["setup"]["permission"], permission, "{spec}");
    insta::assert_snapshot!(env.masked_texts(&spec["warnings"]), @"
    claude does not tell its version (asked with --version, it exits with 9); [version] to [version] is what volery fits
    the project's file [stage]/project/.volery/agents/claude.md takes the name of the built-in agent claude
    ");
}

#[test]
fn a_projects_agent_file_grants_nothing_beyond_the_defaults_before_the_project_is_trusted() {
    let env = env();
    std::fs::create_dir_all(env.project().join(".claude/agents")).unwrap();
    let claude_agent = "---\nname: bold\ndescription: d\npermissionMode: bypassPermissions\n---\nBe bold.\n";
    std::fs::write(env.project().join(".claude/agents/bold.md"), claude_agent).unwrap();
    let (part, link) = (env.project().join("part"), env.project().join("link"));
    std::fs::create_dir_all(&part).unwrap();
    std::os::unix::fs::symlink("/etc", &link).unwrap();
    let directories = json!(["/etc", link, part]);
    let frontmatter = format!(
        "backend: claude\npermission: {{allow: [Bash], deny: [WebFetch]}}\nenv: [AWS_KEY]\n\
         extra_directories: {directories}"
    );
    env.agent("helper", &frontmatter);
    let spec = spec_of(&env, "helper", &[]);
    assert_eq!(permission(&spec), json!({"deny": ["WebFetch"]}), "{spec}");
    assert!(!spec["env"].to_string().contains("AWS_KEY"), "{spec}");
    assert_eq!(spec["setup"]["extra_directories"], json!([part]), "{spec}");
    let warning = |spec: &Value| {
        let warnings = spec["warnings"].as_array().unwrap();
        let withheld = warnings.iter().find(|warning| warning.as_str().unwrap().contains("does not count"));
        env.masked_texts(&json!([withheld]))
    };
    insta::assert_snapshot!(warning(&spec), @r#"the project's file [stage]/project/.volery/agents/helper.md grants more than the defaults; until you trust the project (volery trust [stage]/project), this does not count: permission allow "Bash"; deny "WebFetch"; env "AWS_KEY"; extra_directories "/etc" "[stage]/project/link""#);
    let spec = spec_of(&env, "bold", &[]);
    assert_eq!(spec["setup"]["permission"], json!(null), "{spec}");
    insta::assert_snapshot!(warning(&spec), @"the project's file [stage]/project/.claude/agents/bold.md grants more than the defaults; until you trust the project (volery trust [stage]/project), this does not count: permission yolo");
    // What the user's own configuration or a person at the shell grants counts.
    let spec = spec_of(&env, "bold", &["--permission", "yolo"]);
    assert_eq!(spec["setup"]["permission"], json!({"level": "yolo"}), "{spec}");
    let shown = volery(&env, &["trust", "--yes"]).ok();
    insta::assert_snapshot!(env.masked(&shown.stderr), @r#"
    project  [stage]/project
    state    not trusted

    its files would execute:
      claude, agent in .claude/agents/bold.md
        line 4: permissionMode: bypassPermissions
          why: it allows tools without a question
      copilot, permissionMode in .claude/agents/bold.md
        line 4: permissionMode: bypassPermissions
          why: it allows tools without a question

    its files would allow:
      agent bold in .claude/agents/bold.md
        line 4: permission yolo
          why: it would allow agent bold more than safe-edit
      agent helper in .volery/agents/helper.md
        line 4: permission allow "Bash"; deny "WebFetch"
          why: it would allow agent helper more than safe-edit
        line 5: env "AWS_KEY"
          why: agent helper would receive these variables of your environment
        line 6: extra_directories "/etc" "[stage]/project/link"
          why: agent helper could use these directories

    in all: 6 grants
    "#);
    assert_eq!(spec_of(&env, "bold", &[])["setup"]["permission"], json!({"level": "yolo"}));
    let spec = spec_of(&env, "helper", &[]);
    assert_eq!(permission(&spec), json!({"allow": ["Bash"], "deny": ["WebFetch"]}), "{spec}");
    assert_eq!(spec["setup"]["extra_directories"], directories, "{spec}");
    // A file that grants more than before needs trust again.
    env.agent("helper", "backend: claude\npermission: yolo");
    assert_eq!(spec_of(&env, "helper", &[])["setup"]["permission"], json!(null));
}

/// An agent `bold` in the format of each program, with the most that a file of the format can grant.
const BOLD_AGENTS: [(&str, &str, &str); 8] = [
    (
        "claude",
        ".claude/agents/bold.md",
        "---\nname: bold\ndescription: d\npermissionMode: bypassPermissions\n---\nB\n",
    ),
    (
        "codex",
        ".codex/agents/bold.toml",
        "name = \"bold\"\ndescription = \"d\"\ndeveloper_instructions = \"b\"\nsandbox_mode = \"danger-full-access\"\n",
    ),
    ("codex", ".codex/config.toml", "[agents.bold]\ndescription = \"d\"\nconfig_file = \"bold.toml\"\n"),
    ("qwen", ".qwen/agents/bold.md", "---\nname: bold\ndescription: d\napprovalMode: yolo\n---\nB\n"),
    ("opencode", ".opencode/agent/bold.md", "---\ndescription: d\npermission: {\"*\": allow}\n---\nB\n"),
    (
        "kiro-cli",
        ".kiro/agents/bold.json",
        "{\"name\": \"bold\", \"description\": \"d\", \"allowedTools\": [\"fs_write\", \"execute_bash\"]}",
    ),
    ("claude", ".agents/bold.md", "---\nrun-agent: claude\npermission: yolo\n---\n# d\n"),
    ("claude", ".volery/agents/bold.md", "---\ndescription: d\nbackend: claude\npermission: yolo\n---\nB\n"),
];

#[test]
fn no_format_grants_a_projects_agent_more_than_the_defaults_before_the_project_is_trusted() {
    for (program, file, text) in BOLD_AGENTS {
        let env = env();
        if program != "claude" {
            std::fs::copy(env.path("bin/claude"), env.path("bin").join(program)).unwrap();
        }
        let path = env.project().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        if file.ends_with("config.toml") {
            std::fs::write(path.with_file_name("bold.toml"), "sandbox_mode = \"danger-full-access\"\n")
                .unwrap();
        }
        let spec = spec_of(&env, "bold", &[]);
        assert_eq!(spec["grants"][0]["source"], json!("untrusted"), "{file}: {spec}");
        let granted = permission(&spec);
        assert_eq!(granted, json!(null), "{file}: {spec}");
        volery(&env, &["trust", "--yes"]).ok();
        let spec = spec_of(&env, "bold", &[]);
        assert_ne!(permission(&spec), granted, "{file}: {spec}");
    }
}

#[test]
fn a_fallback_gets_the_defaults_of_its_backend() {
    let env = env();
    std::fs::copy(env.path("bin/claude"), env.path("bin/codex")).unwrap();
    env.agent("worker", "backend: claude\nfallback: [{backend: codex}]");
    env.configure(
        "[defaults.claude]\npermission = \"yolo\"\nmodel = \"opus\"\nmax_turns = 5\n\
         [defaults.codex]\npermission = \"read-only\"\nmodel = \"small\"\n",
    );
    let spec = spec_of(&env, "worker", &[]);
    let first = (&json!({"level": "yolo"}), &json!("opus"));
    assert_eq!((&spec["setup"]["permission"], &spec["model"]), first, "{spec}");
    let other = &spec["alternatives"][0];
    let second = (&json!({"permission": {"level": "read-only"}}), &json!("small"));
    assert_eq!((&other["settings"], &other["model"]), second, "{spec}");
    insta::assert_snapshot!(env.masked_texts(&spec["warnings"]), @"
    claude does not tell its version (asked with --version, it exits with 9); [version] to [version] is what volery fits
    on the fallback codex: read-only by [defaults.codex] of [stage]/config/config.toml
    as a fallback: codex does not tell its version (asked with --version, it exits with 9); [version] is what volery fits
    ");
    // What the caller denies holds there too.
    let spec = spec_of(&env, "worker", &["--permission", "safe-edit"]);
    assert_eq!(spec["alternatives"][0]["settings"]["permission"], json!({"level": "safe-edit"}), "{spec}");
}
