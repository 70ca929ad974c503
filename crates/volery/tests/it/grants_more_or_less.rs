//! What callers and configurations allow and deny an agent beyond its own file: recorded, shown, and never more than who
//! asks may ask for.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::stage::{Client, PATIENCE, Said, Stage, crew, said, wait_for};

/// A place with a program that is called like Claude Code and only fails.
fn stage() -> Stage {
    let stage = Stage::new();
    let program = stage.path("bin/claude");
    std::fs::create_dir_all(program.parent().unwrap()).unwrap();
    std::fs::write(&program, "#!/bin/sh\nexit 9\n").unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let folder = stage.project().join(".claude/agents");
    std::fs::create_dir_all(&folder).unwrap();
    let text = "---\nname: reviewer\ndescription: Reviews\nmodel: opus\ntools: Read, Bash\n---\nReview.\n";
    std::fs::write(folder.join("reviewer.md"), text).unwrap();
    stage
}

fn command(stage: &Stage, words: &[&str]) -> Command {
    let mut command = stage.command(words);
    command.env("PATH", format!("{}:/usr/bin:/bin", stage.path("bin").display())).stdin(Stdio::null());
    command
}

fn volery(stage: &Stage, words: &[&str]) -> Said {
    said(command(stage, words).output().unwrap())
}

/// Runs an agent, which fails, and returns the spec of the run.
fn spec_of(stage: &Stage, agent: &str, words: &[&str]) -> Value {
    volery(stage, &[&["run", agent, "go", "--timeout", "20s"], words].concat()).exits(1);
    stage.spec(stage.runs().last().unwrap())
}

fn project_config(stage: &Stage, text: &str) {
    std::fs::write(stage.project().join(".volery/config.toml"), text).unwrap();
}

#[test]
fn a_shell_user_allows_more_or_less_and_that_is_recorded() {
    let stage = stage();
    let words = ["--allow", "Bash(git log:*)", "--ask", "WebFetch", "--deny", "Edit(docs/**)"];
    let spec = spec_of(&stage, "reviewer", &words);
    let permission = json!({"allow": ["Bash(git log:*)"], "ask": ["WebFetch"], "deny": ["Edit(docs/**)"]});
    assert_eq!(spec["setup"]["permission"], permission, "{spec}");
    let grant = json!({"source": "caller", "by": "the command line", "asked": permission,
        "widens": ["the rule allow Bash(git log:*)"]});
    assert_eq!(spec["grants"], json!([grant]), "{spec}");
    let page = volery(&stage, &["show", spec["id"].as_str().unwrap()]).stdout;
    assert!(page.contains("allows more than before: the rule allow Bash(git log:*)"), "{page}");
    let spec = spec_of(&stage, "reviewer", &["--permission", "read-only"]);
    assert_eq!(spec["setup"]["permission"], json!({"level": "read-only"}), "{spec}");
    assert_eq!(spec["grants"][0]["widens"], json!(null), "{spec}");
    let refused = volery(&stage, &["run", "reviewer", "go", "--allow", "Bash", "--deny", "Bash"]).exits(3);
    assert!(
        refused.stderr.contains("the rule allow Bash has no effect: the rule deny Bash wins"),
        "{refused:?}"
    );
    assert!(
        volery(&stage, &["run", "reviewer", "go", "--allow", "Bash("]).exits(2).stderr.contains("not a rule")
    );
}

