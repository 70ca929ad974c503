//! Volery's own format, and its diagnostics.

mod declared_name;
mod formats;
mod key_location;
mod size_bounds;
mod vendors;

use domain::agent::{
    Agent, AgentFormat, AgentInput, AgentSource, Callers, Delegates, Layer, RehearsalScript, RehearsalStep,
    ScriptSource,
};
use domain::budget::RequestedLimits;
use domain::mcp_server::{McpServer, Transport};
use domain::permission::{Level, Permission, Rule, Unenforceable};
use domain::run::{ContainmentDemand, OnDisconnect, OnInterrupt};
use domain::setup::{
    Context, Fallback, Isolation, OutputFormat, PromptMode, ResponseFile, Setup, Temperature,
};

use super::AgentFile;
use super::volery::read;

fn file(text: &str) -> AgentFile<'_> {
    AgentFile { text, file: "shout.md", stem: "shout", layer: Layer::Project }
}

/// Reads a file that has an agent, and returns it with its warnings.
#[track_caller]
fn accept(text: &str) -> (Agent, Vec<String>) {
    let (agent, diagnostics) = read(file(text));
    let diagnostics: Vec<String> = diagnostics.iter().map(ToString::to_string).collect();
    (agent.unwrap_or_else(|| panic!("refused: {diagnostics:#?}")), diagnostics)
}

/// Reads a file with problems and compares all of them.
#[track_caller]
fn refuse(text: &str, expected: &[&str]) {
    let (agent, diagnostics) = read(file(text));
    let diagnostics: Vec<String> = diagnostics.iter().map(ToString::to_string).collect();
    assert_eq!(diagnostics, expected);
    assert_eq!(agent, None);
}

