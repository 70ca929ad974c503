//! Agent files of every format are found where their own programs look for them, and settled by one rule.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::test_env::{TestEnv, command_output};

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn in_project(env: &TestEnv, file: &str, text: &str) {
    write(&env.project().join(file), text);
}

fn at_home(env: &TestEnv, file: &str, text: &str) {
    write(&env.path("home").join(file), text);
}

/// One file per format, each with an agent named like the format.
const FILES: [(&str, &str, &str, &str); 13] = [
    ("claude", "claude", ".claude/agents/deep/x.md", "---\nname: claude\ndescription: d\n---\n"),
    (
        "codex",
        "codex",
        ".codex/agents/x.toml",
        "name = \"codex\"\ndescription = \"d\"\ndeveloper_instructions = \"i\"\n",
    ),
    ("copilot", "copilot", ".github/agents/copilot.agent.md", "---\ndescription: d\n---\n"),
    ("cursor", "cursor", ".cursor/agents/cursor.md", "---\ndescription: d\n---\n"),
    ("directive", "loop", ".ai/directives/directive.md", DIRECTIVE),
    ("dot-agents", "codex", ".agents/dot-agents.md", "---\nrun-agent: codex\n---\n# d\n"),
    ("gemini", "gemini", ".gemini/agents/x.md", "---\nname: gemini\ndescription: d\n---\n"),
    ("jarvis", "claude", "agents/x/agent.md", "---\nname: jarvis\ndescription: d\n---\n"),
    ("kiro", "kiro", ".kiro/agents/x.json", "{\"name\": \"kiro\", \"description\": \"sub-agent: d\"}"),
    ("opencode", "opencode", ".opencode/agent/opencode.md", "---\ndescription: d\n---\n"),
    ("plain", "cursor", ".agents/plain.txt", "d\nYou are plain.\n"),
    ("qwen", "qwen", ".qwen/agents/x.md", "---\nname: qwen\ndescription: d\n---\n"),
    ("volery", "rehearsal", ".volery/agents/volery.md", "---\ndescription: d\nbackend: rehearsal\n---\n"),
];

const DIRECTIVE: &str = "<directive name=\"directive\" version=\"1.0.0\"><metadata><description>d</description>\
                         <model tier=\"general\"/><permissions><read resource=\"env\" var=\"A\"/></permissions></metadata>\
                         <inputs><input name=\"branch\" required=\"true\">which</input></inputs></directive>\n";

fn listed(env: &TestEnv) -> Vec<Value> {
    env.json(["agents"])["agents"].as_array().unwrap().clone()
}

fn agent(env: &TestEnv, name: &str) -> Value {
    listed(env).into_iter().find(|agent| agent["name"] == name).unwrap_or_else(|| panic!("no agent {name}"))
}

#[test]
fn every_format_is_found_in_a_project() {
    let env = TestEnv::new();
    for (_, _, file, text) in FILES {
        in_project(&env, file, text);
    }
    let agents = listed(&env);
    assert_eq!(agents.len(), FILES.len(), "{agents:?}");
    for ((format, backend, file, _), agent) in FILES.iter().zip(agents) {
        let expected = (*format, *backend, env.project().join(file).display().to_string());
        let found =
            (agent["format"].as_str().unwrap(), agent["backend"].as_str().unwrap(), agent["file"].clone());
        assert_eq!((found.0, found.1, found.2), (expected.0, expected.1, json!(expected.2)), "{agent}");
        assert_eq!(
            (&agent["name"], &agent["description"], &agent["layer"]),
            (&json!(format), &json!("d"), &json!("project"))
        );
    }
    let table = env.volery(["agents"]).ok().stdout;
    let mut words = table.lines().next().unwrap().split_whitespace();
    assert!(
        words.by_ref().eq(["AGENT", "BACKEND", "MODEL", "FORMAT", "STATE", "FILE", "DESCRIPTION"]),
        "{table}"
    );
    assert!(table.contains(".github/agents/copilot.agent.md"), "{table}");
}