#[test]
fn a_caller_over_mcp_only_narrows_unless_its_user_says_otherwise() {
    let stage = stage();
    let ask = |permission: Value| json!({"agent": "reviewer", "prompt": "go", "permission": permission, "wait_s": 0});
    let mut client = Client::start(command(&stage, &["serve"])).initialize("it");
    for (wide, named) in [
        (json!({"level": "yolo"}), "the level yolo would allow more than its own permission"),
        (json!({"allow": ["Bash"]}), "the rule allow Bash would allow more"),
    ] {
        let refused = client.refused("run_agent", ask(wide));
        assert!(refused.contains(named) && refused.contains("[agents.reviewer]"), "{refused}");
    }
    assert!(client.refused("run_agent", ask(json!({"allow": ["("]}))).contains("is not a rule"));
    assert_eq!(stage.runs(), Vec::<String>::new());
    let narrow = json!({"level": "read-only", "deny": ["WebFetch"]});
    let run = client.call("run_agent", ask(narrow.clone()))["run_id"].as_str().unwrap().to_owned();
    let spec = stage.spec(&run);
    assert_eq!(spec["setup"]["permission"], narrow, "{spec}");
    assert_eq!(spec["grants"][0]["by"], json!("the caller it"), "{spec}");
    // A project has no say in it.
    project_config(&stage, "[serve]\ncallers_may_widen = true\n");
    client.refused("run_agent", ask(json!({"level": "yolo"})));
    stage.configure("[serve]\ncallers_may_widen = true\n");
    let run = client.call("run_agent", ask(json!({"level": "yolo"})))["run_id"].as_str().unwrap().to_owned();
    assert_eq!(stage.spec(&run)["grants"][0]["widens"], json!(["the level yolo"]));
}

#[test]
fn the_users_configuration_overlays_agents_of_any_format() {
    let stage = stage();
    stage.configure(
        "[agents.reviewer]\npermission = { allow = [\"Bash\"] }\nmodel = \"haiku\"\ntimeout = \"3m\"\n\
         [defaults.claude]\npermission = \"yolo\"\nmax_turns = 7\n",
    );
    let spec = spec_of(&stage, "reviewer", &[]);
    assert_eq!(spec["setup"]["permission"], json!({"level": "yolo", "allow": ["Bash"]}), "{spec}");
    assert_eq!((&spec["model"], &spec["setup"]["max_turns"]), (&json!("haiku"), &json!(7)), "{spec}");
    let sections: Vec<&str> =
        spec["grants"].as_array().unwrap().iter().map(|grant| grant["by"].as_str().unwrap()).collect();
    assert!(sections[0].starts_with("[defaults.claude] of /"), "{sections:?}");
    assert!(sections[1].starts_with("[agents.reviewer] of /"), "{sections:?}");
    let page = volery(&stage, &["agents", "show", "reviewer"]).ok().stdout;
    assert!(page.contains("haiku") && page.contains("allow \"Bash\" by [agents.reviewer] of"), "{page}");
    // Built-in agents too; and a caller's time-out beats the section's.
    let spec = spec_of(&stage, "claude", &[]);
    assert_eq!(spec["setup"]["permission"], json!({"level": "yolo"}), "{spec}");
    stage.configure("[agents.claude]\nbudget = 5\n");
    let refused = volery(&stage, &["run", "claude", "go"]).exits(2).stderr;
    assert!(refused.contains("a budget in money cannot be enforced"), "{refused}");
}

#[test]
fn a_projects_overlay_widens_only_after_trust() {
    let stage = stage();
    project_config(&stage, "[agents.reviewer]\npermission = \"yolo\"\nmodel = \"haiku\"\n");
    let spec = spec_of(&stage, "reviewer", &[]);
    assert_eq!((&spec["setup"]["permission"], &spec["model"]), (&json!(null), &json!("opus")), "{spec}");
    let warned = spec["warnings"].to_string();
    assert!(
        warned.contains("permission is not applied: the level yolo, and the project is not trusted"),
        "{warned}"
    );
    let checked = volery(&stage, &["agents", "check"]).stdout;
    assert!(checked.contains("the project is not trusted"), "{checked}");
    volery(&stage, &["trust", "--yes"]).ok();
    let spec = spec_of(&stage, "reviewer", &[]);
    let applied = (&json!({"level": "yolo"}), &json!("haiku"));
    assert_eq!((&spec["setup"]["permission"], &spec["model"]), applied, "{spec}");
    // What only narrows needs no trust.
    project_config(&stage, "[agents.reviewer]\npermission = \"read-only\"\n");
    let spec = spec_of(&stage, "reviewer", &[]);
    assert_eq!(spec["setup"]["permission"], json!({"level": "read-only"}), "{spec}");
}