fn minimal() -> Agent {
    let source =
        AgentSource { file: "shout.md".to_owned(), format: AgentFormat::Volery, layer: Layer::Project };
    let agent = Agent::new("shout".parse().unwrap(), "upper".parse().unwrap(), source);
    Agent { description: "Turns text into capitals.".to_owned(), ..agent }
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn the_example_of_the_readme_is_read() {
    let text = "---\nname: shout\ndescription: Turns text into capitals.\nbackend: upper\ntimeout: 30s\n---\n\
                System prompt here.\n";
    let limits = RequestedLimits { timeout_ms: Some(30_000), ..RequestedLimits::default() };
    let expected = Agent { limits, system_prompt: "System prompt here.".to_owned(), ..minimal() };
    assert_eq!(accept(text), (expected, Vec::new()));
}

#[test]
fn every_key_is_read() {
    let text = "\
---
name: loud-one
description: Turns text into capitals.
backend: upper
model: big-1
use_when: text is too quiet
avoid_when: [at night, in libraries]
env: [UPPER_MODE, UPPER_MODE, TOKEN]
timeout: 90
idle_timeout: 1.5
grace: 250ms
answer_timeout: 1h30m
limits:
  memory: 512MiB
  cpu: 1m
  processes: 10
  open_files: 64
  file_size: 1_000
  output: 2M
  depth: 0
  children: 3
  tree_runs: 9
  steps: 40
  tool_calls: 90
  tokens: 250_000
  answer_tokens: 2048
  cost: 0.5
allowed_callers: [main, planner]
delegates: [reviewer, tester]
on_disconnect: cancel
disconnect_grace: 5s
on_interrupt: resume
containment: strict
script: scripts/loud.yaml
capabilities: [capitals]
tags: loud
effort: high
temperature: 0.7
permission:
  level: safe-edit
  allow: [Read, 'Bash(git log:*)']
  ask: WebFetch
  deny: ['Edit(src/**)', mcp__mail__send]
unenforceable: warn
tools: Read, Bash(git log:*), mcp__mail
prompt_mode: replace
context: none
mcp_servers:
  mail: {command: mail-server, args: ['--user', '${MAIL_USER}', ''], env: {MAIL_TOKEN: '${MAIL_TOKEN}', PORT: 25}}
  docs: {url: 'https://docs.example/mcp', headers: {Authorization: 'Bearer ${DOCS_TOKEN}'}}
output_format: json
accept: cargo test --workspace
output_schema: {type: object, required: [text]}
session: true
extra_args: [--verbose]
extra_directories: [/srv/shared]
fallback: [small-1, {backend: codex}, {backend: other, model: m}]
isolation: worktree
max_turns: 12
response_file: {template: 'Write to {{RESPONSE_FILE}}.', summary_template: Say it again.}
---

  Be loud.

Always.
";
    let expected = Agent {
        name: "loud-one".parse().unwrap(),
        model: Some("big-1".to_owned()),
        system_prompt: "Be loud.\n\nAlways.".to_owned(),
        use_when: strings(&["text is too quiet"]),
        avoid_when: strings(&["at night", "in libraries"]),
        env: strings(&["UPPER_MODE", "TOKEN"]),
        limits: RequestedLimits {
            timeout_ms: Some(90_000),
            idle_timeout_ms: Some(1_500),
            grace_ms: Some(250),
            answer_timeout_ms: Some(5_400_000),
            memory_bytes: Some(512 << 20),
            cpu_ms: Some(60_000),
            processes: Some(10),
            open_files: Some(64),
            file_bytes: Some(1_000),
            output_bytes: Some(2 << 20),
            depth: Some(0),
            children: Some(3),
            tree_runs: Some(9),
            steps: Some(40),
            tool_calls: Some(90),
            tokens: Some(250_000),
            answer_tokens: Some(2_048),
            cost_microusd: Some(500_000),
        },
        callers: Callers::Only(strings(&["main", "planner"])),
        delegates: Delegates::Only(vec!["reviewer".parse().unwrap(), "tester".parse().unwrap()]),
        on_disconnect: Some(OnDisconnect::Cancel { grace_ms: 5_000 }),
        on_interrupt: OnInterrupt::Resume,
        containment: ContainmentDemand::Strict,
        script: Some(ScriptSource::File("scripts/loud.yaml".to_owned())),
        capabilities: strings(&["capitals"]),
        tags: strings(&["loud"]),
        setup: full_setup(),
        ..minimal()
    };
    assert_eq!(accept(text), (expected, Vec::new()));
}

fn full_setup() -> Setup {
    let rules = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<Rule>>();
    let env = [("MAIL_TOKEN", "${MAIL_TOKEN}"), ("PORT", "25")];
    let mail = Transport::Stdio {
        command: "mail-server".to_owned(),
        args: vec!["--user".into(), "${MAIL_USER}".into(), "".into()],
        env: env.map(|(name, value)| (name.to_owned(), value.into())).into(),
    };
    let headers = [("Authorization".to_owned(), "Bearer ${DOCS_TOKEN}".into())];
    let docs = Transport::Http { url: "https://docs.example/mcp".into(), headers: headers.into() };
    let server =
        |name: &str, transport| McpServer { name: name.to_owned(), transport, tools: None, timeout_ms: None };
    let fallback = |backend: Option<&str>, model: Option<&str>| Fallback {
        backend: backend.map(|name| name.parse().unwrap()),
        model: model.map(ToOwned::to_owned),
        settings: None,
    };
    Setup {
        effort: Some("high".to_owned()),
        temperature: Some(Temperature(700)),
        key_file: None,
        permission: Permission {
            level: Some(Level::SafeEdit),
            allow: rules(&["Read", "Bash(git log:*)"]),
            ask: rules(&["WebFetch"]),
            deny: rules(&["Edit(src/**)", "mcp__mail__send"]),
        },
        unenforceable: Unenforceable::Warn,
        tools: Some(strings(&["Read", "Bash", "mcp__mail"])),
        prompt_mode: PromptMode::Replace,
        context: Context::None,
        mcp_servers: vec![server("mail", mail), server("docs", docs)],
        output_format: OutputFormat::Json,
        accept: vec![vec!["cargo".to_owned(), "test".to_owned(), "--workspace".to_owned()]],
        output_schema: Some(serde_json::json!({"type": "object", "required": ["text"]})),
        keeps_session: true,
        extra_args: strings(&["--verbose"]),
        extra_directories: strings(&["/srv/shared"]),
        fallback: vec![
            fallback(None, Some("small-1")),
            fallback(Some("codex"), None),
            fallback(Some("other"), Some("m")),
        ],
        isolation: Isolation::Worktree,
        max_turns: Some(12),
        vendor_agent: None,
        vendor_file: None,
        vendor_settings: None,
        retry: None,
        response_file: Some(ResponseFile {
            template: "Write to {{RESPONSE_FILE}}.".to_owned(),
            summary_template: Some("Say it again.".to_owned()),
        }),
        submit_result: None,
        inherit: std::collections::BTreeSet::new(),
    }
}

#[test]
fn invalid_backend_settings_are_reported_with_their_location() {
    let text = "\
---
description: x
backend: upper
permission: {level: root, allow: ['Bash(x', --yes], may: 1}
unenforceable: maybe
session: 5
max_turns: 0
mcp_servers: [other, {command: a}, {name: b}, {name: c, command: x, url: y}]
output_format: text
output_schema: {}
fallback: [{}]
response_file: {}
---
";
    let rule_hint = "(hint: write for example Read or Bash(git log:*))";
    refuse(
        text,
        &[
            "shout.md:4:21: error: permission.level: expected read-only or safe-edit or yolo, found the text \"root\"",
            &format!(
                "shout.md:4:35: error: permission.allow: \"Bash(x\" is not a rule: the parenthesis is not closed at \
                 its end {rule_hint}"
            ),
            &format!(
                "shout.md:4:45: error: permission.allow: \"--yes\" is not a rule: it begins with '-' {rule_hint}"
            ),
            "shout.md:4:53: warning: unknown key \"may\" in permission is ignored (hint: known keys: level, allow, \
             ask, deny)",
            "shout.md:5:16: error: unenforceable: expected refuse or warn, found the text \"maybe\"",
            "shout.md:6:10: error: session: expected true or false, found the number 5",
            "shout.md:7:12: error: max_turns: expected a whole number from 1 to 4294967295, found the number 0",
            "shout.md:8:15: warning: mcp_servers: \"other\" names a server that is defined elsewhere (hint: an agent \
             gets only the servers that its own file defines: write its command or url here)",
            "shout.md:8:22: error: the key mcp_servers.name is missing",
            "shout.md:8:36: error: the key mcp_servers.command is missing (hint: a server has a command, or a url)",
            "shout.md:8:74: error: mcp_servers.url and command exclude each other",
            "shout.md:9:16: error: output_format: text has no schema; write json, or leave output_schema out",
            "shout.md:11:12: error: fallback: neither a backend nor a model is named (hint: write for example \
             {backend: codex, model: gpt-5}, or only a model)",
            "shout.md:12:16: error: the key response_file.template is missing (hint: write for example template: \
             Write your answer to {{RESPONSE_FILE}}.)",
        ],
    );
}

#[test]
fn acceptance_commands_are_a_text_a_list_or_several_and_need_trust() {
    let read = |accept_line: &str| {
        let text = format!(
            "---\ndescription: Turns text into capitals.\nbackend: upper\naccept: {accept_line}\n---\n"
        );
        let (agent, warnings) = accept(&text);
        (agent.setup.accept.clone(), warnings, crate::agent_formats::executables(&agent))
    };
    let (commands, warnings, shown) = read("cargo test -- 'my test'");
    assert_eq!((commands, warnings), (vec![strings(&["cargo", "test", "--", "my test"])], vec![]));
    assert_eq!(shown, "agent shout, acceptance: [\"cargo\", \"test\", \"--\", \"my test\"]\n");
    assert_eq!(read("[cargo, test]").0, [strings(&["cargo", "test"])]);
    let several = read("[[cargo, test], cargo clippy]").0;
    assert_eq!(several, [strings(&["cargo", "test"]), strings(&["cargo", "clippy"])]);
    let (_, warnings, _) = read("[cargo test, cargo clippy]");
    assert!(warnings[0].contains("the program is named \"cargo test\" here"), "{warnings:?}");
    refuse(
        "---\ndescription: x\nbackend: upper\naccept: make && make check\n---\n",
        &["shout.md:4:9: error: accept: \"make && make check\": \"&&\" is for a shell, and there is none"],
    );
}

#[test]
fn a_secret_in_the_file_is_pointed_out() {
    let text = "---\ndescription: Turns text into capitals.\nbackend: upper\nmcp_servers:\n  a:\n    command: x\n    \
                env: {API_KEY: abcdef123456}\n---\n";
    let (_, warnings) = accept(text);
    let expected = "shout.md:7:11: warning: mcp_servers.env: the value of \"API_KEY\" stands in the file (hint: write \
                    ${NAME} for a variable of the environment: records hold names, not values)";
    assert_eq!(warnings, [expected]);
}

#[test]
fn a_secret_in_arguments_and_addresses_is_pointed_out_without_being_shown() {
    let text = "---\ndescription: Turns text into capitals.\nbackend: upper\nmcp_servers:\n  a:\n    command: [x, --token=t-secret]\n    \
                args:\n      - --api-key\n      - k-secret\n      - '--header=Authorization: Bearer b-secret'\n      - --token=${OK}\n    \
                env: {ANY: ghp_0123456789abcdef0123}\n  b:\n    url: https://u:p-secret@h.example/?level=3\n---\n";
    let (_, warnings) = accept(text);
    let secret_warning = |location: &str, what: &str| {
        format!(
            "shout.md:{location}: warning: mcp_servers.{what} (hint: write ${{NAME}} for a variable of the environment: \
             records hold names, not values)"
        )
    };
    let expected = [
        secret_warning("6:14", "command: a secret stands in the file: \"--token=\u{2026}\""),
        secret_warning("9:9", "args: the value of \"--api-key\" stands in the file"),
        secret_warning(
            "10:9",
            "args: a secret stands in the file: \"--header=Authorization: Bearer \u{2026}\"",
        ),
        secret_warning("12:11", "env: the value of \"ANY\" stands in the file"),
        secret_warning(
            "14:10",
            "url: a secret stands in the file: \"https://u:\u{2026}@h.example/?level=3\"",
        ),
    ];
    assert_eq!(warnings, expected);
}

#[test]
fn the_other_spellings_mean_the_same() {
    let text = "---\ndescription: Turns text into capitals.\nbackend: upper\ncallers: anyone\ndelegates: none\n\
                on_disconnect: cancel\nmodel:\nlimits: {timeout: 5s}\n---";
    let expected = Agent {
        on_disconnect: Some(OnDisconnect::Cancel { grace_ms: 30_000 }),
        limits: RequestedLimits { timeout_ms: Some(5_000), ..RequestedLimits::default() },
        ..minimal()
    };
    assert_eq!(accept(text), (expected, Vec::new()));
    let text = "---\ndescription: Turns text into capitals.\nbackend: upper\ndelegates: anyone\n\
                on_disconnect: continue\n---";
    let expected =
        Agent { delegates: Delegates::Anyone, on_disconnect: Some(OnDisconnect::Continue), ..minimal() };
    assert_eq!(accept(text), (expected, Vec::new()));
}

#[test]
fn steps_may_be_in_the_file() {
    let text = "---\ndescription: Turns text into capitals.\nbackend: upper\nsteps:\n  - say: Hi\n  - sleep: 1s\n---";
    let script =
        RehearsalScript { steps: vec![RehearsalStep::Say("Hi".to_owned()), RehearsalStep::Sleep(1_000)] };
    assert_eq!(accept(text), (Agent { script: Some(ScriptSource::Inline(script)), ..minimal() }, Vec::new()));
}

#[test]
fn windows_line_ends_and_a_byte_order_mark_change_nothing() {
    let text = "\u{feff}---\r\ndescription: Turns text into capitals.\r\nbackend: upper\r\nfoo: 1\r\n---\r\nOne.\r\nTwo.\r\n";
    let (agent, warnings) = accept(text);
    assert_eq!(agent, Agent { system_prompt: "One.\nTwo.".to_owned(), ..minimal() });
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].starts_with("shout.md:4:1: warning: unknown key \"foo\" is ignored"), "{warnings:?}");
}

