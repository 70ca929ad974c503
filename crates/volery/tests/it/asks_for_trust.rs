//! Programs that a project's files name are run only after somebody has looked at them, and again after a change.

use serde_json::json;

use crate::stage::Stage;

fn place() -> Stage {
    let stage = Stage::new();
    configure(&stage, "[backends.upper]\ncommand = [\"tr\", \"a-z\", \"A-Z\"]\n");
    stage.agent("shout", "backend: upper");
    stage
}

fn configure(stage: &Stage, toml: &str) {
    std::fs::write(stage.project().join(".volery/config.toml"), toml).unwrap();
}

#[test]
fn nothing_untrusted_is_run_and_the_hint_tells_how() {
    let stage = place();
    let project = stage.project().display().to_string();
    let refused = stage.volery(["run", "shout", "hello"]).exits(3);
    let expected = format!(
        "error: the project {project} would execute programs that you have not trusted:\n  backend upper: "
    );
    assert!(refused.stderr.starts_with(&expected), "{}", refused.stderr);
    assert!(refused.stderr.ends_with(&format!("hint: look at them, then: volery trust {project}\n")));
    let mut client = stage.serve().initialize("it");
    let ask = json!({"agent": "shout", "prompt": "hello", "directory": stage.project()});
    let said = client.refused("run_agent", ask.clone());
    assert!(said.contains(&format!("volery trust {project}")), "{said}");
    assert_eq!(stage.runs(), Vec::<String>::new());
    let listed = client.call("list_agents", json!({"directory": stage.project()}));
    assert!(listed["agents"][0].to_string().contains("have not trusted"), "{listed}");

    // Without a terminal nobody can agree, except in so many words.
    let refused = stage.volery(["trust"]).exits(3).stderr;
    assert!(refused.contains("tr") && refused.contains("volery trust --yes"), "{refused}");
    let trusted = stage.volery(["trust", "--yes"]).ok().stdout;
    assert_eq!(trusted, format!("{project} is trusted\n"));
    assert_eq!(stage.volery(["run", "shout", "hello"]).ok().stdout, "HELLO");
    assert_eq!(client.call("run_agent", ask)["result"], json!("HELLO"), "the same server knows at once");
}

#[test]
fn a_changed_command_asks_again_and_other_changes_do_not() {
    let stage = place();
    stage.volery(["trust", "--yes"]).ok();
    configure(&stage, "[limits]\ntimeout = \"1m\"\n[backends.upper]\ncommand = [\"tr\", \"a-z\", \"A-Z\"]\n");
    stage.volery(["run", "shout", "hello"]).ok();
    configure(&stage, "[backends.upper]\ncommand = [\"cat\"]\n");
    stage.volery(["run", "shout", "hello"]).exits(3);
    assert_eq!(stage.json(["trust", "--list"])["projects"][0]["state"], json!("changed"));
    stage.volery(["trust", "--yes"]).ok();
    assert_eq!(stage.volery(["run", "shout", "hello"]).ok().stdout, "hello");
}

#[test]
fn trust_is_listed_and_taken_back() {
    let stage = place();
    assert_eq!(stage.json(["trust", "--list"]), json!({"projects": []}));
    stage.volery(["trust", "--yes"]).ok();
    stage.volery(["run", "shout", "hello"]).ok();
    let listed = stage.json(["trust", "--list"]);
    assert_eq!(listed["projects"][0]["project"], json!(stage.project()));
    assert_eq!(listed["projects"][0]["state"], json!("trusted"));
    stage.volery(["trust", "--revoke"]).ok();
    stage.volery(["run", "shout", "hello"]).exits(3);
    assert_eq!(stage.json(["trust", "--list"]), json!({"projects": []}));
}

#[test]
fn trust_of_one_project_says_nothing_about_a_copy_of_it() {
    let stage = place();
    stage.volery(["trust", "--yes"]).ok();
    let copy = stage.path("copy");
    std::fs::create_dir_all(copy.join(".volery/agents")).unwrap();
    for file in [".volery/config.toml", ".volery/agents/shout.md"] {
        std::fs::copy(stage.project().join(file), copy.join(file)).unwrap();
    }
    stage.volery(["run", "shout", "hello", "--dir", copy.to_str().unwrap()]).exits(3);
}