#[test]
fn a_section_for_a_name_holds_for_every_file_of_that_name() {
    let stage = stage();
    // Our own format comes before Claude Code's, so that one has to be asked for by its format.
    stage.agent("reviewer", "backend: claude");
    stage.configure("[agents.reviewer]\npermission = { level = \"read-only\", deny = [\"Bash\"] }\n");
    for name in ["reviewer", "claude:reviewer"] {
        let spec = spec_of(&stage, name, &[]);
        let expected = json!({"level": "read-only", "deny": ["Bash"]});
        assert_eq!((&spec["agent"], &spec["setup"]["permission"]), (&json!(name), &expected), "{spec}");
    }
}

/// Claude Code for a run that is interrupted after it has named its conversation, and for one that goes on with it.
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
    let stage = stage();
    std::fs::create_dir_all(stage.path("home")).unwrap();
    std::fs::write(stage.path("bin/claude"), INTERRUPTED).unwrap();
    std::fs::create_dir(stage.path("agents")).unwrap();
    std::fs::write(stage.path("agents/reviewer.md"), "# Reviews").unwrap();
    let mut serve = command(&stage, &["serve", "--dialect", "sub-agents-mcp"]);
    serve
        .env("AGENTS_DIR", stage.path("agents"))
        .env("AGENT_TYPE", "claude")
        .env("AGENT_PERMISSION", "read-only");
    serve.env("AVIARY_COLOUR", "blue");
    let mut client = Client::start(serve).initialize("it");
    let arguments = json!({"agent": "reviewer", "prompt": "go", "cwd": stage.project()});
    client.send("tools/call", json!({"name": "run_agent", "arguments": arguments}));
    let id = wait_for(PATIENCE, "a run", || stage.runs().pop());
    stage.event(&id, "session_named");
    let crew = crew(&stage.run_dir(&id));
    crew.keeper.unwrap().kill();
    crew.worker.unwrap().kill();
    assert_eq!(stage.ended(&id)["outcome"]["outcome"], json!("interrupted"));
    // The native agent of this name, and what is in the shell's environment, are no matter.
    let mut resume = command(&stage, &["resume", &id, "--json"]);
    resume.env("AVIARY_COLOUR", "green").env("AGENT_PERMISSION", "yolo");
    let went_on = said(resume.output().unwrap()).ok().json();
    assert_eq!(went_on["result"], json!("went on"), "{went_on}");
    let runs = stage.runs();
    let (before, after) = (stage.spec(&id), stage.spec(runs.iter().find(|run| **run != id).unwrap()));
    for key in ["agent", "source", "system_prompt", "directory", "limits"] {
        assert_eq!(after[key], before[key], "{key}");
    }
    assert_eq!(after["setup"]["permission"], json!({"level": "read-only"}), "{after}");
    assert_eq!(after["setup"]["inherit"], json!(["mcp-servers", "settings"]), "{after}");
    let warnings = after["warnings"].to_string();
    assert!(warnings.contains("withheld: the server's environment: the run goes on outside"), "{warnings}");
    let words = std::fs::read_to_string(stage.path("home/words")).unwrap();
    let calls: Vec<&str> = words.split("--\n").filter(|call| call.contains("COLOUR=")).collect();
    assert!(calls[0].contains("COLOUR=blue") && calls[1].ends_with("COLOUR=\n"), "{words}");
    assert!(calls.iter().all(|call| call.contains("--permission-mode=plan")), "{words}");
}

