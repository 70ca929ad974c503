//! The formats of the systems that Volery replaces, each with a file in the form of its documentation.

use domain::agent::{Agent, AgentFormat, AgentInput, Callers, Layer};
use domain::mcp_server::Transport;
use domain::permission::Level;
use domain::setup::AnswerChannel;
use domain::setup::{OutputFormat, PromptMode, ResponseFile};

use crate::agent_formats::{AgentFile, directive, dot_agents, executables, jarvis, kiro, plain};

fn file<'a>(text: &'a str, file: &'a str, stem: &'a str) -> AgentFile<'a> {
    AgentFile { text, file, stem, layer: Layer::Project }
}

type ReadResult = (Option<Agent>, Vec<domain::diagnostic::Diagnostic>);

#[track_caller]
fn accept((agent, diagnostics): ReadResult) -> (Agent, Vec<String>) {
    let diagnostics: Vec<String> = diagnostics.iter().map(ToString::to_string).collect();
    (agent.unwrap_or_else(|| panic!("refused: {diagnostics:#?}")), diagnostics)
}

#[track_caller]
fn refuse((agent, diagnostics): ReadResult, expected: &[&str]) {
    let diagnostics: Vec<String> = diagnostics.iter().map(ToString::to_string).collect();
    assert_eq!(diagnostics, expected);
    assert_eq!(agent, None);
}

fn spellings(rules: &[domain::permission::Rule]) -> Vec<&str> {
    rules.iter().map(domain::permission::Rule::spelling).collect()
}

#[test]
fn a_plain_file_is_its_system_prompt_and_described_by_its_first_heading() {
    let text = "Some words first.\n\n# Test writer\n\nYou write tests that can fail.\n";
    let defaults = plain::PlainDefaults { level: Some(Level::SafeEdit), ..plain::PlainDefaults::default() };
    let (agent, diagnostics) = accept(plain::read(file(text, "a/test-writer.md", "test-writer"), &defaults));
    assert_eq!(diagnostics, Vec::<String>::new());
    assert_eq!((agent.name.as_str(), agent.backend.as_str()), ("test-writer", "cursor"));
    assert_eq!(agent.description, "Test writer");
    assert_eq!(agent.system_prompt, text.trim());
    assert_eq!(agent.setup.permission.level, Some(Level::SafeEdit));
    assert_eq!(agent.source.format, AgentFormat::Plain);
}

#[test]
fn a_plain_file_without_a_heading_is_described_by_its_first_line() {
    let defaults = plain::PlainDefaults::default();
    let text = "\nYou answer in verse.\nOne # sign is no heading\n#\n";
    let (agent, _) = accept(plain::read(file(text, "poet.txt", "poet"), &defaults));
    assert_eq!(agent.description, "You answer in verse.");
    let (agent, _) = accept(plain::read(file("Words\n#Title\n", "poet.txt", "poet"), &defaults));
    assert_eq!(agent.description, "Title", "as sub-agents-mcp has it");
    // Such a file has no frontmatter: it is text like any other.
    let (agent, _) = accept(plain::read(file("---\na: 1\n---\nx", "poet.txt", "poet"), &defaults));
    assert_eq!(agent.system_prompt, "---\na: 1\n---\nx");
    let empty = plain::read(file(" \n", "poet.txt", "poet"), &defaults);
    refuse(empty, &["poet.txt:1:1: error: the file is empty, so the agent has no system prompt"]);
}

#[test]
fn names_of_sub_agents_mcp_are_names_here() {
    let defaults = plain::PlainDefaults::default();
    for name in ["_x", "a_B-9", &"n".repeat(100)] {
        let (agent, _) = accept(plain::read(file("# Text", "f.md", name), &defaults));
        assert_eq!(agent.name.as_str(), name);
    }
    for name in ["-x", ".x", "", &"n".repeat(101)] {
        assert_eq!(plain::read(file("# Text", "f.md", name), &defaults).0, None, "{name}");
    }
}

