//! The formats of other vendors' programs: every documented key is supported, or named in a warning.

use domain::agent::{Agent, Layer};
use domain::diagnostic::Diagnostic;
use domain::mcp_server::Transport;
use domain::permission::{Level, Permission, Rule};
use domain::setup::{Isolation, PromptMode};

use crate::agent_formats::{AgentFile, claude, codex, copilot, cursor, gemini, opencode};

type AgentReader = fn(AgentFile<'_>) -> (Option<Agent>, Vec<Diagnostic>);

fn read(reader: AgentReader, stem: &str, text: &str) -> (Option<Agent>, Vec<String>) {
    let (agent, diagnostics) = reader(AgentFile { text, file: "f", stem, layer: Layer::User });
    (agent, diagnostics.iter().map(ToString::to_string).collect())
}

#[track_caller]
fn accept(reader: AgentReader, stem: &str, text: &str, warnings: &[&str]) -> Agent {
    let (agent, diagnostics) = read(reader, stem, text);
    assert_eq!(diagnostics, warnings);
    agent.expect("an agent without errors")
}

fn spellings(rules: &[Rule]) -> Vec<&str> {
    rules.iter().map(Rule::spelling).collect()
}

fn texts(texts: &[&str]) -> Option<Vec<String>> {
    Some(texts.iter().map(|text| (*text).to_owned()).collect())
}

#[test]
fn an_agent_of_claude_code() {
    let text = "\
---
name: bug-hunter
description: Finds the cause of failures. Use it when: a test fails
tools: Read, Grep, Bash(git log:*), Agent(helper, other), mcp__tracker__*
disallowedTools: [Write, Edit]
model: inherit
permissionMode: plan
maxTurns: 8
effort: high
isolation: worktree
mcpServers:
  - github
  - tracker:
      type: stdio
      command: tracker-server
      env: {TRACKER_TOKEN: \"${TRACKER_TOKEN:-none}\"}
skills: [debugging]
hooks: {PreToolUse: []}
memory: project
background: true
initialPrompt: Begin.
color: red
---

You find causes.
";
    let warnings = [
        "f:3:1: warning: the value of \"description\" is not valid YAML and is read as text (hint: put the value in \
         quotes)",
        "f:12:5: warning: mcpServers: \"github\" names a server that is defined elsewhere (hint: an agent gets only \
         the servers that its own file defines: write its command or url here)",
        "f:17:9: warning: skills is not honoured: no skill is loaded before the agent begins; name it in the system \
         prompt",
        "f:18:8: warning: hooks is not honoured: Volery runs no hook of the file; Claude Code runs them if it starts the agent \
         by itself",
        "f:19:9: warning: memory is not honoured: the agent gets no memory folder of its own",
        "f:20:13: warning: background is not honoured: the caller decides whether it waits",
        "f:21:16: warning: initialPrompt is not honoured: the caller's prompt comes first",
        "f:22:8: warning: color is not honoured: it only changes how a terminal shows the agent",
    ];
    let agent = accept(claude::read, "other", text, &warnings);
    assert_eq!((agent.name.as_str(), agent.backend.as_str(), agent.model), ("bug-hunter", "claude", None));
    assert_eq!(agent.description, "Finds the cause of failures. Use it when: a test fails");
    assert_eq!(agent.system_prompt, "You find causes.");
    let setup = agent.setup;
    assert_eq!(setup.tools, texts(&["Read", "Grep", "Bash", "Agent", "mcp__tracker__*"]));
    assert_eq!(spellings(&setup.permission.allow), ["Bash(git log:*)", "Agent(helper, other)"]);
    assert_eq!(spellings(&setup.permission.deny), ["Write", "Edit"]);
    assert_eq!(setup.permission.level, Some(Level::ReadOnly));
    assert_eq!((setup.max_turns, setup.effort.as_deref()), (Some(8), Some("high")));
    assert_eq!((setup.isolation, setup.prompt_mode), (Isolation::Worktree, PromptMode::Replace));
    assert_eq!((setup.mcp_servers.len(), setup.mcp_servers[0].name.as_str()), (1, "tracker"));
}

#[test]
fn values_that_claude_code_ignores_are_no_errors() {
    let with = |lines: &str, warnings: &[&str]| {
        accept(claude::read, "a", &format!("---\nname: a\ndescription: b\n{lines}\n---\nx\n"), warnings).setup
    };
    let ignored = |key: &str, column: u32, expected: &str, found: &str| {
        format!(
            "f:4:{column}: warning: {key}: expected {expected}, found {found}; it is ignored, as in Claude Code"
        )
    };
    let turns = ignored("maxTurns", 11, "a number above 0", "the text \"many\"");
    assert_eq!(with("maxTurns: many", &[&turns]).max_turns, None);
    let servers = ignored("mcpServers", 13, "servers by name", "the number 5");
    assert_eq!(with("mcpServers: 5", &[&servers]).mcp_servers, []);
    with("model: [a]", &[&ignored("model", 8, "the name of a model", "a list")]);
    with("effort: 3", &[&ignored("effort", 9, "a word for an effort", "the number 3")]);
    // Never all tools if the program gives none.
    let none = |found: &str, location: &str| {
        format!(
            "f:{location}: warning: tools: expected names of tools, found {found}; the agent has no tools, as in Claude Code \
             (hint: remove the key to give the agent all tools)"
        )
    };
    assert_eq!(with("tools: {a: b}", &[&none("a map", "4:8")]).tools, texts(&[]));
    assert_eq!(with("tools: 5", &[&none("the number 5", "4:8")]).tools, texts(&[]));
    let (agent, diagnostics) = read(claude::read, "a", "---\nname: a\ndescription: b\ntools:\n---\nx\n");
    assert_eq!((agent.unwrap().setup.tools, diagnostics.len()), (texts(&[]), 1));
    let item = "f:4:15: warning: tools: the number 5 names no tool and is ignored";
    assert_eq!(with("tools: [Read, 5]", &[item]).tools, texts(&["Read"]));
    let unknown = |location: &str| {
        format!(
            "f:{location}: warning: tools: Volery does not know \"Sing\" as a tool of Claude Code \
             (hint: an agent runs without a tool that Claude Code does not have)"
        )
    };
    with("tools: [Read, Sing]", &[&unknown("4:15")]);
    with("tools: Read, Sing", &[&unknown("4:8")]);
    with("tools:\n  - SlashCommand\n  - Sing(a:*)", &[&unknown("6:5")]);
    let tab =
        "f:5:1: warning: YAML does not allow a tab at the beginning of a line; it is read as two blanks";
    assert_eq!(with("tools:\n\t- Read", &[tab]).tools, texts(&["Read"]));
}

#[test]
fn a_description_that_is_no_valid_yaml_is_read_as_text() {
    let (agent, diagnostics) =
        read(claude::read, "a", "---\nname: a\ndescription: b\ndisallowedTools: [Bash\n---\nx\n");
    assert!(
        agent.is_none() && diagnostics[0].contains("not valid YAML"),
        "a list of denied tools stays an error: {diagnostics:?}"
    );
    for (description, expected) in [
        ("[unclosed", "[unclosed"),
        ("{a} thing", "{a} thing"),
        ("[a] and {b}: \"c\" \\d", "[a] and {b}: \"c\" \\d"),
        ("'it''s' more", "'it''s' more"),
    ] {
        let warning = "f:3:1: warning: the value of \"description\" is read as text, because the YAML is not valid \
            (hint: put the value in quotes)";
        let text = format!("---\nname: a\ndescription: {description}\ntools: Read\n---\nx\n");
        let agent = accept(claude::read, "a", &text, &[warning]);
        assert_eq!((agent.description.as_str(), agent.setup.tools), (expected, texts(&["Read"])), "{text}");
    }
}

#[test]
fn a_tool_that_nothing_holds_to_its_pattern_is_left_out() {
    let tools = |mode: &str, tools: &str, warnings: &[&str]| {
        let text = format!("---\nname: a\ndescription: b\npermissionMode: {mode}\ntools: {tools}\n---\n");
        let setup = accept(claude::read, "a", &text, warnings).setup;
        let rules = spellings(&setup.permission.allow).join(" ");
        format!("{} | {rules}", setup.tools.unwrap().join(" "))
    };
    let left_out = |spelling: &str, tool: &str| {
        format!(
            "f:5:8: warning: tools: \"{spelling}\" is left out: the permission allows more of {tool} than stands in the \
             parentheses (hint: write {tool} to give the agent all of it, or a stricter permission)"
        )
    };
    let two = "Bash(git log:*), Bash(git diff:*), Read";
    assert_eq!(tools("default", two, &[]), "Bash Read | Bash(git log:*) Bash(git diff:*)");
    let bash = left_out("Bash(git log:*)", "Bash");
    assert_eq!(tools("bypassPermissions", "Read, Bash(git log:*)", &[&bash]), "Read | ");
    let edit = left_out("Edit(docs/**)", "Edit");
    assert_eq!(tools("default", "Read, Edit(docs/**)", &[&edit]), "Read | ");
    assert_eq!(tools("plan", "Read, Edit(docs/**)", &[]), "Read Edit | Edit(docs/**)");
    let read = left_out("Read(src/**)", "Read");
    assert_eq!(tools("plan", "Read(src/**)", &[&read]), " | ");
}

#[test]
fn every_mode_of_claude_code_has_a_meaning() {
    let level = |mode: &str, warnings: &[&str]| {
        let text = format!("---\nname: a\ndescription: b\npermissionMode: {mode}\n---\n");
        accept(claude::read, "a", &text, warnings).setup.permission.level
    };
    assert_eq!(level("default", &[]), None);
    assert_eq!(level("dontAsk", &[]), Some(Level::ReadOnly));
    assert_eq!(level("acceptEdits", &[]), Some(Level::SafeEdit));
    assert_eq!(level("bypassPermissions", &[]), Some(Level::Yolo));
    let auto =
        "f:4:17: warning: permissionMode: auto is not honoured: what no rule allows is denied or asked about";
    assert_eq!(level("auto", &[auto]), None);
    let unknown = "f:4:17: warning: permissionMode: expected default or manual or dontAsk or acceptEdits or plan or \
                   bypassPermissions or auto, found the text \"wild\"; the default level is used";
    assert_eq!(level("wild", &[unknown]), None);
}

#[test]
fn a_name_for_people_becomes_one_for_programs() {
    let text = "---\nname: \"Code Reviewer (strict)\"\ndescription: b\n---\n";
    let warning = "f:2:7: warning: name: \"Code Reviewer (strict)\" is asked for as code-reviewer-strict";
    assert_eq!(accept(claude::read, "a", text, &[warning]).name.as_str(), "code-reviewer-strict");
    let text = "---\nname: 审查\ndescription: b\n---\n";
    let warning = "f:2:7: warning: name: \"审查\" is asked for as reviewer";
    assert_eq!(accept(claude::read, "reviewer", text, &[warning]).name.as_str(), "reviewer");
    let (agent, diagnostics) = read(claude::read, "审查", text);
    assert_eq!(agent, None);
    assert!(
        diagnostics[0].starts_with("f:2:7: error: name: \"审查\" is not the name of an agent"),
        "{diagnostics:?}"
    );
}

#[test]
fn an_agent_of_cursor() {
    let text = "---\nname: verifier\ndescription: Checks finished work\nmodel: fast\nreadonly: true\nis_background: false\n---\nBe sceptical.\n";
    let warning = "f:6:16: warning: is_background is not honoured: the caller decides whether it waits";
    let agent = accept(cursor::read, "x", text, &[warning]);
    assert_eq!((agent.backend.as_str(), agent.model.as_deref()), ("cursor", Some("fast")));
    assert_eq!(agent.setup.permission.level, Some(Level::ReadOnly));
}

#[test]
fn an_agent_of_codex() {
    let text = "\
name = \"explorer\"
description = \"Follows calls through the code.\"
developer_instructions = \"\"\"
Quote files and lines.
Change nothing.
\"\"\"
nickname_candidates = [\"Atlas\"]
model = \"gpt-5.5\"
model_reasoning_effort = \"medium\"
sandbox_mode = \"workspace-write\"

[mcp_servers.docs]
url = \"https://docs.example/mcp\"
bearer_token_env_var = \"DOCS_TOKEN\"
startup_timeout_sec = 20
tool_timeout_sec = 20.5

[mcp_servers.local]
command = \"local-server\"
env_vars = [\"LOCAL_TOKEN\"]
";
    let warnings = [
        "f:7:23: warning: nickname_candidates is not honoured: a run is known by its id",
        "f:15:23: warning: mcp_servers.startup_timeout_sec is not honoured",
    ];
    let agent = accept(codex::read, "x", text, &warnings);
    assert_eq!((agent.name.as_str(), agent.backend.as_str()), ("explorer", "codex"));
    assert_eq!(agent.system_prompt, "Quote files and lines.\nChange nothing.");
    assert_eq!((agent.model.as_deref(), agent.setup.effort.as_deref()), (Some("gpt-5.5"), Some("medium")));
    assert_eq!(agent.setup.permission.level, Some(Level::SafeEdit));
    assert_eq!(agent.setup.prompt_mode, PromptMode::Append);
    let [docs, local] = agent.setup.mcp_servers.as_slice() else { panic!("{:?}", agent.setup.mcp_servers) };
    let headers = [("Authorization".to_owned(), "Bearer ${DOCS_TOKEN}".into())].into();
    assert_eq!(docs.transport, Transport::Http { url: "https://docs.example/mcp".into(), headers });
    assert_eq!(docs.timeout_ms, Some(20_500));
    assert_eq!(local.variables(), ["LOCAL_TOKEN"]);
    assert_eq!(spellings(&agent.setup.permission.allow), ["mcp__docs", "mcp__local"]);
}

#[test]
fn a_list_instead_of_codex_tool_tables_is_an_error() {
    let text = "name = \"b\"\ndescription = \"d\"\ndeveloper_instructions = \"p\"\n\
                mcp_servers.x = {command = \"c\", tools = [\"open\"]}\n";
    let (agent, diagnostics) = read(codex::read, "x", text);
    assert!(agent.is_none() && diagnostics[0].contains("expected a table for each tool"), "{diagnostics:?}");
}

/// The example of Codex' own page, with the additions of its reference.
const CODEX_SERVERS: &str = "\
name = \"browser\"
description = \"d\"
developer_instructions = \"p\"

[mcp_servers.chrome]
url = \"http://localhost:3000/mcp\"
enabled_tools = [\"open\", \"screenshot\", \"close\"]
disabled_tools = [\"screenshot\"]
default_tools_approval_mode = \"auto\"
startup_timeout_sec = 7.5
tool_timeout_sec = 45
enabled = true

[mcp_servers.chrome.tools.open]
approval_mode = \"approve\"

[mcp_servers.chrome.tools.close]
approval_mode = \"prompt\"

[mcp_servers.asking]
command = \"asking-server\"
env_vars = [\"A\", {name = \"B\", source = \"remote\"}, {name = \"C\", source = \"local\"}, {name = \"D\"}]
disabled_tools = [\"delete\"]
default_tools_approval_mode = \"prompt\"
tools.read.approval_mode = \"approve\"

[mcp_servers.off]
command = \"off-server\"
enabled = false
disabled_tools = [\"x\"]
";

#[test]
fn the_servers_of_codex_keep_their_lists_of_tools() {
    let warnings = [
        "f:10:23: warning: mcp_servers.startup_timeout_sec is not honoured",
        "f:22:18: warning: mcp_servers.env_vars.source is not honoured: only variables of this machine are handed over",
        "f:25:28: warning: mcp_servers.tools.read.approval_mode is not honoured: all tools of the server are asked about",
    ];
    let agent = accept(codex::read, "x", CODEX_SERVERS, &warnings);
    let [chrome, asking] = agent.setup.mcp_servers.as_slice() else { panic!("{:?}", agent.setup) };
    assert_eq!((&chrome.tools, chrome.timeout_ms), (&texts(&["open", "close"]), Some(45_000)));
    assert_eq!((&asking.tools, asking.variables()), (&None, vec!["A", "C", "D"]));
    let permission = &agent.setup.permission;
    assert_eq!(spellings(&permission.allow), ["mcp__chrome"]);
    assert_eq!(spellings(&permission.ask), ["mcp__chrome__close", "mcp__asking"]);
    assert_eq!(spellings(&permission.deny), ["mcp__chrome__screenshot", "mcp__asking__delete"]);
}

#[test]
fn an_allow_list_of_tools_is_never_widened_by_another_key() {
    let text = "---\nname: a\ndescription: b\nmcpServers:\n  s: {command: s, tools: [a, b], includeTools: [b, c]}\n---\n";
    let agent = accept(claude::read, "x", text, &[]);
    assert_eq!(agent.setup.mcp_servers[0].tools, texts(&["b"]));
}

#[test]
fn all_problems_of_a_codex_file_are_reported() {
    let (agent, diagnostics) = read(codex::read, "x", "name = 5\nsandbox_mode = \"open\"\nmodle = \"x\"\n");
    assert_eq!(agent, None);
    assert_eq!(
        diagnostics,
        [
            "f:1:1: error: the key developer_instructions is missing (hint: write developer_instructions = \
             \"\"\"…\"\"\")",
            "f:1:1: warning: the agent has no description (hint: callers choose an agent by its description)",
            "f:1:8: error: name: expected text, found the number 5 (hint: put it in quotes: \"5\")",
            "f:2:16: error: sandbox_mode: expected read-only or workspace-write or danger-full-access, found the text \
             \"open\"",
            "f:3:1: warning: unknown key \"modle\" is ignored (hint: did you mean model?)",
        ]
    );
}

#[test]
fn an_agent_of_gemini() {
    let text = "\
---
name: security-reader
description: Reads code for weaknesses.
kind: local
tools: [read_file, grep_search, mcp_db_*]
model: gemini-3-flash
temperature: 0.2
max_turns: 10
timeout_mins: 3
mcpServers:
  db: {httpUrl: \"http://127.0.0.1:1/mcp\", timeout: 500}
---
You read.
";
    let agent = accept(gemini::read, "x", text, &[]);
    assert!(agent.setup.temperature.is_some());
    assert_eq!((agent.backend.as_str(), agent.model.as_deref()), ("gemini", Some("gemini-3-flash")));
    assert_eq!(agent.setup.tools, texts(&["read_file", "grep_search", "mcp_db_*"]));
    assert_eq!((agent.setup.max_turns, agent.limits.timeout_ms), (Some(10), Some(180_000)));
    assert_eq!(agent.setup.mcp_servers[0].timeout_ms, Some(500));
    let remote = "---\nname: a\nkind: remote\nagent_card_url: https://x.example\n---\n";
    let expected = "f:3:7: error: kind: a remote agent cannot be run (hint: give the agent a kind: local and a system \
                    prompt)";
    assert_eq!(read(gemini::read, "a", remote), (None, vec![expected.to_owned()]));
    let several = "---\n- name: a\n  kind: remote\n- name: b\n  kind: remote\n---\n";
    let expected = "f:2:1: error: a list is for remote agents, which cannot be run (hint: give each agent that shall be \
                    run a file of its own, with kind: local and a system prompt)";
    assert_eq!(read(gemini::read, "a", several), (None, vec![expected.to_owned()]));
}

fn denied_warning(location: &str, tool: &str) -> String {
    format!(
        "f:{location}: warning: permission.{tool}: what no pattern allows is denied instead of asked for (hint: opencode \
         can ask nobody while it runs; allow what the agent may do)"
    )
}

#[test]
fn the_order_of_opencode_patterns_is_preserved_or_warned_about() {
    let permission = |patterns: &str, warnings: &[&str]| {
        let text = format!("---\ndescription: x\npermission:\n{patterns}---\n");
        accept(opencode::read, "docs", &text, warnings).setup.permission
    };
    let warning = denied_warning("5:10", "bash");
    let bash_rules = permission("  bash:\n    \"*\": ask\n    \"git diff\": allow\n", &[&warning]);
    assert_eq!(
        (bash_rules.level, spellings(&bash_rules.allow), bash_rules.ask.len()),
        (None, vec!["bash(git diff)"], 0)
    );
    let tasks = permission("  task:\n    \"*\": deny\n    \"bird-*\": allow\n", &[]);
    assert_eq!((spellings(&tasks.allow), tasks.deny.len()), (vec!["task(bird-*)"], 0));
    let last = permission("  bash:\n    \"git *\": allow\n    \"git push *\": deny\n", &[]);
    assert_eq!(
        (spellings(&last.allow), spellings(&last.deny)),
        (vec!["bash(git *)"], vec!["bash(git push *)"])
    );
    for (decision, warnings) in [("deny", vec![]), ("ask", vec![denied_warning("5:10", "edit")])] {
        let warnings: Vec<&str> = warnings.iter().map(String::as_str).collect();
        let edits =
            permission(&format!("  edit:\n    \"*\": {decision}\n    \"src/**\": allow\n"), &warnings);
        let words = (edits.level, spellings(&edits.allow), edits.ask.len() + edits.deny.len());
        assert_eq!(words, (Some(Level::ReadOnly), vec!["edit(src/**)"], 0), "{decision}");
    }
    let warning = "f:5:10: warning: permission.read: \"*\" stands before what is allowed, and still counts (hint: write what is allowed first; a denial beats it)";
    let reads = permission("  read:\n    \"*\": deny\n    \"src/**\": allow\n", &[warning]);
    assert_eq!(spellings(&reads.deny), ["read"]);
}

#[test]
fn an_opencode_tool_that_is_only_enabled_is_reported_as_denied() {
    let check = |keys: &str, warnings: &[&str]| {
        accept(opencode::read, "docs", &format!("---\ndescription: x\n{keys}---\n"), warnings)
    };
    let warning = "f:4:9: warning: tools.bash: true allows nothing by itself, so the tool is denied (hint: write permission: {bash: allow})";
    check("tools:\n  bash: true\n  read: true\n  write: true\n", &[warning]);
    check("tools:\n  bash: true\npermission:\n  bash: allow\n", &[]);
    check("tools:\n  bash: true\npermission: allow\n", &[]);
    check("tools:\n  bash: false\n", &[]);
}

/// The program itself refuses the other spelling, which is in its documentation.
#[test]
fn servers_of_gemini_are_read_as_the_program_spells_them() {
    let text = "\
---
name: a
description: b
display_name: The A
mcp_servers:
  docs: {http_url: 'https://docs.example', url: 'https://old.example', include_tools: [find], exclude_tools: [drop]}
  lines: {tcp: 'localhost:1', command: lines}
---
";
    let warnings = [
        "f:4:15: warning: display_name is not honoured: it only changes how a terminal shows the agent",
        "f:6:49: warning: mcp_servers.url is not honoured: http_url is used",
        "f:6:110: warning: mcp_servers.exclude_tools is not honoured",
        "f:7:16: warning: mcp_servers.tcp is not honoured",
    ];
    let agent = accept(gemini::read, "a", text, &warnings);
    let [docs, lines] = agent.setup.mcp_servers.as_slice() else { panic!("{:?}", agent.setup.mcp_servers) };
    assert_eq!((&docs.tools, lines.name.as_str()), (&texts(&["find"]), "lines"));
    let address = Transport::Http { url: "https://docs.example".into(), headers: [].into() };
    assert_eq!(docs.transport, address);
}

#[test]
fn every_ignored_server_or_key_of_a_server_is_reported() {
    let problems = |server: &str| {
        let text = format!("---\nname: a\ndescription: b\nmcp_servers:\n  s: {server}\n---\n");
        read(gemini::read, "a", &text).1
    };
    let program = "is not honoured: a program gets no headers";
    let address = "is not honoured: only a program gets it, and this is an address";
    for (server, expected) in [
        ("{command: []}", vec!["f:5:16: error: mcp_servers.command: there is no program in it".to_owned()]),
        (
            "{command: c, headers: {A: b}, bearer_token_env_var: T}",
            vec![
                format!("f:5:28: warning: mcp_servers.headers {program}"),
                format!("f:5:58: warning: mcp_servers.bearer_token_env_var {program}"),
            ],
        ),
        (
            "{url: 'https://x', args: [a], env: {A: b}, env_vars: [C]}",
            vec![
                format!("f:5:31: warning: mcp_servers.args {address}"),
                format!("f:5:41: warning: mcp_servers.env {address}"),
                format!("f:5:59: warning: mcp_servers.env_vars {address}"),
            ],
        ),
        (
            "{url: 'ftp://x'}",
            vec![
                "f:5:12: error: mcp_servers.url: \"ftp://x\" is no address of a server (hint: it begins with https:// or \
                 http://)"
                    .to_owned(),
            ],
        ),
        ("{url: '${ADDRESS}/mcp'}", vec![]),
    ] {
        assert_eq!(problems(server), expected, "{server}");
    }
}

#[test]
fn a_description_of_the_wrong_type_is_reported_once() {
    let (agent, diagnostics) = read(claude::read, "a", "---\nname: a\ndescription: 42\n---\nx\n");
    assert_eq!((agent, diagnostics.len()), (None, 1), "{diagnostics:?}");
}

#[test]
fn later_opencode_entries_override_an_entry_for_all_tools() {
    let resolved = |keys: &str, warnings: &[&str]| {
        let text = format!("---\ndescription: x\n{keys}---\n");
        let Permission { level, allow, ask, deny } =
            accept(opencode::read, "docs", &text, warnings).setup.permission;
        let words = [allow, ask, deny].map(|rules| spellings(&rules).join(" "));
        (level, words)
    };
    let words = |allow: &str, ask: &str, deny: &str| [allow, ask, deny].map(ToOwned::to_owned);
    let notes = "codesearch todowrite skill lsp";
    assert_eq!(
        resolved("permission:\n  \"*\": ask\n  bash: allow\n  edit: deny\n", &[]),
        (None, words("bash", "read grep webfetch websearch codesearch task todowrite skill lsp", "edit"))
    );
    let one = "f:5:9: warning: permission: list is decided as read is: both are one tool here";
    assert_eq!(
        resolved("permission:\n  \"*\": deny\n  read: allow\n", &[one]),
        (Some(Level::ReadOnly), words("read", "", &format!("grep {notes}")))
    );
    let one = "f:5:9: warning: tools: list is decided as read is: both are one tool here";
    assert_eq!(
        resolved("tools:\n  \"*\": false\n  read: true\n  write: true\n", &[one]),
        (Some(Level::ReadOnly), words("read edit", "", &format!("grep {notes}")))
    );
    assert_eq!(
        resolved(
            "permission:\n  \"*\": deny\n  edit: {\"src/**\": allow}\n  bash: {\"*\": deny, \"git *\": allow}\n",
            &[]
        ),
        (Some(Level::ReadOnly), words("edit(src/**) bash(git *)", "", &format!("read grep {notes}")))
    );
    assert_eq!(
        resolved("permission:\n  bash: deny\n  \"*\": allow\n  edit: ask\n", &[]),
        (None, words("*", "edit", "")),
        "what stands before is overruled"
    );
    assert_eq!(
        resolved(
            "permission:\n  \"*\": allow\n  bash: {\"*\": ask, \"git *\": allow}\n",
            &[&denied_warning("5:15", "bash")]
        )
        .1[1..],
        ["", ""].map(ToOwned::to_owned),
        "what is to be asked about is not allowed with the rest"
    );
    assert_eq!(
        resolved("permission:\n  \"web*\": deny\n  websearch: allow\n  \"own_*\": deny\n", &[]),
        (None, words("websearch", "", "webfetch own_*"))
    );
    assert_eq!(resolved("permission: deny\n", &[]), (None, words("", "", "*")));
    assert_eq!(resolved("permission: {\"*\": deny}\n", &[]), (None, words("", "", "*")));
    assert_eq!(resolved("tools: {\"*\": true, bash: false}\n", &[]), (None, words("", "", "bash")));
    let edits = resolved(
        "permission:\n  \"*\": ask\n  edit: {\"src/**\": allow}\n",
        &[&denied_warning("4:8", "edit")],
    );
    assert_eq!(edits.0, Some(Level::ReadOnly), "what is not asked for is denied");
    assert_eq!(edits.1[0], "edit(src/**)");
}

#[test]
fn an_agent_of_opencode() {
    let text = "\
---
description: Writes documentation
mode: subagent
model: anthropic/claude-sonnet-4-5
temperature: 0.1
steps: 5
tools:
  write: false
  read: true
permission:
  edit: deny
  webfetch: ask
  bash:
    \"*\": deny
    \"git log *\": allow
color: \"#ff0000\"
---
You write.
";
    let warnings = ["f:16:8: warning: color is not honoured: it only changes how a terminal shows the agent"];
    let agent = accept(opencode::read, "docs", text, &warnings);
    assert_eq!((agent.name.as_str(), agent.backend.as_str()), ("docs", "opencode"));
    assert!(agent.setup.temperature.is_some());
    assert_eq!((agent.setup.max_turns, agent.setup.vendor_agent), (Some(5), None));
    let permission = agent.setup.permission;
    assert_eq!(spellings(&permission.allow), ["bash(git log *)"]);
    assert_eq!(spellings(&permission.ask), ["webfetch"]);
    assert_eq!(spellings(&permission.deny), ["edit"], "the newer key has the last word");
    assert_eq!(permission.level, Some(Level::SafeEdit), "what is not allowed stays denied");
    let direct = accept(opencode::read, "docs", "---\ndescription: x\nmode: primary\n---\n", &[]);
    assert_eq!(direct.setup.vendor_agent.as_deref(), Some("docs"));
    assert_eq!(read(opencode::read, "docs", "---\ndescription: x\ndisable: true\n---\n"), (None, Vec::new()));
}

#[test]
fn an_agent_of_copilot() {
    let text = "\
---
name: Readme Writer
description: Writes readmes
target: github-copilot
tools: ['read', 'edit', 'docs/search']
model: [gpt-5, claude-sonnet-4.5]
infer: false
mcp-servers:
  docs:
    type: local
    command: docs-server
    tools: [search]
    env: {KEY: \"${{ secrets.DOCS_KEY }}\"}
metadata: {team: docs}
---
You write.
";
    let warnings = [
        "f:6:8: warning: model: only the first of the list is used",
        "f:7:8: warning: infer is not honoured: whoever lists agents may also ask for them",
        "f:14:11: warning: metadata is not honoured: nothing reads it",
    ];
    let agent = accept(copilot::read, "readme-writer.agent", text, &warnings);
    assert_eq!((agent.name.as_str(), agent.backend.as_str()), ("readme-writer", "copilot"));
    assert_eq!(
        (agent.model.as_deref(), agent.setup.vendor_agent.as_deref()),
        (Some("gpt-5"), Some("readme-writer"))
    );
    assert_eq!(agent.setup.tools, texts(&["read", "edit", "docs/search"]));
    assert_eq!(agent.setup.mcp_servers[0].variables(), ["DOCS_KEY"]);
    let for_editor = "---\ndescription: x\ntarget: vscode\n---\n";
    let left_out = "f:3:9: warning: target: the agent is meant for vscode alone, so it is left out";
    assert_eq!(read(copilot::read, "a", for_editor), (None, vec![left_out.to_owned()]));
    let all = accept(copilot::read, "a", "---\ndescription: x\ntools: ['*']\n---\n", &[]);
    assert_eq!(all.setup.tools, None);
}

/// The three spellings of GitHub's reference, each within a longer text.
#[test]
fn variables_of_copilot_are_found_within_longer_texts() {
    let text = "\
---
description: d
mcp-servers:
  remote:
    type: http
    url: \"https://$COPILOT_MCP_HOST/mcp\"
    headers:
      Authorization: \"Bearer $COPILOT_MCP_KEY\"
      X: \"Bearer ${{ secrets.COPILOT_MCP_T }}, ${{vars.COPILOT_MCP_U}}\"
      Y: \"Bearer ${COPILOT_MCP_Y}\"
      Z: \"costs $5 or $PRICE, ${{ a b }} {x} ${env:E}{env:F} $\"
  local:
    command: s
    args: [\"https://u:$COPILOT_MCP_A@h/\", $WHOLE, a$WHOLE]
---
";
    let agent = accept(copilot::read, "a", text, &[]);
    let [remote, local] = agent.setup.mcp_servers.as_slice() else { panic!("{:?}", agent.setup.mcp_servers) };
    let Transport::Http { url, headers } = &remote.transport else { panic!("{remote:?}") };
    let headers: Vec<(&str, &str)> =
        headers.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    assert_eq!(url.as_str(), "https://${COPILOT_MCP_HOST}/mcp");
    assert_eq!(
        headers,
        [
            ("Authorization", "Bearer ${COPILOT_MCP_KEY}"),
            ("X", "Bearer ${COPILOT_MCP_T}, ${COPILOT_MCP_U}"),
            ("Y", "Bearer ${COPILOT_MCP_Y}"),
            ("Z", "costs $5 or $PRICE, ${{ a b }} {x} ${E}${F} $"),
        ]
    );
    let Transport::Stdio { args, .. } = &local.transport else { panic!("{local:?}") };
    let args: Vec<&str> = args.iter().map(|text| text.as_str()).collect();
    assert_eq!(args, ["https://u:${COPILOT_MCP_A}@h/", "${WHOLE}", "a$WHOLE"]);
}

#[test]
fn a_file_of_copilot_with_a_name_for_people_gets_one_for_programs() {
    let warning = "f:2:1: warning: name: \"My Agent\" is asked for as my-agent";
    let agent = accept(copilot::read, "My Agent.agent", "---\ndescription: d\n---\n", &[warning]);
    assert_eq!((agent.name.as_str(), agent.setup.vendor_agent.as_deref()), ("my-agent", Some("My Agent")));
}

#[test]
fn a_name_in_a_file_of_opencode_counts() {
    let named = accept(opencode::read, "orch", "---\nname: other\ndescription: d\n---\n", &[]);
    assert_eq!(named.name.as_str(), "other");
}

#[test]
fn the_type_of_a_server_is_held_to() {
    let with = |server: &str| {
        let text = format!("---\nname: a\ndescription: d\nmcpServers:\n  s: {server}\n---\n");
        let (agent, diagnostics) = read(claude::read, "a", &text);
        (agent.map(|agent| agent.setup.mcp_servers.len()), diagnostics)
    };
    for sound in ["{type: stdio, command: s}", "{type: streamable-http, url: 'https://x'}", "{command: s}"] {
        assert_eq!(with(sound), (Some(1), Vec::new()), "{sound}");
    }
    let socket = "f:5:13: warning: mcpServers.type: a web socket is not supported, so the server is left out";
    assert_eq!(with("{type: ws, url: 'wss://x'}"), (Some(0), vec![socket.to_owned()]));
    for (wrong, expected) in [
        ("{type: stdio, url: 'https://x'}", "f:5:13: error: mcpServers.type: a program has no url"),
        ("{type: sse, command: s}", "f:5:13: error: mcpServers.type: a server with a command is a program"),
        (
            "{type: htpp, url: 'https://x'}",
            "f:5:13: error: mcpServers.type: expected stdio or http or sse or",
        ),
    ] {
        let (agent, diagnostics) = with(wrong);
        assert!(
            agent.is_none() && diagnostics.len() == 1 && diagnostics[0].starts_with(expected),
            "{wrong}: {diagnostics:?}"
        );
    }
}