#[test]
fn all_problems_are_reported_at_once_with_their_locations() {
    let text = "\
---
name: 5
descripton: x
backend: a b
timeout: [1]
limits:
  memory: 5
  cpu: soon
  depth: -1
  foo: 1
callers: main
callers: anyone
delegates: [../x]
on_interrupt: resum
env: ['A=1', 2x]
script: ../../etc/passwd
---
";
    let name_rule = "1 to 64 letters, digits, '.', '_' or '-', beginning with a letter or digit";
    let agent_rule = "1 to 100 letters, digits, '.', '_' or '-', beginning with a letter, digit or '_'; ':' and '/' \
                      join such words";
    let duration = "write for example 250ms, 30s, 5m or 1h30m; a number counts seconds";
    refuse(
        text,
        &[
            "shout.md:2:1: warning: the agent has no description (hint: callers choose an agent by its description)",
            "shout.md:2:7: error: name: expected text, found the number 5 (hint: put it in quotes: \"5\")",
            "shout.md:3:1: warning: unknown key \"descripton\" is ignored (hint: did you mean description?)",
            &format!(
                "shout.md:4:10: error: backend: \"a b\" is not the name of a backend (hint: {name_rule})"
            ),
            &format!("shout.md:5:10: error: timeout: expected a duration, found a list (hint: {duration})"),
            "shout.md:7:11: error: limits.memory: 5 bytes are too few; at least 1.0 MiB (hint: write for example \
             512MiB or 2G; a number counts bytes)",
            &format!(
                "shout.md:8:8: error: limits.cpu: expected a duration, found the text \"soon\" (hint: {duration})"
            ),
            "shout.md:9:10: error: limits.depth: expected a whole number from 0 to 4294967295, found the number -1",
            "shout.md:10:3: warning: unknown key \"foo\" in limits is ignored (hint: known keys: timeout, \
             idle_timeout, grace, answer_timeout, memory, file_size, output, cpu, processes, open_files, depth, \
             children, tree_runs, steps, tool_calls, tokens, answer_tokens, cost)",
            "shout.md:12:1: warning: the key \"callers\" is written twice; this value counts (hint: line 11 has the other \
             value)",
            &format!(
                "shout.md:13:13: error: delegates: \"../x\" is not the name of an agent (hint: {agent_rule})"
            ),
            "shout.md:14:15: error: on_interrupt: expected end or resume, found the text \"resum\" (hint: did you \
             mean resume?)",
            "shout.md:15:7: error: env: expected the name of a variable, found an assignment (hint: give only the \
             name; the value is passed on)",
            "shout.md:15:14: error: env: \"2x\" is not the name of a variable (hint: letters, digits and '_', not \
             beginning with a digit)",
            "shout.md:16:9: error: script: \"../../etc/passwd\" is not a relative path without '..'",
        ],
    );
}