#[test]
fn a_project_cannot_redefine_a_built_in_backend() {
    let stage = place();
    configure(&stage, "[backends.rehearsal]\ncommand = [\"touch\", \"pwned\"]\n");
    stage.rehearsal("actor", "- say: as written", "");
    assert_eq!(stage.volery(["run", "actor", "go"]).ok().stdout, "as written\n");
    let checked = stage.volery(["agents", "check"]).exits(1).stdout;
    assert!(
        checked.contains("error: the backend rehearsal is built in and cannot be redefined"),
        "{checked}"
    );
    assert!(!stage.project().join("pwned").exists());
}

#[test]
fn a_users_own_backend_needs_no_trust_but_a_project_that_hides_it_does() {
    let stage = place();
    stage.backend("mine", &["cat"]).agent("mine", "backend: mine");
    assert_eq!(stage.volery(["run", "mine", "hello"]).ok().stdout, "hello");
    configure(&stage, "[backends.mine]\ncommand = [\"tr\", \"a-z\", \"A-Z\"]\n");
    stage.volery(["run", "mine", "hello"]).exits(3);
}

#[test]
fn a_damaged_record_is_no_trust() {
    let stage = place();
    stage.volery(["trust", "--yes"]).ok();
    stage.volery(["run", "shout", "hello"]).ok();
    let record = std::fs::read_dir(stage.path("state/trust")).unwrap().next().unwrap().unwrap().path();
    for damage in ["", "{}", "{\"project\": \"/elsewhere\"}"] {
        std::fs::write(&record, damage).unwrap();
        stage.volery(["run", "shout", "hello"]).exits(3);
    }
    stage.volery(["trust", "--yes"]).ok();
    stage.volery(["run", "shout", "hello"]).ok();
}

#[test]
fn what_would_be_executed_is_shown_with_its_place_and_reason_also_to_those_who_agree_at_once() {
    let stage = place();
    let folder = stage.project().join(".claude/commands");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(
        folder.join("push.md"),
        "---\ndescription: d\nallowed-tools: Bash\n---\nNow:\n!`git push`\n",
    )
    .unwrap();
    std::fs::write(folder.join("greet.md"), "Say `Hello!`, then stop.\n").unwrap();
    let expected = format!(
        "project  {}
state    not trusted

its files would execute:
  backend upper in .volery/config.toml
    line 1: [\"tr\", \"a-z\", \"A-Z\"]
      why: agents with this backend are run by it
  claude, command in .claude/commands/push.md
    line 3: allowed-tools: Bash
      why: it allows tools without a question
    line 6: !`git push`
      why: the command runs when the text is put into a prompt

in all: 2 programs, 1 grant
",
        stage.project().display()
    );
    let refused = stage.volery(["trust"]).exits(3).stderr;
    assert!(refused.starts_with(&expected), "{refused}");
    assert_eq!(stage.volery(["trust", "--yes"]).ok().stderr, expected);
}

fn write(stage: &Stage, file: &str, text: &str) {
    let file = stage.project().join(file);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, text).unwrap();
}

#[test]
fn a_command_in_several_lines_is_shown_whole_and_nothing_of_it_is_hidden() {
    let stage = Stage::new();
    let agent = "---\nname: check\ndescription: d\nhooks:\n  PreToolUse:\n    - matcher: Bash\n      hooks:\n        \
        - type: command\n          command: \"./scripts/validate.sh \u{202e}x\u{200b}\"\n---\nCheck.\n";
    write(&stage, ".claude/agents/check.md", agent);
    write(
        &stage,
        ".claude/commands/ship.md",
        "---\nallowed-tools: [\n  Read,\n  Bash(rm:*)\n]\n---\nShip.\n",
    );
    let page = stage.volery(["trust", "--yes"]).ok().stderr;
    let hooks = "line 4: hooks: {\"PreToolUse\": [{\"matcher\": \"Bash\", \"hooks\": [{\"type\": \"command\", \
        \"command\": \"./scripts/validate.sh \\u{202e}x\\u{200b}\"}]}]}";
    assert!(page.contains(hooks), "{page}");
    assert!(page.contains("line 2: allowed-tools: [\"Read\", \"Bash(rm:*)\"]"), "{page}");
    assert!(!page.contains(['\u{202e}', '\u{200b}']), "{page}");
    // The same file is an agent, and both say who runs its hooks.
    assert!(page.contains("Claude Code runs these programs when it starts this agent by itself"), "{page}");
    let checked = stage.volery(["agents", "check"]).ok().stdout;
    assert!(checked.contains("Volery runs no hook of the file; Claude Code runs them if it"), "{checked}");
}