#[test]
fn an_interrupted_run_of_a_dialect_that_named_no_session_is_not_begun_again() {
    let stage = stage();
    std::fs::write(
        stage.path("bin/claude"),
        "#!/bin/sh\n[ \"$1\" = --version ] && echo 2.1.325 && exit\nexec sleep 600\n",
    )
    .unwrap();
    stage.configure("[serve]\npowerspawn_permission = \"read-only\"\n");
    let mut client = Client::start(command(&stage, &["serve", "--dialect", "powerspawn"])).initialize("it");
    client.request("tools/call", json!({"name": "spawn_claude", "arguments": {"prompt": "go"}}));
    let id = stage.only_run();
    stage.event(&id, "agent_started");
    let crew = crew(&stage.run_dir(&id));
    crew.keeper.unwrap().kill();
    crew.worker.unwrap().kill();
    assert_eq!(stage.ended(&id)["outcome"]["outcome"], json!("interrupted"));
    let refused = volery(&stage, &["resume", &id]).exits(2);
    assert!(refused.stderr.contains("had begun and named no session to go on with"), "{refused:?}");
    assert!(refused.stderr.contains("volery show"), "{refused:?}");
    assert_eq!(stage.runs().len(), 1);
}

/// Returns the spec of the last run of an agent.
fn last_spec(stage: &Stage, agent: &str) -> Value {
    let mut specs = stage.runs().into_iter().rev().map(|id| stage.spec(&id));
    specs.find(|spec| spec["agent"] == json!(agent)).expect("a run of the agent")
}

#[test]
fn what_a_caller_denies_holds_for_the_runs_that_the_agent_starts() {
    let stage = stage();
    stage.rehearsal("boss", "- delegate: {agent: middle, prompt: deep}", "delegates: anyone");
    stage.rehearsal(
        "middle",
        "- delegate: {agent: leaf, prompt: deeper}",
        "delegates: anyone\npermission: yolo",
    );
    stage.agent("leaf", "backend: claude\npermission: {level: yolo, allow: [Bash]}");
    let run = |words: &[&str]| {
        volery(&stage, &[&["run", "boss", "go", "--timeout", "20s"], words].concat());
        (last_spec(&stage, "middle"), last_spec(&stage, "leaf"))
    };
    let (middle, leaf) = run(&["--permission", "read-only", "--deny", "WebFetch"]);
    let expected = json!({"level": "read-only", "deny": ["WebFetch"]});
    assert_eq!(middle["setup"]["permission"], expected, "{middle}");
    assert_eq!(leaf["setup"]["permission"], expected, "{leaf}");
    let grant = &leaf["grants"][0];
    assert_eq!((&grant["source"], &grant["asked"]), (&json!("parent"), &expected), "{leaf}");
    let short = |spec: &Value| {
        volery(&stage, &["show", spec["id"].as_str().unwrap(), "--json"]).json()["short_id"].clone()
    };
    let by = format!("its parent run {} (agent middle)", short(&middle).as_str().unwrap());
    assert_eq!(grant["by"], json!(by), "{leaf}");
    let warned = leaf["warnings"].to_string();
    assert!(warned.contains(&format!("narrowed by {by}")), "{warned}");
    assert!(warned.contains("the level yolo becomes read-only"), "{warned}");
    let page = volery(&stage, &["show", leaf["id"].as_str().unwrap()]).stdout;
    assert!(page.contains("at most read-only; deny \"WebFetch\" by its parent"), "{page}");
    // A parent that was allowed everything holds nobody.
    let (middle, leaf) = run(&["--permission", "yolo"]);
    assert_eq!(middle["setup"]["permission"], json!({"level": "yolo"}), "{middle}");
    assert_eq!(leaf["setup"]["permission"], json!({"level": "yolo", "allow": ["Bash"]}), "{leaf}");
    // One of which nobody said anything has the default: edits in the directory, and questions about the rest.
    let (middle, leaf) = run(&[]);
    assert_eq!((&middle["setup"]["permission"], &leaf["setup"]["permission"]), (&json!(null), &json!(null)));
    assert!(leaf["warnings"].to_string().contains("becomes safe-edit and questions"), "{leaf}");
    // A configuration of the user's for the parent holds its children too.
    stage.configure("[agents.boss]\npermission = { level = \"yolo\", ask = [\"Bash\"] }\n");
    let (_, leaf) = run(&[]);
    assert_eq!(leaf["setup"]["permission"]["ask"], json!(["Bash"]), "{leaf}");
}