#[test]
fn a_file_without_frontmatter_gets_a_hint_how_to_begin() {
    let hint =
        "(hint: begin the file with four lines: `---`, `description: TEXT`, `backend: rehearsal`, `---`)";
    for text in ["", "You are a helpful agent.\n", "\n\n# Title\n---\n"] {
        refuse(text, &[&format!("shout.md:1:1: error: the file has no frontmatter {hint}")]);
    }
}

#[test]
fn frontmatter_must_end() {
    let hint = "(hint: put a line with only --- between the frontmatter and the system prompt)";
    for text in ["---", "---\nbackend: upper\n", "---\nbackend: upper\n----\nx"] {
        refuse(text, &[&format!("shout.md:1:1: error: the frontmatter has no end {hint}")]);
    }
}

#[test]
fn the_backend_is_required() {
    let missing = "error: the key backend is missing (hint: add a line such as backend: rehearsal)";
    refuse("---\ndescription: x\n---\n", &[&format!("shout.md:2:1: {missing}")]);
    refuse("---\ndescription: x\nbackend:\n---\n", &[&format!("shout.md:2:1: {missing}")]);
    let no_description =
        "warning: the agent has no description (hint: callers choose an agent by its description)";
    refuse(
        "\n---\n# nothing\n---\n",
        &[&format!("shout.md:2:1: {missing}"), &format!("shout.md:2:1: {no_description}")],
    );
}