#[test]
fn the_frontmatter_of_dot_agents_names_the_program() {
    let text = "---\nrun-agent: codex\nmodel: gpt-5.5\neffort: high\npermission: read-only\n---\n\n# Reviewer\n\nLook for bugs.\n";
    let defaults = plain::PlainDefaults::default();
    let (agent, diagnostics) =
        accept(dot_agents::read(file(text, ".agents/reviewer.md", "reviewer"), &defaults));
    assert_eq!(diagnostics, Vec::<String>::new());
    assert_eq!((agent.backend.as_str(), agent.model.as_deref()), ("codex", Some("gpt-5.5")));
    assert_eq!(agent.setup.effort.as_deref(), Some("high"));
    assert_eq!(agent.setup.permission.level, Some(Level::ReadOnly));
    assert_eq!((agent.description.as_str(), agent.source.format), ("Reviewer", AgentFormat::DotAgents));
}

#[test]
fn all_problems_of_dot_agents_are_reported() {
    let text = "---\nrun-agent: [codex]\npermision: yolo\npermission: root\n---\nx\n";
    let defaults = plain::PlainDefaults::default();
    refuse(
        dot_agents::read(file(text, "a.md", "a"), &defaults),
        &[
            "a.md:2:12: error: run-agent: expected text, found a list",
            "a.md:3:1: warning: unknown key \"permision\" is ignored (hint: did you mean permission?)",
            "a.md:4:13: error: permission: expected read-only or safe-edit or yolo, found the text \"root\"",
        ],
    );
}