#[test]
fn a_program_reads_what_would_be_trusted_before_somebody_agrees() {
    let stage = place();
    let overlay = "[backends.upper]\ncommand = [\"tr\", \"a-z\", \"A-Z\"]\n\n[agents.dev]\nmodel = \"opus\"\n\
        permission = \"yolo\"\n";
    configure(&stage, overlay);
    let shown = stage.volery(["trust", "--json"]).exits(3);
    let shown: serde_json::Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!((&shown["state"], &shown["error"]["kind"]), (&json!("untrusted"), &json!("denied")));
    let file = stage.project().join(".volery/config.toml");
    let item = |effect: &str, what: &str, line: u32, command: &str, why: &str| json!({"effect": effect, "what": what, "command": command, "file": file, "line": line, "why": why});
    assert_eq!(
        shown["items"],
        json!([
            item(
                "execute",
                "backend upper",
                1,
                "[\"tr\", \"a-z\", \"A-Z\"]",
                "agents with this backend are run by it"
            ),
            item(
                "allow",
                "agent dev",
                5,
                "model opus",
                "it would choose the model of agent dev, which may cost more"
            ),
            item(
                "allow",
                "agent dev",
                6,
                "permission yolo",
                "it would allow agent dev everything, without asking"
            ),
        ])
    );
    assert_eq!(stage.json(["trust", "--list"]), json!({"projects": []}));
    let page = stage.volery(["trust", "--yes"]).ok().stderr;
    let expected = "its files would allow:
  agent dev in .volery/config.toml
    line 5: model opus
      why: it would choose the model of agent dev, which may cost more
    line 6: permission yolo
      why: it would allow agent dev everything, without asking

in all: 1 program, 2 grants
";
    assert!(page.ends_with(expected), "{page}");
}

#[test]
fn metadata_of_agents_and_prompt_files_of_the_project_need_no_trust() {
    let stage = Stage::new();
    let metadata = "---\nname: a\ndescription: d\nversion: 1.0.0\ncategory: quality\nauthor: me\ntags: [a, b]\n\
        priority: high\nlicense: MIT\nrole: reviewer\ntriggers:\n  - review\nmetadata:\n  owner: me\nmemory: project\n\
        argument-hint: '[file]'\npermissionMode: auto-magic\n---\nReview.\n";
    write(&stage, ".claude/agents/a.md", metadata);
    write(&stage, ".claude/agents/b.md", "---\nname: b\ndescription: one\nline two without indent\n---\n");
    write(
        &stage,
        ".github/agents/c.agent.md",
        "---\nname: c\nmode: agent\nversion: 1\nauthor: me\n---\nLook.\n",
    );
    write(&stage, "prompts/docs.md", "Write.\n");
    let settings = r#"{"agent":{"docs":{"description":"d","prompt":"{file:./prompts/docs.md}"}}}"#;
    write(&stage, "opencode.json", settings);
    let trusted = stage.volery(["trust", "--yes"]).ok().stdout;
    assert!(trusted.ends_with("executes nothing, so there is nothing to trust\n"), "{trusted}");
}

#[test]
fn lists_in_several_lines_and_backticks_in_texts_need_no_trust() {
    let stage = Stage::new();
    let write = |file: &str, text: &str| {
        let file = stage.project().join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    };
    write(
        ".github/agents/lists.agent.md",
        "---\nname: lists\ntools: [\n  'read',\n  'edit'\n]\n---\nRead.\n",
    );
    write(".github/agents/notes.md", "A text without a head.\n");
    write(".claude/commands/greet.md", "Say `Hello!`, then stop.\n");
    write(".claude/skills/js/SKILL.md", "```js\nconst a = `Hi ${name}!`;\nconst b = `${a}`;\n```\n");
    let trusted = stage.volery(["trust", "--yes"]).ok().stdout;
    assert!(trusted.ends_with("executes nothing, so there is nothing to trust\n"), "{trusted}");
}