#[test]
fn broken_yaml_is_refused_with_the_line_of_the_file() {
    refuse(
        "---\nbackend: upper\nenv: [A, B\ntimeout: 3\n---\n",
        &["shout.md:4:8: error: not valid YAML: illegal placement of ':' indicator"],
    );
    refuse(
        "---\nbackend: upper\nlimits:\n  memory: at most: 1GiB\n---\n",
        &[
            "shout.md:4:18: error: not valid YAML: mapping values are not allowed in this context (hint: put text with a colon in quotes)",
        ],
    );
    refuse("---\n- a\n---\n", &["shout.md:2:1: error: the file: expected keys with values, found a list"]);
}

#[test]
fn a_value_that_forgot_its_quotes_is_read_as_text() {
    let text = "---\ndescription: Use when: it is 5 o'clock # really\nbackend: upper\nuse_when: *\n\
                avoid_when: \"no\" is the answer\n---\n";
    let (agent, warnings) = accept(text);
    let expected = Agent {
        description: "Use when: it is 5 o'clock".to_owned(),
        use_when: strings(&["*"]),
        avoid_when: strings(&["\"no\" is the answer"]),
        ..minimal()
    };
    assert_eq!(agent, expected);
    let read_as_text = |line: u32, key: &str| {
        format!(
            "shout.md:{line}:1: warning: the value of \"{key}\" is not valid YAML and is read as text \
             (hint: put the value in quotes)"
        )
    };
    let expected =
        [read_as_text(2, "description"), read_as_text(4, "use_when"), read_as_text(5, "avoid_when")];
    assert_eq!(warnings, expected);
}