const JARVIS: &str = "\
---
name: mail
description: \"Reads and sorts mail\"
session: true
allowed_callers: [main, planner]
timeout_ms: 45000
model: sonnet
permissions:
  allow: [\"Bash(mail:*)\", \"Bash(grep:*)\", Read, mcp__box__list]
  deny: [\"Bash(rm:*)\"]
mcp_servers:
  - name: box
    command: npx
    args: [\"-y\", mailbox-server]
    env:
      BOX_TOKEN: \"${BOX_TOKEN}\"
output_format: json
output_schema:
  type: object
  required: [letters]
---

You sort mail.
";

#[test]
fn jarvis_agents_have_the_tools_that_their_rules_name_and_the_files_of_their_folder() {
    let skills = ["Skill one.\n".to_owned(), "Skill two.".to_owned()];
    let folder =
        jarvis::AgentFolder { folder: "/p/agents/mail", memory: Some("Remembers.\n"), skills: &skills };
    let (agent, diagnostics) = accept(jarvis::read(file(JARVIS, "agents/mail/agent.md", "mail"), folder));
    assert_eq!(diagnostics, Vec::<String>::new());
    assert_eq!((agent.name.as_str(), agent.backend.as_str()), ("mail", "claude"));
    assert_eq!(agent.system_prompt, "You sort mail.\n\nSkill one.\n\nSkill two.\n\nRemembers.");
    assert_eq!(agent.callers, Callers::Only(vec!["main".to_owned(), "planner".to_owned()]));
    assert_eq!((agent.limits.timeout_ms, agent.model.as_deref()), (Some(45_000), Some("sonnet")));
    let setup = &agent.setup;
    assert!(setup.keeps_session);
    assert_eq!(setup.prompt_mode, PromptMode::Replace);
    let tools = ["Bash", "Read", "mcp__box"].map(ToOwned::to_owned).to_vec();
    assert_eq!(setup.tools, Some(tools));
    let allowed = spellings(&setup.permission.allow);
    assert_eq!(allowed, ["Bash(mail:*)", "Bash(grep:*)", "Read", "mcp__box__list"]);
    assert_eq!(spellings(&setup.permission.deny), ["Bash(rm:*)"]);
    assert_eq!(setup.mcp_servers[0].variables(), ["BOX_TOKEN"]);
    assert_eq!(setup.extra_directories, ["/p/agents/mail"]);
    assert_eq!(setup.output_format, OutputFormat::Json);
    assert_eq!(setup.output_schema.as_ref().unwrap()["required"][0], "letters");
    let line =
        r#"agent mail, MCP server box: ["npx", "-y", "mailbox-server"] with ["BOX_TOKEN=${BOX_TOKEN}"]"#;
    assert_eq!(executables(&agent), format!("{line}\n"));
}

/// Differs from jarvis: a server that an agent's file names, with rules on other tools only | Claude Code denies its tools | its
///    tools are allowed, unless a rule denies them
#[test]
fn a_server_that_an_agent_of_jarvis_names_is_allowed_unless_a_rule_says_otherwise() {
    let allowed = |rules: &str| {
        let server = "mcp_servers:\n  - name: brave-search\n    command: npx\n";
        let text = format!("---\nname: a\ndescription: b\npermissions:\n{rules}{server}---\nx\n");
        let file = file(&text, "agents/a/agent.md", "a");
        let (agent, diagnostics) = accept(jarvis::read(file, jarvis::AgentFolder::default()));
        let rules: Vec<String> = agent.setup.permission.allow.iter().map(ToString::to_string).collect();
        (rules, diagnostics)
    };
    let (rules, diagnostics) = allowed("  allow: [\"Bash(curl:*)\"]\n");
    assert_eq!(
        (rules, diagnostics.len()),
        (vec!["Bash(curl:*)".to_owned(), "mcp__brave-search".to_owned()], 0)
    );
    let single = "  allow: [mcp__brave-search__web]\n";
    assert_eq!(allowed(single).0, ["mcp__brave-search__web"], "a rule on one tool says how far");
    let (_, diagnostics) = allowed("  deny: [mcp__brave-search]\n");
    assert_eq!(diagnostics.len(), 1, "{diagnostics:?}");
    assert!(diagnostics[0].contains("brave-search is denied by a rule"), "{diagnostics:?}");
}

#[test]
fn jarvis_has_defaults_of_its_own() {
    let text = "---\nname: a\ndescription: b\n---\nx\n";
    let (agent, _) =
        accept(jarvis::read(file(text, "agents/a/agent.md", "a"), jarvis::AgentFolder::default()));
    assert_eq!(agent.callers, Callers::Only(vec!["main".to_owned()]));
    assert_eq!((agent.limits.timeout_ms, agent.setup.tools), (Some(120_000), Some(Vec::new())));
    refuse(
        jarvis::read(
            file("---\nname: a\nsession: maybe\n---\n", "a.md", "a"),
            jarvis::AgentFolder::default(),
        ),
        &[
            "a.md:2:1: error: the key description is missing (hint: callers choose an agent by its description)",
            "a.md:3:10: error: session: expected true or false, found the text \"maybe\"",
        ],
    );
}

const KIRO: &str = "{
\t\"$schema\": \"https://example.org/agent-v1.json\",
\t\"name\": \"checker\",
\t\"description\": \"Sub-Agent: Checks what others did\",
\t\"prompt\": \"You check.\",
\t\"model\": \"claude-sonnet-4\",
\t\"tools\": [\"fs_read\", \"fs_write\", \"@git\"],
\t\"allowedTools\": [\"fs_read\", \"fs_write\", \"@git/log\"],
\t\"toolsSettings\": {\"fs_write\": {\"allowedPaths\": [\"out/**\"]}},
\t\"resources\": [\"file://README.md\"],
\t\"mcpServers\": {\"git\": {\"command\": \"git-server\", \"args\": [], \"timeout\": 5000}},
\t\"hooks\": {\"agentSpawn\": [{\"command\": \"git status\"}]},
\t\"useLegacyMcpJson\": false
}
";

#[test]
fn kiro_agents_are_described_by_their_prompt_file_and_answer_into_a_file() {
    let prompt = "---\nname: checker\ndescription: Checks twice\ncapabilities:\n  - Reading diffs\nuse_when:\n  - a change is done\navoid_when: [nothing changed]\ntools: [fs_read, execute_bash]\nmodel: claude-haiku-4.5\ntags: [review]\n---\n\n# Checker\n";
    let sidecars = kiro::SidecarFiles {
        prompt: Some((prompt, "prompts/checker.md")),
        system_template: Some("Write to {{RESPONSE_FILE}}.\n"),
        sub_agents_only: true,
        summary_template: Some("Again, to {{RESPONSE_FILE}}."),
    };
    let (agent, diagnostics) = accept(kiro::read(file(KIRO, "agents/checker.json", "checker"), sidecars));
    assert_eq!(
        diagnostics,
        [
            "prompts/checker.md:9:8: warning: tools: execute_bash is not among the agent's allowedTools, which decide",
        ]
    );
    assert_eq!((agent.name.as_str(), agent.backend.as_str()), ("checker", "kiro"));
    assert_eq!(
        (agent.description.as_str(), agent.model.as_deref()),
        ("Checks twice", Some("claude-haiku-4.5"))
    );
    assert_eq!((agent.capabilities.len(), agent.use_when.len(), agent.avoid_when.len()), (1, 1, 1));
    assert_eq!(agent.tags, ["review"]);
    assert_eq!(agent.setup.vendor_agent.as_deref(), Some("checker"));
    assert_eq!(spellings(&agent.setup.permission.allow), ["fs_read", "fs_write", "@git/log"]);
    let response = ResponseFile {
        template: "Write to {{RESPONSE_FILE}}.".to_owned(),
        summary_template: Some("Again, to {{RESPONSE_FILE}}.".to_owned()),
    };
    assert_eq!(agent.setup.response_file, Some(response));
    let lines = "agent checker, MCP server git: [\"git-server\"]\nagent checker, hook: [\"git status\"]\n";
    assert_eq!(executables(&agent), lines);
}

#[test]
fn every_kiro_file_is_an_agent_except_where_only_sub_agents_count() {
    let sub_agents = kiro::SidecarFiles { sub_agents_only: true, ..kiro::SidecarFiles::default() };
    let template = Some("{{RESPONSE_FILE}}");
    let native = kiro::SidecarFiles { system_template: template, ..kiro::SidecarFiles::default() };
    for text in [
        r#"{"name": "a", "description": "Mine alone"}"#,
        r#"{"name": "a"}"#,
        r#"{"name": "orchestrator", "description": "sub-agent: Asks the others"}"#,
    ] {
        assert_eq!(kiro::read(file(text, "a.json", "a"), sub_agents), (None, Vec::new()), "{text}");
        let (agent, diagnostics) = kiro::read(file(text, "a.json", "a"), native);
        let agent = agent.unwrap();
        assert_eq!(
            (agent.setup.response_file, diagnostics),
            (None, Vec::new()),
            "budgie's templates: {text}"
        );
        assert!(!agent.description.starts_with("sub-agent:"), "{text}");
    }
}

#[test]
fn a_kiro_agent_that_may_not_write_answers_by_a_tool() {
    let text = r#"{"description": "sub-agent: Looks", "allowedTools": ["fs_read"]}"#;
    let sidecars =
        kiro::SidecarFiles { system_template: Some("{{RESPONSE_FILE}}"), ..kiro::SidecarFiles::default() };
    let (agent, diagnostics) = accept(kiro::read(file(text, "looker.json", "looker"), sidecars));
    assert_eq!((agent.name.as_str(), agent.setup.answer_channel()), ("looker", AnswerChannel::SubmitResult));
    let expected = "looker.json:1:1: warning: allowedTools has no fs_write, so the agent answers by the tool \
                    submit_result and not into a file";
    assert_eq!(diagnostics, [expected]);
    // A tool that is not offered cannot be used, even if it needs no approval.
    for (tools, answers_by) in [
        (r#"["fs_read"]"#, AnswerChannel::SubmitResult),
        ("[]", AnswerChannel::SubmitResult),
        (r#"["fs_read", "write"]"#, AnswerChannel::File),
        (r#"["@builtin"]"#, AnswerChannel::File),
        (r#"["*"]"#, AnswerChannel::File),
    ] {
        let text =
            format!(r#"{{"description": "sub-agent: d", "tools": {tools}, "allowedTools": ["fs_write"]}}"#);
        let (agent, diagnostics) = accept(kiro::read(file(&text, "looker.json", "looker"), sidecars));
        assert_eq!(agent.setup.answer_channel(), answers_by, "{tools}");
        let expected_warning = expected.replace("allowedTools", "tools");
        assert_eq!(
            diagnostics,
            if answers_by == AnswerChannel::File { Vec::new() } else { vec![expected_warning] },
            "{tools}"
        );
    }
}

#[test]
fn a_kiro_wildcard_becomes_the_names_of_its_tools() {
    let allowed = |tools: &str, warnings: &[&str]| {
        let text = format!(r#"{{"description": "sub-agent: d", "allowedTools": {tools}}}"#);
        let sidecars = kiro::SidecarFiles {
            system_template: Some("{{RESPONSE_FILE}}"),
            ..kiro::SidecarFiles::default()
        };
        let (agent, diagnostics) = accept(kiro::read(file(&text, "k.json", "k"), sidecars));
        assert_eq!(diagnostics, warnings, "{tools}");
        let setup = agent.setup;
        (spellings(&setup.permission.allow).join(" "), setup.answer_channel())
    };
    let own = "fs_read fs_write execute_bash use_aws knowledge introspect report_issue thinking todo_list";
    assert_eq!(allowed(r#"["@builtin", "@git/*"]"#, &[]), (format!("{own} @git/*"), AnswerChannel::File));
    assert_eq!(allowed(r#"["fs_*"]"#, &[]), ("fs_read fs_write".to_owned(), AnswerChannel::File));
    assert_eq!(allowed(r#"["*_write", "r?ad"]"#, &[]), ("fs_write read".to_owned(), AnswerChannel::File));
    let no_file = "k.json:1:1: warning: allowedTools has no fs_write, so the agent answers by the tool submit_result and \
                   not into a file";
    let all = "k.json:1:49: warning: allowedTools: \"*\" is not honoured: Kiro knows no word for every tool (hint: write \
               @builtin, and @SERVER for each server)";
    assert_eq!(
        allowed(r#"["*", "fs_read"]"#, &[no_file, all]),
        ("fs_read".to_owned(), AnswerChannel::SubmitResult)
    );
    let none = "k.json:1:49: warning: allowedTools: \"x_*\" matches no tool of Kiro's";
    assert_eq!(allowed(r#"["x_*"]"#, &[no_file, none]), (String::new(), AnswerChannel::SubmitResult));
}

#[test]
fn keys_that_kiro_reads_itself_are_left_to_it() {
    let text = r#"{"description": "sub-agent: d", "permissions": {}, "excludedTools": ["shell"], "includePowers": true}"#;
    let (_, diagnostics) = accept(kiro::read(file(text, "k.json", "k"), kiro::SidecarFiles::default()));
    assert_eq!(diagnostics, Vec::<String>::new());
}

#[test]
fn broken_json_has_a_location() {
    let sidecars = kiro::SidecarFiles::default();
    let wrong =
        |text: &str, expected: &str| refuse(kiro::read(file(text, "a.json", "a"), sidecars), &[expected]);
    wrong(
        "{\n  \"name\": \"a\",\n}",
        "a.json:2:14: error: not valid JSON: a comma after the last item is not allowed",
    );
    wrong("{\"a\": tru}", "a.json:1:7: error: not valid JSON: a value was expected");
    wrong(
        "{\"a\": \"x\n\"}",
        "a.json:1:7: error: not valid JSON: the text has an invalid escape or a control character",
    );
    wrong("[1, 2", "a.json:1:6: error: not valid JSON: the closing bracket was expected");
    wrong("", "a.json:1:1: error: not valid JSON: expected a value, found the end of the file");
    wrong("[]", "a.json:1:1: error: the file: expected keys with values, found a list");
}

const DIRECTIVE: &str = "\
<!-- kiwi-mcp:validated:2026-01-20T10:00:00Z:0123456789ab -->
# Ship a feature

```xml
<directive name=\"ship\" version=\"1.2.0\">
  <metadata>
    <description>Ships a feature
      to its users</description>
    <category>release</category>
    <model tier=\"general\" id=\"claude-sonnet-4\"/>
    <permissions>
      <read resource=\"filesystem\" path=\"src/**\"/>
      <execute resource=\"shell\" command=\"git\"/>
    </permissions>
  </metadata>
  <context>Vec<T> && a < b, and <b>this</b></context>
  <inputs>
    <input name=\"branch\" type=\"string\" required=\"true\">The branch &amp; its name</input>
    <input name=\"dry_run\" type=\"boolean\" default=\"false\"/>
  </inputs>
  <process>
    <step name=\"build\"><action><![CDATA[make && test 1 < 2]]></action></step>
  </process>
</directive>
```
";

#[test]
fn a_directive_is_listed_with_its_inputs() {
    let (agent, diagnostics) = accept(directive::read(file(DIRECTIVE, "ship.md", "ship")));
    assert_eq!(diagnostics, ["ship.md:1:1: warning: the signature is not verified"]);
    assert_eq!((agent.name.as_str(), agent.backend.as_str()), ("ship", "loop"));
    assert_eq!(agent.description, "Ships a feature to its users");
    assert_eq!(
        (agent.model.as_deref(), agent.tags.as_slice()),
        (Some("claude-sonnet-4"), &["release".to_owned()][..])
    );
    let input = |name: &str, kind: &str| AgentInput {
        name: name.to_owned(),
        kind: kind.to_owned(),
        required: false,
        default: None,
        description: String::new(),
    };
    let branch = AgentInput {
        required: true,
        description: "The branch & its name".to_owned(),
        ..input("branch", "string")
    };
    let dry_run = AgentInput { default: Some("false".to_owned()), ..input("dry_run", "boolean") };
    assert_eq!(agent.inputs, [branch, dry_run]);
    assert!(
        agent.system_prompt.starts_with("# Ship a feature") && agent.system_prompt.ends_with("</process>")
    );
    assert!(directive::is_directive(DIRECTIVE));
    assert!(!directive::is_directive("# About <directives>\n"));
}

#[test]
fn unreadable_attributes_of_a_tag_are_reported() {
    let inputs = |inputs: &str| {
        let at = DIRECTIVE.find("<inputs>").unwrap() + "<inputs>".len();
        let text = format!("{}{inputs}{}", &DIRECTIVE[..at], &DIRECTIVE[at..]);
        let (agent, diagnostics) = directive::read(file(&text, "ship.md", "ship"));
        // The first one is about the signature.
        let diagnostics: Vec<String> = diagnostics
            .iter()
            .skip(1)
            .map(|diagnostics| diagnostics.to_string().split(": ").skip(1).collect::<Vec<_>>().join(": "))
            .collect();
        (agent.map(|agent| agent.inputs.into_iter().next().unwrap()), diagnostics)
    };
    let (agent, diagnostics) = inputs("<input name=\"a\" required=\"True\" type=\"integer\">x</input>");
    let agent = agent.unwrap_or_else(|| panic!("{diagnostics:?}"));
    assert_eq!((agent.required, agent.kind.as_str(), diagnostics.len()), (true, "integer", 0));
    for (input, expected_warning) in [
        (
            "<input name=\"a\" required=true type=\"integer\">x</input>",
            "error: <input>: \"required=true\" is no attribute (hint: write each as name=\"value\")",
        ),
        (
            "<input name=\"a\" required type=\"integer\">x</input>",
            "error: <input>: \"required\" is no attribute (hint: write each as name=\"value\")",
        ),
        (
            "<input name=\"a\" required=\"yes\">x</input>",
            "error: the input a: required=\"yes\" is neither true nor false (hint: write required=\"true\")",
        ),
    ] {
        assert_eq!(inputs(input), (None, vec![expected_warning.to_owned()]), "{input}");
    }
}

#[test]
fn all_problems_of_a_jarvis_agent_are_reported_at_once() {
    let text = "---\nname: a\ndescription: [1, 2]\ntimeout_ms: soon\nsesion: true\npermissions: {allow: ['Bash(']}\n---\nx\n";
    let (agent, diagnostics) = jarvis::read(file(text, "a.md", "a"), jarvis::AgentFolder::default());
    let locations: Vec<String> = diagnostics
        .iter()
        .map(|diagnostics| diagnostics.to_string().split(": ").next().unwrap().to_owned())
        .collect();
    assert_eq!(
        (agent, locations.join(" ").as_str()),
        (None, "a.md:3:14 a.md:4:13 a.md:5:1 a.md:6:23"),
        "{diagnostics:?}"
    );
}

#[test]
fn servers_are_reached_as_each_vendor_writes_it() {
    let text = "---\nname: a\ndescription: b\nmcp_servers:\n  one: {type: sse, url: 'https://x.example', headers: {X-Key: $X_KEY}}\n  two: {command: [node, s.js], environment: {A_TOKEN: '{env:A_TOKEN}'}, disabled: true}\n  three: {command: s, env: {B_TOKEN: '${{ secrets.B_TOKEN }}'}, tools: ['*']}\n---\n";
    let (agent, diagnostics) = accept(jarvis::read(file(text, "a.md", "a"), jarvis::AgentFolder::default()));
    assert_eq!(diagnostics, Vec::<String>::new());
    let [one, three] = agent.setup.mcp_servers.as_slice() else { panic!("{:?}", agent.setup.mcp_servers) };
    let headers = [("X-Key".to_owned(), "${X_KEY}".into())].into();
    assert_eq!(one.transport, Transport::Sse { url: "https://x.example".into(), headers });
    let env = [("B_TOKEN".to_owned(), "${B_TOKEN}".into())].into();
    assert_eq!(three.transport, Transport::Stdio { command: "s".to_owned(), args: Vec::new(), env });
    assert_eq!(three.tools, None);
}