#[test]
fn a_child_that_its_backend_cannot_hold_to_its_parent_is_refused() {
    let stage = stage();
    stage.backend("script", &["/bin/true"]).agent("helper", "backend: script\nunenforceable: warn");
    stage.rehearsal("boss", "- delegate: {agent: helper, prompt: deep}", "delegates: anyone");
    volery(&stage, &["run", "boss", "go"]);
    assert_eq!(stage.runs().len(), 2);
    let said = volery(&stage, &["run", "boss", "go", "--deny", "Bash"]);
    assert_eq!(stage.runs().len(), 3, "the child was started: {said:?}");
    let text = json!(stage.events(stage.runs().last().unwrap())).to_string();
    assert!(text.contains("agent helper: it may do no more than its parent run"), "{text}");
    assert!(text.contains("the backend script cannot enforce the rule deny Bash"), "{text}");
}

#[test]
fn a_child_in_another_directory_edits_nothing_there_that_its_parent_may_not() {
    let stage = stage();
    let (inner, other) = (stage.project().join("part"), stage.path("other"));
    for folder in [&inner, &other] {
        std::fs::create_dir_all(folder).unwrap();
    }
    let text = "---\nname: helper\ndescription: Helps\n---\nHelp.\n";
    let agents = stage.path("home/.claude/agents");
    std::fs::create_dir_all(&agents).unwrap();
    std::fs::write(agents.join("helper.md"), text).unwrap();
    let volery_path = env!("CARGO_BIN_EXE_volery");
    for (folder, expected) in [
        (
            &inner,
            json!({"level": "safe-edit", "deny": [format!("Edit(/{}/secret/**)", stage.project().display())]}),
        ),
        (&other, json!({"level": "read-only", "deny": ["Edit"]})),
    ] {
        let name = format!("asks-in-{}", folder.file_name().unwrap().to_str().unwrap());
        let home = format!("VOLERY_HOME={}", stage.path("state").display());
        let words = ["/usr/bin/env", &home, volery_path, "run", "helper", "go", "--timeout", "20s", "--dir"];
        stage.backend(&name, &[&words[..], &[folder.to_str().unwrap()]].concat());
        stage.agent(&name, &format!("backend: {name}\ndelegates: anyone\nunenforceable: warn"));
        let words = ["run", &name, "go", "--permission", "safe-edit", "--deny", "Edit(secret/**)"];
        volery(&stage, &words);
        let spec = last_spec(&stage, "helper");
        assert_eq!(spec["setup"]["permission"], expected, "{spec}");
    }
}