#[test]
fn a_text_over_several_lines_may_forget_its_quotes() {
    let text = "---\ndescription: Use when: it is\n  late, or: early\nbackend: upper\ntimeout: 1s\n---\n";
    let (agent, warnings) = accept(text);
    let limits = RequestedLimits { timeout_ms: Some(1_000), ..RequestedLimits::default() };
    let description = "Use when: it is late, or: early".to_owned();
    assert_eq!(agent, Agent { description, limits, ..minimal() });
    assert_eq!(warnings.len(), 1);
}

#[test]
fn keys_that_exclude_each_other_are_refused() {
    refuse(
        "---\ndescription: x\nbackend: upper\ntimeout: 1s\nlimits: {timeout: 2s}\nscript: a\nsteps: []\ncallers: []\n\
         allowed_callers: []\ndisconnect_grace: 1s\n---\n",
        &[
            "shout.md:5:9: error: timeout stands at the top level and in limits (hint: write it once)",
            "shout.md:7:8: error: script and steps exclude each other; write one of them",
            "shout.md:9:18: error: callers and allowed_callers mean the same; write one of them",
            "shout.md:10:19: warning: disconnect_grace has no effect without on_disconnect: cancel",
        ],
    );
}

#[test]
fn a_model_cannot_look_like_an_option() {
    refuse(
        "---\ndescription: x\nbackend: upper\nmodel: --dangerous\n---\n",
        &["shout.md:4:8: error: model: \"--dangerous\" is not the name of a model"],
    );
}