#[test]
fn every_format_is_found_at_the_users_home() {
    let env = TestEnv::new();
    for (format, _, file, text) in FILES {
        let file = match format {
            "opencode" => ".config/opencode/agents/opencode.md",
            "copilot" => ".copilot/agents/copilot.agent.md",
            "jarvis" => "jarvis/agents/x/agent.md",
            "volery" => continue,
            _ => file,
        };
        at_home(&env, file, text);
    }
    let mut command = env.command(["agents", "--json"]);
    let list = command_output(command.env("JARVIS_HOME", env.path("home/jarvis")).output().unwrap()).json();
    let agents = list["agents"].as_array().unwrap();
    assert_eq!(agents.len(), FILES.len() - 1, "{list}");
    assert!(agents.iter().all(|agent| agent["layer"] == "user"), "{list}");
}

#[test]
fn a_project_beats_the_user_and_our_own_format_beats_the_others() {
    let env = TestEnv::new();
    at_home(&env, ".claude/agents/a.md", "---\nname: same\ndescription: of the user\n---\n");
    in_project(&env, ".gemini/agents/a.md", "---\nname: same\ndescription: of gemini\n---\n");
    in_project(&env, ".claude/agents/a.md", "---\nname: same\ndescription: of claude\n---\n");
    assert_eq!(agent(&env, "same")["description"], "of claude");
    let checked = env.volery(["agents", "check"]).ok().stdout;
    insta::assert_snapshot!(env.masked(&checked), @"
    .claude/agents/a.md: warning: 3 files define the agent same; this one is used, because claude files come before gemini files; not used: .gemini/agents/a.md, ~/.claude/agents/a.md
      hint: ask for gemini:same to use another one
    ");
    env.agent("same", "backend: rehearsal\nsteps: [{say: ours}]");
    assert_eq!(agent(&env, "same")["format"], "volery");
}

#[test]
fn a_file_with_errors_takes_no_name_away_from_a_good_one() {
    let env = TestEnv::new();
    let of_user =
        "---\nname: rev\ndescription: of the user\nbackend: rehearsal\nsteps: [{say: users}]\n---\n";
    write(&env.path("config/agents/rev.md"), of_user);
    assert_eq!(env.volery(["run", "rev", "go"]).ok().stdout, "users\n");
    let large = format!("---\nname: rev\ndescription: d\n---\n{}", "x".repeat(1 << 20));
    let broken = [
        (".volery/agents/rev.md", "---\ndescription: d\nbackend: rehearsal\ntimeout: banana\n---\n"),
        (".volery/agents/other.md", "---\nname: 'rev' # mine\nbackend: [\n---\n"),
        (".claude/agents/other.md", "---\nname: rev\ndescription: d\nisolation: sideways\n---\n"),
        (".codex/agents/other.toml", "name = \"rev\"\ndescription = 3\nsandbox_mode = [\n"),
        (".kiro/agents/other.json", r#"{"name": "rev", "description": "sub-agent: d", "model": 3}"#),
        (".github/agents/rev.agent.md", "---\ndescription: d\nmodel: {a: 1}\n---\n"),
        (".agents/other.md", "---\nname: rev\nrun-agent: codex\npermission: maybe\n---\nx"),
        (".claude/agents/large.md", &large),
    ];
    let mut messages = String::new();
    for (file, text) in broken {
        in_project(&env, file, text);
        let path = env.project().join(file);
        assert_eq!(env.volery(["run", "rev", "go"]).ok().stdout, "users\n", "{file}");
        let run = env.json(["run", "rev", "go"]);
        messages += &(env.masked_texts(&run["warnings"]) + "\n");
        messages += &env.masked(&env.volery(["agents", "check"]).exits(1).stdout);
        std::fs::remove_file(path).unwrap();
    }
    insta::assert_snapshot!("files_with_errors", messages);
    let no_text = env.project().join(".gemini/agents/other.md");
    std::fs::create_dir_all(no_text.parent().unwrap()).unwrap();
    std::fs::write(&no_text, b"---\nname: rev\ndescription: caf\xe9\n---\nx").unwrap();
    assert_eq!(env.volery(["run", "rev", "go"]).ok().stdout, "users\n");
    std::fs::remove_file(no_text).unwrap();
    in_project(&env, ".claude/agents/rev.md", "---\nname: rev\ndescription: d\nisolation: sideways\n---\n");
    env.agent("rev", "backend: rehearsal\nsteps: [{say: nearest}]");
    assert_eq!(env.volery(["run", "rev", "go"]).ok().stdout, "nearest\n", "a nearer file still wins");
}

#[test]
fn markdown_beats_text_of_the_same_name() {
    let env = TestEnv::new();
    let folder = env.path("agents-dir");
    write(&folder.join("poet.md"), "# In markdown\n");
    write(&folder.join("poet.txt"), "In text\n");
    write(&folder.join("other.txt"), "Only text\n");
    let mut command = env.command(["agents", "--json"]);
    command.env("AGENTS_DIR", &folder).env("AGENT_TYPE", "codex").env("AGENT_PERMISSION", "read-only");
    let list = command_output(command.output().unwrap()).json();
    let found: Vec<(&Value, &Value, &Value)> = list["agents"]
        .as_array()
        .unwrap()
        .iter()
        .map(|agent| (&agent["name"], &agent["description"], &agent["backend"]))
        .collect();
    let expected =
        [("other", "Only text"), ("poet", "In markdown")].map(|(name, text)| (json!(name), json!(text)));
    let codex = json!("codex");
    let expected: Vec<(&Value, &Value, &Value)> =
        expected.iter().map(|(name, text)| (name, text, &codex)).collect();
    assert_eq!(found, expected);
    insta::assert_snapshot!(env.masked_texts(&list["diagnostics"][0]["message"]), @"[stage]/agents-dir/poet.md is used instead of this file");
}

#[test]
fn links_that_leave_their_folder_are_refused() {
    let env = TestEnv::new();
    let secret = env.path("home/secret.md");
    write(&secret, "---\nname: secret\ndescription: d\n---\nkey\n");
    in_project(&env, ".claude/agents/fine.md", "---\nname: fine\ndescription: d\n---\n");
    let link = |target: &Path, vendor_env: &str| {
        let vendor_env = env.project().join(vendor_env);
        std::fs::create_dir_all(vendor_env.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(target, vendor_env).unwrap();
    };
    link(&secret, ".claude/agents/secret.md");
    link(secret.parent().unwrap(), ".claude/agents/folder");
    link(secret.parent().unwrap(), ".cursor/agents");
    link(&env.project().join(".claude/agents/fine.md"), ".claude/agents/again.md");
    in_project(&env, "agents/jar/agent.md", "---\nname: jar\ndescription: d\n---\nOwn.\n");
    link(&secret, "agents/jar/memory.md");
    let names: Vec<Value> = listed(&env).iter().map(|agent| agent["name"].clone()).collect();
    assert_eq!(names, [json!("fine"), json!("jar")]);
    let checked = env.volery(["agents", "check"]).exits(1).stdout;
    insta::assert_snapshot!(env.masked(&checked), @"
    agents/jar/memory.md: error: the symbolic link leaves its folder, so it is not read
    .cursor/agents: error: the folder leaves the project by a symbolic link, so it is not read
    .claude/agents/folder: error: the symbolic link leaves its folder, so it is not read
    .claude/agents/secret.md: error: the symbolic link leaves its folder, so it is not read
    .claude/agents/fine.md: warning: 2 files define the agent fine; this one is used, because of one format the last file counts; not used: .claude/agents/again.md
    ");
    let shown = env.json(["agents", "show", "jar"]);
    assert_eq!(shown["system_prompt"], "Own.", "{shown}");
}

#[test]
fn what_is_passed_over_is_named() {
    let env = TestEnv::new();
    let link = |target: &Path, vendor_env: &str| {
        let vendor_env = env.project().join(vendor_env);
        std::fs::create_dir_all(vendor_env.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(target, vendor_env).unwrap();
    };
    link(Path::new("agents"), ".cursor/agents");
    link(Path::new("absent"), ".gemini/agents");
    link(Path::new("absent.md"), ".claude/agents/gone.md");
    in_project(&env, ".claude/agents/1/2/3/4/5/6/7/8/fine.md", "---\nname: fine\ndescription: d\n---\n");
    in_project(&env, ".claude/agents/1/2/3/4/5/6/7/8/9/deep.md", "---\nname: deep\ndescription: d\n---\n");
    for number in 0..20_001 {
        std::fs::create_dir_all(env.project().join(".codex/agents")).unwrap();
        std::fs::write(env.project().join(format!(".codex/agents/{number}.txt")), "").unwrap();
    }
    let check = |variables: &[(&str, &str)]| {
        let mut command = env.command(["agents", "check"]);
        command_output(command.envs(variables.iter().copied()).output().unwrap()).exits(1).stdout
    };
    let checked = check(&[("AGENTS_DIR", "relative"), ("AGENT_MODEL", "-x"), ("AGENT_EFFORT", "--y")]);
    insta::assert_snapshot!(env.masked(&checked), @r#"
    (environment): warning: AGENT_MODEL is "-x", which means nothing
    (environment): warning: AGENT_EFFORT is "--y", which means nothing
    (environment): warning: AGENTS_DIR is "relative", which is no absolute path, so no agents are read from it
    .gemini/agents: warning: the symbolic link leads nowhere
    .cursor/agents: warning: could not look into it: Too many levels of symbolic links (os error 40)
    .codex/agents: warning: it holds more than 20000 files and folders; the rest is not read
    .claude/agents/1/2/3/4/5/6/7/8/9: warning: only 8 folders below each other are read; move its agents up
    .claude/agents/gone.md: error: the symbolic link leads nowhere
    .claude/agents: warning: could not read it: it is no regular file
      hint: agents whose program would read it need `volery trust`
    .claude/agents/gone.md: warning: could not read it: No such file or directory (os error 2)
      hint: agents whose program would read it need `volery trust`
    "#);
    let absent = env.path("absent");
    let checked = check(&[("AGENTS_DIR", absent.to_str().unwrap())]);
    insta::assert_snapshot!(env.masked(&checked), @"
    .gemini/agents: warning: the symbolic link leads nowhere
    .cursor/agents: warning: could not look into it: Too many levels of symbolic links (os error 40)
    .codex/agents: warning: it holds more than 20000 files and folders; the rest is not read
    .claude/agents/1/2/3/4/5/6/7/8/9: warning: only 8 folders below each other are read; move its agents up
    .claude/agents/gone.md: error: the symbolic link leads nowhere
    [stage]/absent: warning: there is no such folder, so no agents are read from it
    .claude/agents: warning: could not read it: it is no regular file
      hint: agents whose program would read it need `volery trust`
    .claude/agents/gone.md: warning: could not read it: No such file or directory (os error 2)
      hint: agents whose program would read it need `volery trust`
    ");
    let names: Vec<Value> = listed(&env).iter().map(|agent| agent["name"].clone()).collect();
    assert_eq!(names, [json!("fine")]);
}

#[test]
fn folders_next_to_an_agent_do_not_lead_elsewhere() {
    let env = TestEnv::new();
    let elsewhere = env.path("home/elsewhere");
    write(&elsewhere.join("skill.md"), "foreign skill");
    write(&elsewhere.join("k.md"), "---\ndescription: foreign\n---\n");
    write(&elsewhere.join("_system.md"), "Foreign {{RESPONSE_FILE}}");
    in_project(&env, "agents/jar/agent.md", "---\nname: jar\ndescription: d\n---\nOwn.\n");
    in_project(&env, ".kiro/agents/k.json", r#"{"name": "k", "description": "sub-agent: own"}"#);
    std::fs::create_dir_all(env.project().join(".kiro/sub-agents")).unwrap();
    for vendor_env in ["agents/jar/skills", ".kiro/sub-agents/prompts"] {
        std::os::unix::fs::symlink(&elsewhere, env.project().join(vendor_env)).unwrap();
    }
    let checked = env.volery(["agents", "check"]).exits(1).stdout;
    insta::assert_snapshot!(env.masked(&checked), @"
    agents/jar/skills: error: the symbolic link leaves its folder, so it is not read
    .kiro/sub-agents/prompts: error: the folder leaves the project by a symbolic link, so it is not read
    ");
    let jar = env.json(["agents", "show", "jar"]);
    assert_eq!(jar["system_prompt"], "Own.", "{jar}");
    assert_eq!(agent(&env, "k")["description"], "own");
    let shown = env.json(["agents", "show", "k"]).to_string();
    assert!(!shown.to_lowercase().contains("foreign"), "{shown}");
    // Within the project, a link leads nowhere else.
    std::fs::remove_file(env.project().join(".kiro/sub-agents/prompts")).unwrap();
    in_project(&env, "shared/k.md", "---\ndescription: shared\n---\n");
    std::os::unix::fs::symlink(env.project().join("shared"), env.project().join(".kiro/sub-agents/prompts"))
        .unwrap();
    assert_eq!(agent(&env, "k")["description"], "shared");
}

#[test]
fn a_change_is_seen_without_a_restart() {
    let env = TestEnv::new();
    let mut client = env.serve().initialize("it");
    let directory = json!({"directory": env.project()});
    assert_eq!(client.call("list_agents", directory.clone())["agents"].as_array().unwrap().len(), 0);
    in_project(&env, ".claude/agents/a.md", "---\nname: late\ndescription: first\n---\n");
    assert_eq!(client.call("list_agents", directory.clone())["agents"][0]["description"], "first");
    in_project(&env, ".claude/agents/a.md", "---\nname: late\ndescription: second\n---\n");
    assert_eq!(client.call("list_agents", directory)["agents"][0]["description"], "second");
}

#[test]
fn files_next_to_an_agent_are_read_each_time() {
    let env = TestEnv::new();
    in_project(&env, "agents/main/agent.md", "---\nname: main\ndescription: asks the others\n---\n");
    in_project(&env, "agents/mail/agent.md", "---\nname: mail\ndescription: d\nsession: true\n---\nSorts.\n");
    in_project(&env, "agents/mail/skills/b.md", "B.\n");
    in_project(&env, "agents/mail/skills/a.md", "A.\n");
    in_project(&env, "agents/mail/memory.md", "Memory.\n");
    assert_eq!(listed(&env).len(), 1);
    let prompt = |env: &TestEnv, name: &str| env.json(["agents", "show", name])["system_prompt"].clone();
    assert_eq!(prompt(&env, "mail"), "Sorts.\n\nA.\n\nB.\n\nMemory.");
    in_project(&env, "agents/mail/memory.md", "More.\n");
    assert_eq!(prompt(&env, "mail"), "Sorts.\n\nA.\n\nB.\n\nMore.");
    in_project(&env, "agents/mail/agent.md", "---\nname: mail\ndescription: d\n---\nSorts.\n");
    assert_eq!(prompt(&env, "mail"), "Sorts.\n\nA.\n\nB.", "who keeps no session has no memory");

    let kiro = "{\"name\": \"check\", \"description\": \"Sub-agent: d\", \"allowedTools\": [\"fs_write\"]}";
    in_project(&env, ".kiro/agents/check.json", kiro);
    at_home(&env, ".kiro/sub-agents/prompts/_system.md", "To {{RESPONSE_FILE}}");
    at_home(
        &env,
        ".kiro/sub-agents/prompts/check.md",
        "---\nname: check\ndescription: from the prompt\n---\n",
    );
    let template = |env: &TestEnv| {
        env.json(["agents", "show", "check"])["settings"]["response_file"]["template"].clone()
    };
    assert_eq!(template(&env), "To {{RESPONSE_FILE}}");
    assert_eq!(agent(&env, "check")["description"], "from the prompt");
    at_home(&env, ".kiro/sub-agents/prompts/_system.md", "Into {{RESPONSE_FILE}}");
    assert_eq!(template(&env), "Into {{RESPONSE_FILE}}");
}

#[test]
fn a_directive_is_listed_with_its_inputs_and_needs_a_model() {
    let env = TestEnv::new();
    in_project(&env, ".ai/directives/directive.md", DIRECTIVE);
    in_project(&env, ".ai/directives/notes.md", "# Notes about directives\n");
    let inputs = json!([{"name": "branch", "kind": "string", "required": true, "description": "which"}]);
    assert_eq!(agent(&env, "directive")["inputs"], inputs);
    let mut client = env.serve().initialize("it");
    let list = client.call("list_agents", json!({"directory": env.project()}));
    assert_eq!(list["agents"][0]["inputs"], inputs, "{list}");
    let refused = env.volery(["run", "directive", "go"]).exits(2).stderr;
    let message = "error: agent directive: no service is available for the model \"general\"\nhint: set ANTHROPIC_API_KEY; or";
    assert!(refused.starts_with(message), "{refused}");
    assert_eq!(env.runs(), Vec::<String>::new());
}

#[test]
fn a_directive_is_found_by_its_path_and_by_its_stem() {
    let env = TestEnv::new();
    for folder in ["web", "mail", "web/deep"] {
        in_project(&env, &format!(".ai/directives/{folder}/search.md"), DIRECTIVE);
    }
    in_project(&env, ".ai/directives/mail/send.md", DIRECTIVE);
    // A file in a folder does not take the name of a built-in agent.
    in_project(&env, ".ai/directives/mail/claude.md", DIRECTIVE);
    in_project(&env, ".ai/directives/mail/sort.md", "---\ndescription: Sorts mail.\n---\nSort it.\n");
    let shown = |name: &str| env.json(["agents", "show", name])["name"].clone();
    for (typed, name) in [
        ("web/search", "web/search"),
        ("web/deep/search", "web/deep/search"),
        ("mail/search", "mail/search"),
        ("send", "mail/send"),
        ("sort", "mail/sort"),
        ("mail/claude", "mail/claude"),
    ] {
        assert_eq!(shown(typed), name, "{typed}");
    }
    let refused = env.volery(["run", "search", "go"]).exits(5).stderr;
    let message = "error: 3 directives are called search: mail/search, web/deep/search, web/search\n\
                   hint: ask for one by its path";
    assert!(refused.starts_with(message), "{refused}");
    let refused = env.volery(["run", "send", "go"]).exits(2).stderr;
    assert!(refused.starts_with("error: agent mail/send: no service"), "{refused}");
    in_project(&env, ".ai/directives/mail/sort.md", "---\ndescription: [\n---\nSort it.\n");
    let refused = env.volery(["run", "sort", "go"]).exits(5).stderr;
    assert!(refused.contains("mail/sort.md:2") || refused.contains("not valid YAML"), "{refused}");
}

#[test]
fn a_projects_servers_need_trust() {
    let env = TestEnv::new();
    let servers = |command: &str| {
        format!(
            "backend: rehearsal\nsteps: [{{say: hi}}]\nmcp_servers: {{s: {{command: {command}, env: {{A: b}}}}}}"
        )
    };
    env.agent("armed", &servers("server-one"));
    env.rehearsal("plain", "- say: hi", "");
    let refused = env.volery(["run", "armed", "go"]).exits(3).stderr;
    insta::assert_snapshot!(env.masked(&refused), @r#"
    error: the project [stage]/project would execute programs that you have not trusted:
      agent armed, MCP server s: ["server-one"] with ["A=b"]
    hint: look at them, then: volery trust [stage]/project
    "#);
    assert_eq!(env.volery(["run", "plain", "go"]).ok().stdout, "hi\n");
    env.volery(["trust", "--yes"]).ok();
    assert_eq!(env.volery(["run", "armed", "go"]).ok().stdout, "hi\n");
    env.agent("armed", &servers("server-two"));
    let _changed = env.volery(["run", "armed", "go"]).exits(3);
}

#[test]
fn a_broken_file_of_any_format_is_named_when_its_agent_is_requested() {
    let env = TestEnv::new();
    in_project(&env, ".codex/agents/explorer.toml", "name = \n");
    in_project(&env, "agents/mail/agent.md", "---\nname: mail\n---\n");
    let refused = env.volery(["run", "explorer", "go"]).exits(5).stderr;
    insta::assert_snapshot!(env.masked(&refused), @r"
    error: agent explorer cannot be used: .codex/agents/explorer.toml:1:8: not valid TOML: string values must be quoted, expected literal string
    hint: `volery agents check` lists everything that is wrong
    ");
    let refused = env.volery(["run", "mail", "go"]).exits(5).stderr;
    insta::assert_snapshot!(env.masked(&refused), @r"
    error: agent mail cannot be used: agents/mail/agent.md:2:1: the key description is missing
    hint: callers choose an agent by its description
    ");
}

#[test]
fn a_file_that_is_passed_over_is_named_and_what_is_no_agent_is_not() {
    let env = TestEnv::new();
    let agent = "---\nname: deep\ndescription: d\n---\nx";
    let reported = [
        (".github/agents/sub/a.agent.md", ".github/agents/sub"),
        (".gemini/agents/sub/a.md", ".gemini/agents/sub"),
        (".cursor/agents/sub/a.md", ".cursor/agents/sub"),
        (".kiro/agents/sub/a.json", ".kiro/agents/sub"),
        (".volery/agents/sub/a.md", ".volery/agents/sub"),
        (".agents/sub/a.md", ".agents/sub"),
        (".cursor/agents/readme.md", ".cursor/agents/readme.md"),
    ];
    let silent = [
        (".claude/agents/README.md", "# Our agents\n\nname: of no agent"),
        (".github/agents/pictures/a.png", "---\nname: x\n---\n"),
        (".github/agents/notes/README.md", agent),
        (".github/agents/notes/plan.md", "What we plan."),
        (".gemini/agents/README.md", "# Our agents"),
        (".gemini/agents/_draft.md", agent),
        (".agents/commands/a.md", "---\ndescription: a command\n---\n"),
        (".agents/skills/a/SKILL.md", agent),
        (".kiro/agents/prompt.md", "You help."),
        (".kiro/agents/k.md", agent),
    ];
    for (file, text) in silent {
        in_project(&env, file, text);
    }
    let checked = env.volery(["agents", "check"]).ok().stdout;
    assert_eq!(checked.matches("warning: ").count(), 0, "{checked}");
    for (file, _) in reported {
        in_project(&env, file, agent);
    }
    let checked = env.volery(["agents", "check"]).ok().stdout;
    for (_, path) in reported {
        let warning = format!("{path}: warning: ");
        let found = checked.lines().filter(|line| line.starts_with(&warning));
        assert_eq!(found.count(), 1, "{path}: {checked}");
    }
    assert_eq!(checked.matches("warning: ").count(), reported.len(), "{checked}");
    assert_eq!(listed(&env), Vec::<Value>::new());
}

/// The names are those that the init event of Claude Code 2.1.325 lists for the same files.
#[test]
fn every_agent_that_claude_code_lists_is_an_agent() {
    let env = TestEnv::new();
    let files = [
        ("unclosed.md", "description: [unclosed"),
        ("curly.md", "description: {a} thing"),
        ("tab.md", "description: d\ntools:\n\t- Read"),
        ("turns.md", "description: d\nmaxTurns: many"),
        ("servers.md", "description: d\nmcpServers: 5"),
        ("model.md", "description: d\nmodel: [a]"),
        ("tools.md", "description: d\ntools: {a: b}"),
        ("README.md", "description: d"),
        ("1/2/3/4/5/deep.md", "description: d"),
    ];
    let mut expected: Vec<String> = vec!["latin".to_owned()];
    for (file, head) in files {
        let name = Path::new(file).file_stem().unwrap().to_str().unwrap().to_lowercase();
        in_project(&env, &format!(".claude/agents/{file}"), &format!("---\nname: {name}\n{head}\n---\nx\n"));
        expected.push(name);
    }
    expected.sort();
    let latin = b"---\nname: latin\ndescription: caf\xe9\n---\nx\n";
    std::fs::write(env.project().join(".claude/agents/latin.md"), latin).unwrap();
    let names = || {
        let mut names: Vec<String> =
            listed(&env).iter().map(|agent| agent["name"].as_str().unwrap().to_owned()).collect();
        names.sort();
        names
    };
    assert_eq!(names(), expected);
    // It lists none for this one.
    in_project(&env, ".claude/agents/two.md", "---\nname: two\ndescription: one\nline two\n---\nx\n");
    assert_eq!(names(), expected);
    assert_eq!(agent(&env, "latin")["description"], "caf\u{fffd}");
}

/// The names are those that `opencode agent list` of 1.18.33 lists for the same files.
#[test]
fn every_agent_that_opencode_lists_is_an_agent() {
    let env = TestEnv::new();
    let text = "---\ndescription: d\n---\nx\n";
    for file in
        ["agent/README.md", "agent/1/2/3/4/5/deep.md", "agents/plain.md", "mode/primary.md", "modes/other.md"]
    {
        in_project(&env, &format!(".opencode/{file}"), text);
    }
    in_project(&env, ".opencode/mode/below/none.md", text);
    let home = env.path("home/.opencode/agent");
    fs::create_dir_all(&home).unwrap();
    fs::write(home.join("dot.md"), text).unwrap();
    in_project(
        &env,
        "opencode.json",
        r#"{"agent": {"build": {"temperature": 0.3}, "title": {"temperature": 0}}}"#,
    );
    let mut names: Vec<String> =
        listed(&env).iter().map(|agent| agent["name"].as_str().unwrap().to_owned()).collect();
    names.sort();
    assert_eq!(names, ["1/2/3/4/5/deep", "README", "build", "dot", "other", "plain", "primary"]);
    assert_eq!(env.json(["agents", "show", "build"])["settings"]["temperature"], json!(0.3));
}

#[test]
fn a_file_that_a_configuration_of_codex_declares_is_one_agent() {
    let env = TestEnv::new();
    let server = "[mcp_servers.x]\ncommand = \"serve\"\n";
    let file = format!("name = \"b\"\ndeveloper_instructions = \"x\"\n{server}");
    in_project(&env, ".codex/agents/b.toml", &file);
    in_project(&env, ".codex/agents/unnamed.toml", "developer_instructions = \"y\"\n");
    let config = "[agents.rev]\ndescription = \"declared\"\nconfig_file = \"./agents/b.toml\"\n\n[agents.other]\n\
        description = \"declared too\"\nconfig_file = \"agents/../agents/unnamed.toml\"\n";
    in_project(&env, ".codex/config.toml", config);
    // As in Codex, the name in the file comes before that of the declaration, and the folder adds no second agent.
    let names: Vec<Value> = listed(&env).iter().map(|agent| agent["name"].clone()).collect();
    assert_eq!(names, [json!("b"), json!("other")]);
    assert_eq!(agent(&env, "b")["description"], "declared");
    let checked = env.volery(["agents", "check"]).ok().stdout;
    assert!(!checked.contains("files define the agent"), "{checked}");
    insta::assert_snapshot!(env.masked(&checked), @".codex/config.toml: warning: agents.rev: the agent is called b, because its file .codex/agents/b.toml has that name");
    let page = env.volery(["trust", "--yes"]).ok().stderr;
    assert_eq!(page.matches("[\"serve\"]").count(), 1, "{page}");
}

#[test]
fn a_folder_that_links_to_itself_is_read_once() {
    let env = TestEnv::new();
    in_project(&env, ".claude/agents/deep/a.md", "---\nname: a\ndescription: d\ncolor: red\n---\nx");
    for (from, to) in [("loop", "."), ("again", "deep"), ("deep/up", "..")] {
        std::os::unix::fs::symlink(to, env.project().join(".claude/agents").join(from)).unwrap();
    }
    let checked = env.volery(["agents", "check"]).ok().stdout;
    insta::assert_snapshot!(env.masked(&checked), @"
    .claude/agents/deep/a.md:4:8: warning: color is not honoured: it only changes how a terminal shows the agent
    .claude/agents: warning: could not read it: it is no regular file
      hint: agents whose program would read it need `volery trust`
    ");
    assert_eq!(listed(&env).len(), 1);
}