#[test]
fn a_child_that_is_continued_by_hand_is_still_held_to_its_parent() {
    let stage = stage();
    stage.rehearsal("boss", "- sleep: 2s\n- delegate: {agent: leaf, prompt: deep}", "delegates: anyone");
    stage.rehearsal("leaf", "- say: done", "permission: yolo\non_interrupt: resume");
    let words = ["run", "boss", "go", "--permission", "safe-edit", "--deny", "WebFetch"];
    let mut boss = command(&stage, &words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let parent = wait_for(PATIENCE, "the parent run", || stage.runs().pop());
    stage.event(&parent, "call_requested");
    // The parent is past this point, so it is its child that stops there.
    stage.hold("worker_claimed");
    stage.held("worker_claimed");
    let leaf = stage.runs().into_iter().find(|id| *id != parent).unwrap();
    let crew = crew(&stage.run_dir(&leaf));
    crew.keeper.unwrap().kill();
    crew.worker.unwrap().kill();
    stage.release("worker_claimed");
    boss.wait().unwrap();
    volery(&stage, &["resume", &leaf]).ok();
    let spec = stage.spec(stage.runs().last().unwrap());
    assert_eq!(spec["resumes"]["run"], stage.spec(&leaf)["id"], "{spec}");
    assert_eq!(spec["setup"]["permission"], json!({"level": "safe-edit", "deny": ["WebFetch"]}), "{spec}");
}

#[test]
fn a_projects_file_with_the_name_of_a_built_in_agent_needs_trust_for_more() {
    let stage = stage();
    stage.agent("claude", "backend: claude\npermission: {level: yolo, deny: [WebFetch]}\nenv: [AWS_KEY]");
    let spec = spec_of(&stage, "claude", &[]);
    assert_eq!(spec["setup"]["permission"], json!({"deny": ["WebFetch"]}), "{spec}");
    assert!(!spec["env"].to_string().contains("AWS_KEY"), "{spec}");
    let warned = spec["warnings"].to_string();
    assert!(
        warned.contains("takes the name of the built-in agent claude; until you trust the project"),
        "{warned}"
    );
    let page = volery(&stage, &["agents", "show", "claude"]).ok().stdout;
    assert!(page.contains("at most safe-edit by default by"), "{page}");
    let listed = volery(&stage, &["agents"]).ok().stderr;
    assert!(listed.contains("takes the name of the built-in agent claude"), "{listed}");
    let shown = volery(&stage, &["trust", "--yes"]).ok();
    let shown = format!("{}{}", shown.stdout, shown.stderr);
    assert!(shown.contains("yolo") && shown.contains("AWS_KEY"), "{shown}");
    let spec = spec_of(&stage, "claude", &[]);
    assert_eq!(spec["setup"]["permission"], json!({"level": "yolo", "deny": ["WebFetch"]}), "{spec}");
    let warned = spec["warnings"].to_string();
    assert!(warned.contains("takes the name of the built-in agent claude\""), "{warned}");
    // Another name is nobody else's, and needs no trust for what its file says.
    stage.agent("helper", "backend: claude\npermission: yolo");
    let spec = spec_of(&stage, "helper", &[]);
    assert_eq!(spec["setup"]["permission"], json!({"level": "yolo"}), "{spec}");
}

#[test]
fn a_fallback_gets_the_defaults_of_its_backend() {
    let stage = stage();
    std::fs::copy(stage.path("bin/claude"), stage.path("bin/codex")).unwrap();
    stage.agent("worker", "backend: claude\nfallback: [{backend: codex}]");
    stage.configure(
        "[defaults.claude]\npermission = \"yolo\"\nmodel = \"opus\"\nmax_turns = 5\n\
         [defaults.codex]\npermission = \"read-only\"\nmodel = \"small\"\n",
    );
    let spec = spec_of(&stage, "worker", &[]);
    let first = (&json!({"level": "yolo"}), &json!("opus"));
    assert_eq!((&spec["setup"]["permission"], &spec["model"]), first, "{spec}");
    let other = &spec["alternatives"][0];
    let second = (&json!({"permission": {"level": "read-only"}}), &json!("small"));
    assert_eq!((&other["settings"], &other["model"]), second, "{spec}");
    assert!(
        spec["warnings"].to_string().contains("on the fallback codex: read-only by [defaults.codex]"),
        "{spec}"
    );
    // What the caller denies holds there too.
    let spec = spec_of(&stage, "worker", &["--permission", "safe-edit"]);
    assert_eq!(spec["alternatives"][0]["settings"]["permission"], json!({"level": "safe-edit"}), "{spec}");
}