#[test]
fn a_file_name_that_is_no_agent_name_needs_a_name_in_the_file() {
    let text = "---\ndescription: x\nbackend: upper\n---\n";
    let (agent, diagnostics) = read(AgentFile { stem: "my agent", ..file(text) });
    let diagnostics: Vec<String> = diagnostics.iter().map(ToString::to_string).collect();
    let rule = "1 to 100 letters, digits, '.', '_' or '-', beginning with a letter, digit or '_'";
    let expected =
        format!("shout.md:2:1: error: name: \"my agent\" is not the name of an agent (hint: {rule})");
    assert_eq!((agent, diagnostics), (None, vec![expected]));
}

#[test]
fn a_file_that_is_too_large_is_refused() {
    let text = format!("---\nbackend: upper\n---\n{}", "x".repeat(crate::FILE_BYTES_MAX));
    refuse(&text, &["shout.md:1:1: error: the file has more than 1048576 bytes"]);
}

#[test]
fn a_flood_of_problems_is_counted_not_listed() {
    let keys: String = (0..500).map(|number| format!("unknown{number}: 1\n")).collect();
    let (agent, diagnostics) = read(file(&format!("---\n{keys}backend: 5\n---\n")));
    assert_eq!((agent, diagnostics.len()), (None, 101));
    assert_eq!(diagnostics[100].to_string(), "shout.md: error: 402 more problems are not shown");
}

#[test]
fn inputs_are_read_in_the_order_of_the_file() {
    let text = "---\ndescription: Turns text into capitals.\nbackend: upper\ninputs:\n  \
                branch: {required: true, description: which one}\n  depth: {type: integer, default: 3}\n  \
                dry_run: {type: boolean, default: false}\n  note:\n---\n";
    let input = |name: &str, kind: &str, required, default: Option<&str>, description: &str| AgentInput {
        name: name.to_owned(),
        kind: kind.to_owned(),
        required,
        default: default.map(ToOwned::to_owned),
        description: description.to_owned(),
    };
    let inputs = vec![
        input("branch", "string", true, None, "which one"),
        input("depth", "integer", false, Some("3"), ""),
        input("dry_run", "boolean", false, Some("false"), ""),
        input("note", "string", false, None, ""),
    ];
    assert_eq!(accept(text), (Agent { inputs, ..minimal() }, Vec::new()));
}

#[test]
fn every_problem_of_inputs_is_reported_with_its_location() {
    let text = "---\nbackend: upper\ndescription: x\ninputs:\n  2nd: {}\n  \
                a: {type: integr, default: 1}\n  b: {type: integer, default: many}\n  \
                c: {requird: true, default: [1]}\n---\n";
    refuse(
        text,
        &[
            "shout.md:5:3: error: inputs: \"2nd\" is no name (hint: use letters, digits and _, a letter first)",
            "shout.md:6:13: error: inputs.a.type: expected string or integer or number or boolean, found the text \
             \"integr\" (hint: did you mean integer?)",
            "shout.md:7:31: error: the input b must be of the type integer, not \"many\"",
            "shout.md:8:7: warning: unknown key \"requird\" in inputs.c is ignored (hint: did you mean required?)",
            "shout.md:8:31: error: inputs.c.default: expected a value, found a list",
        ],
    );
    refuse(
        "---\nbackend: upper\ndescription: x\ninputs: [a]\n---\n",
        &[
            "shout.md:4:9: error: inputs: expected names with what each takes, found a list (hint: write a map such \
           as inputs: {branch: {required: true}})",
        ],
    );
}
