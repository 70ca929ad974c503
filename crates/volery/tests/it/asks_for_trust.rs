//! Programs that a project's files name are run only after somebody has looked at them, and again after a change.

use serde_json::json;

use crate::test_env::TestEnv;

fn vendor_env() -> TestEnv {
    let env = TestEnv::new();
    configure(&env, "[backends.upper]\ncommand = [\"tr\", \"a-z\", \"A-Z\"]\n");
    env.agent("shout", "backend: upper");
    env
}

fn configure(env: &TestEnv, toml: &str) {
    std::fs::write(env.project().join(".volery/config.toml"), toml).unwrap();
}

#[test]
fn nothing_untrusted_is_run_and_the_hint_tells_how() {
    let env = vendor_env();
    let refused = env.volery(["run", "shout", "hello"]).exits(3);
    insta::assert_snapshot!(env.masked(&refused.stderr), @r#"
    error: the project [stage]/project would execute programs that you have not trusted:
      backend upper: ["tr", "a-z", "A-Z"]
    hint: look at them, then: volery trust [stage]/project
    "#);
    let mut client = env.serve().initialize("it");
    let ask = json!({"agent": "shout", "prompt": "hello", "directory": env.project()});
    let refusal = client.refused("run_agent", ask.clone());
    insta::assert_snapshot!(env.masked(&refusal), @r#"
    the project [stage]/project would execute programs that you have not trusted:
    backend upper: ["tr", "a-z", "A-Z"]
    hint: look at them, then: volery trust [stage]/project
    "#);
    assert_eq!(env.runs(), Vec::<String>::new());
    let listed = client.call("list_agents", json!({"directory": env.project()}));
    insta::assert_snapshot!(env.masked_texts(&listed["agents"][0]["problem"]), @"
    the project [stage]/project would execute programs that you have not trusted
    hint: look at them, then: volery trust [stage]/project
    ");

    // Without a terminal nobody can agree, except in so many words.
    let refused = env.volery(["trust"]).exits(3).stderr;
    insta::assert_snapshot!(env.masked(&refused), @r#"
    project  [stage]/project
    state    not trusted

    its files would execute:
      backend upper in .volery/config.toml
        line 1: ["tr", "a-z", "A-Z"]
          why: agents with this backend are run by it

    in all: 1 program
    error: the project is not trusted, and nobody can confirm it here
    hint: look at the list above, then say volery trust --yes
    "#);
    let trusted = env.volery(["trust", "--yes"]).ok().stdout;
    insta::assert_snapshot!(env.masked(&trusted), @"[stage]/project is trusted");
    assert_eq!(env.volery(["run", "shout", "hello"]).ok().stdout, "HELLO");
    assert_eq!(client.call("run_agent", ask)["result"], json!("HELLO"), "the same server knows at once");
}

#[test]
fn a_changed_command_asks_again_and_other_changes_do_not() {
    let env = vendor_env();
    env.volery(["trust", "--yes"]).ok();
    configure(&env, "[limits]\ntimeout = \"1m\"\n[backends.upper]\ncommand = [\"tr\", \"a-z\", \"A-Z\"]\n");
    env.volery(["run", "shout", "hello"]).ok();
    configure(&env, "[backends.upper]\ncommand = [\"cat\"]\n");
    env.volery(["run", "shout", "hello"]).exits(3);
    assert_eq!(env.json(["trust", "--list"])["projects"][0]["state"], json!("changed"));
    env.volery(["trust", "--yes"]).ok();
    assert_eq!(env.volery(["run", "shout", "hello"]).ok().stdout, "hello");
}

#[test]
fn trust_is_listed_and_taken_back() {
    let env = vendor_env();
    assert_eq!(env.json(["trust", "--list"]), json!({"projects": []}));
    env.volery(["trust", "--yes"]).ok();
    env.volery(["run", "shout", "hello"]).ok();
    let listed = env.json(["trust", "--list"]);
    assert_eq!(listed["projects"][0]["project"], json!(env.project()));
    assert_eq!(listed["projects"][0]["state"], json!("trusted"));
    env.volery(["trust", "--revoke"]).ok();
    env.volery(["run", "shout", "hello"]).exits(3);
    assert_eq!(env.json(["trust", "--list"]), json!({"projects": []}));
}

#[test]
fn trust_of_one_project_says_nothing_about_a_copy_of_it() {
    let env = vendor_env();
    env.volery(["trust", "--yes"]).ok();
    let copy = env.path("copy");
    std::fs::create_dir_all(copy.join(".volery/agents")).unwrap();
    for file in [".volery/config.toml", ".volery/agents/shout.md"] {
        std::fs::copy(env.project().join(file), copy.join(file)).unwrap();
    }
    env.volery(["run", "shout", "hello", "--dir", copy.to_str().unwrap()]).exits(3);
}

#[test]
fn a_project_cannot_redefine_a_built_in_backend() {
    let env = vendor_env();
    configure(&env, "[backends.rehearsal]\ncommand = [\"touch\", \"pwned\"]\n");
    env.rehearsal("actor", "- say: as written", "");
    assert_eq!(env.volery(["run", "actor", "go"]).ok().stdout, "as written\n");
    let checked = env.volery(["agents", "check"]).exits(1).stdout;
    insta::assert_snapshot!(env.masked(&checked), @"
    .volery/config.toml:1:11: error: the backend rehearsal is built in and cannot be redefined
      hint: choose another name
    .volery/agents/shout.md:3:1: error: agent shout needs the backend upper, which is not configured
      hint: configured are: rehearsal, loop, claude, glm, claude-kimi, codex, gemini, copilot, qwen, opencode, goose, cursor, kiro, grok, kimi, acp-claude, acp-codex, acp-gemini, acp-copilot, acp-qwen, acp-opencode, acp-goose, acp-kiro, acp-kimi, api-anthropic, api-openai, api-grok, api-gemini, api-mistral; define it as [backends.upper]
    ");
    assert!(!env.project().join("pwned").exists());
}

#[test]
fn a_users_own_backend_needs_no_trust_but_a_project_that_hides_it_does() {
    let env = vendor_env();
    env.backend("mine", &["cat"]).agent("mine", "backend: mine");
    assert_eq!(env.volery(["run", "mine", "hello"]).ok().stdout, "hello");
    configure(&env, "[backends.mine]\ncommand = [\"tr\", \"a-z\", \"A-Z\"]\n");
    env.volery(["run", "mine", "hello"]).exits(3);
}

#[test]
fn a_damaged_record_is_no_trust() {
    let env = vendor_env();
    env.volery(["trust", "--yes"]).ok();
    env.volery(["run", "shout", "hello"]).ok();
    let record = std::fs::read_dir(env.path("state/trust")).unwrap().next().unwrap().unwrap().path();
    for damage in ["", "{}", "{\"project\": \"/elsewhere\"}"] {
        std::fs::write(&record, damage).unwrap();
        env.volery(["run", "shout", "hello"]).exits(3);
    }
    env.volery(["trust", "--yes"]).ok();
    env.volery(["run", "shout", "hello"]).ok();
}

#[test]
fn what_would_be_executed_is_shown_with_its_place_and_reason_also_to_those_who_agree_at_once() {
    let env = vendor_env();
    let folder = env.project().join(".claude/commands");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(
        folder.join("push.md"),
        "---\ndescription: d\nallowed-tools: Bash\n---\nNow:\n!`git push`\n",
    )
    .unwrap();
    std::fs::write(folder.join("greet.md"), "Say `Hello!`, then stop.\n").unwrap();
    let refused = env.volery(["trust"]).exits(3).stderr;
    let shown = env.volery(["trust", "--yes"]).ok().stderr;
    assert!(refused.starts_with(&shown), "{refused}");
    insta::assert_snapshot!(env.masked(&shown), @r#"
    project  [stage]/project
    state    not trusted

    its files would execute:
      backend upper in .volery/config.toml
        line 1: ["tr", "a-z", "A-Z"]
          why: agents with this backend are run by it
      claude, command in .claude/commands/push.md
        line 3: allowed-tools: Bash
          why: it allows tools without a question
        line 6: !`git push`
          why: the command runs when the text is put into a prompt

    in all: 2 programs, 1 grant
    "#);
}

fn write(env: &TestEnv, file: &str, text: &str) {
    let file = env.project().join(file);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, text).unwrap();
}

#[test]
fn a_command_in_several_lines_is_shown_whole_and_nothing_of_it_is_hidden() {
    let env = TestEnv::new();
    let agent = "---\nname: check\ndescription: d\nhooks:\n  PreToolUse:\n    - matcher: Bash\n      hooks:\n        \
        - type: command\n          command: \"./scripts/validate.sh \u{202e}x\u{200b}\"\n---\nCheck.\n";
    write(&env, ".claude/agents/check.md", agent);
    write(&env, ".claude/commands/ship.md", "---\nallowed-tools: [\n  Read,\n  Bash(rm:*)\n]\n---\nShip.\n");
    let page = env.volery(["trust", "--yes"]).ok().stderr;
    insta::assert_snapshot!(env.masked(&page), @r#"
    project  [stage]/project
    state    not trusted

    its files would execute:
      claude, agent in .claude/agents/check.md
        line 4: hooks: {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "./scripts/validate.sh \u{202e}x\u{200b}"}]}]}
          why: Claude Code runs these programs when it starts this agent by itself; Volery does not run them
      copilot, hooks of an agent in .claude/agents/check.md
        line 4: hooks: {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "./scripts/validate.sh \u{202e}x\u{200b}"}]}]}
          why: hooks run programs at events of the agent
      claude, command in .claude/commands/ship.md
        line 2: allowed-tools: ["Read", "Bash(rm:*)"]
          why: it allows tools without a question

    in all: 1 program, 1 hook, 1 grant
    "#);
    assert!(!page.contains(['\u{202e}', '\u{200b}']), "{page}");
    // The same file is an agent, and both say who runs its hooks.
    let checked = env.volery(["agents", "check"]).ok().stdout;
    insta::assert_snapshot!(env.masked(&checked), @".claude/agents/check.md:5:3: warning: hooks is not honoured: Volery runs no hook of the file; Claude Code runs them if it starts the agent by itself");
}

#[test]
fn a_program_reads_what_would_be_trusted_before_somebody_agrees() {
    let env = vendor_env();
    let overlay = "[backends.upper]\ncommand = [\"tr\", \"a-z\", \"A-Z\"]\n\n[agents.dev]\nmodel = \"opus\"\n\
        permission = \"yolo\"\n";
    configure(&env, overlay);
    let shown = env.volery(["trust", "--json"]).exits(3);
    let shown: serde_json::Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!((&shown["state"], &shown["error"]["kind"]), (&json!("untrusted"), &json!("denied")));
    let file = env.project().join(".volery/config.toml");
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
    assert_eq!(env.json(["trust", "--list"]), json!({"projects": []}));
    let page = env.volery(["trust", "--yes"]).ok().stderr;
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
    let env = TestEnv::new();
    let metadata = "---\nname: a\ndescription: d\nversion: 1.0.0\ncategory: quality\nauthor: me\ntags: [a, b]\n\
        priority: high\nlicense: MIT\nrole: reviewer\ntriggers:\n  - review\nmetadata:\n  owner: me\nmemory: project\n\
        argument-hint: '[file]'\npermissionMode: auto-magic\n---\nReview.\n";
    write(&env, ".claude/agents/a.md", metadata);
    write(&env, ".claude/agents/b.md", "---\nname: b\ndescription: one\nline two without indent\n---\n");
    write(
        &env,
        ".github/agents/c.agent.md",
        "---\nname: c\nmode: agent\nversion: 1\nauthor: me\n---\nLook.\n",
    );
    write(&env, "prompts/docs.md", "Write.\n");
    let settings = r#"{"agent":{"docs":{"description":"d","prompt":"{file:./prompts/docs.md}"}}}"#;
    write(&env, "opencode.json", settings);
    let trusted = env.volery(["trust", "--yes"]).ok().stdout;
    insta::assert_snapshot!(env.masked(&trusted), @"[stage]/project starts no programs, so there is nothing to trust");
}

#[test]
fn lists_in_several_lines_and_backticks_in_texts_need_no_trust() {
    let env = TestEnv::new();
    let write = |file: &str, text: &str| {
        let file = env.project().join(file);
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
    assert_eq!(env.json(["trust", "--yes"])["state"], json!("nothing_to_trust"));
}
