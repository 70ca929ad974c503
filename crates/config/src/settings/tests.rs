//! Configuration files: their meaning, their diagnostics, and the priority of layers.

use domain::agent::Layer;
use domain::budget::{Limits, RequestedLimits, resolve};
use domain::dialect::DialectName;
use domain::inherit::Inherited;
use domain::permission::Level;
use domain::price::Price;
use domain::run::agent_loop::TierTarget;
use domain::run::{ContainmentDemand, OnDisconnect};
use serde_json::json;

use super::{
    Backend, ClientSettings, CommandBackend, CommandOutput, ConfigFile, ConfigLayer, DisconnectChoice,
    PointerMatch, PromptDelivery, Protocol, Provider, RetentionSettings, RunSettings, ServeSettings,
    SettingRow, SlotSettings, defaults, executables, merge, read,
};

fn file(text: &str) -> ConfigFile<'_> {
    ConfigFile { text, file: "c.toml", layer: Layer::User, built_in: &["rehearsal", "claude"] }
}

#[track_caller]
fn check(text: &str, expected: &[&str]) -> ConfigLayer {
    let (layer, diagnostics) = read(file(text));
    let diagnostics: Vec<String> = diagnostics.iter().map(ToString::to_string).collect();
    assert_eq!(diagnostics, expected);
    layer
}

fn upper() -> CommandBackend {
    CommandBackend {
        protocol: Protocol::Command,
        command: strings(&["tr", "a-z", "A-Z"]),
        prompt: PromptDelivery::Stdin,
        output: CommandOutput::Text,
        env: Vec::new(),
        success_codes: vec![0],
        shortage_codes: Vec::new(),
    }
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// Reads a file with one backend `x` that is right.
#[track_caller]
fn backend(lines: &str) -> CommandBackend {
    let mut layer = check(&format!("[backends.x]\n{lines}\n"), &[]);
    let Some(Backend::Command(program)) = layer.backends.remove(&"x".parse().unwrap()) else {
        panic!("a program was expected")
    };
    program
}

/// Reads a file with one backend `x` that is wrong.
#[track_caller]
fn refuse_backend(lines: &str, expected: &[&str]) {
    let layer = check(&format!("[backends.x]\n{lines}\n"), expected);
    assert_eq!(layer, ConfigLayer::default());
}

#[test]
fn the_example_of_the_readme_is_read() {
    let text = "\
[backends.upper]
command = [\"tr\", \"a-z\", \"A-Z\"]        # argv, never a shell
prompt  = \"stdin\"                      # stdin | arg | file
output  = \"text\"
env     = [\"UPPER_MODE\"]
";
    let upper = Backend::Command(CommandBackend { env: strings(&["UPPER_MODE"]), ..upper() });
    let expected =
        ConfigLayer { backends: [("upper".parse().unwrap(), upper)].into(), ..ConfigLayer::default() };
    assert_eq!(check(text, &[]), expected);
}

#[test]
fn every_section_is_read() {
    let text = "\
[limits]
timeout = 90
idle_timeout = 1.5
memory = \"1G\"
depth = 2
[slots]
count = 4
queue = 0
[retention]
output = \"1h\"
record = \"30d\"
[serve]
wait = \"20s\"
on_disconnect = \"continue\"
disconnect_grace = 0
dialects = [\"jarvis\", \"volery\"]
calls_per_minute = 7
allowed_hosts = \"box.example\"
allowed_origins = [\"https://a.example\", \"https://b.example:8443\"]
powerspawn_permission = \"safe-edit\"
powerspawn_agents_context = true
callers_may_widen = true
[clients.\"my client\"]
wait = \"2m\"
[run]
containment = \"plain\"
unattended = \"wait\"
";
    let expected = ConfigLayer {
        limits: RequestedLimits {
            timeout_ms: Some(90_000),
            idle_timeout_ms: Some(1_500),
            memory_bytes: Some(1 << 30),
            depth: Some(2),
            ..RequestedLimits::default()
        },
        slots: SlotSettings { count: Some(4), queue: Some(0) },
        retention: RetentionSettings { output_ms: Some(3_600_000), record_ms: Some(30 * 86_400_000) },
        serve: ServeSettings {
            wait_ms: Some(20_000),
            on_disconnect: Some(DisconnectChoice::Continue),
            disconnect_grace_ms: Some(0),
            dialects: Some(vec![DialectName::Jarvis, DialectName::Volery]),
            calls_per_minute: Some(7),
            allowed_hosts: Some(strings(&["box.example"])),
            allowed_origins: Some(strings(&["https://a.example", "https://b.example:8443"])),
            powerspawn_permission: Some(Level::SafeEdit),
            powerspawn_agents_context: Some(true),
            callers_may_widen: Some(true),
        },
        clients: [("my client".to_owned(), ClientSettings { wait_ms: Some(120_000) })].into(),
        run: RunSettings {
            containment: Some(ContainmentDemand::Plain),
            unattended: Some(domain::run::UnattendedChoice::Wait),
        },
        ..ConfigLayer::default()
    };
    assert_eq!(check(text, &[]), expected);
}

#[test]
fn sections_for_agents_and_backends_are_read() {
    let text = "\
[agents.reviewer]
permission = { level = \"safe-edit\", allow = [\"Bash(git:*)\"] }
backend = \"codex\"
timeout = \"3m\"
limits = { cpu = \"1m\" }
[defaults.claude]
permission = \"yolo\"
model = \"opus\"
max_turns = 7
";
    let layer = check(text, &[]);
    let reviewer = &layer.agents[&"reviewer".parse().unwrap()];
    assert_eq!(reviewer.permission.layer_summary(), "safe-edit; allow \"Bash(git:*)\"");
    assert_eq!(reviewer.backend, Some("codex".parse().unwrap()));
    assert_eq!((reviewer.limits.timeout_ms, reviewer.limits.cpu_ms), (Some(180_000), Some(60_000)));
    let claude = &layer.defaults[&"claude".parse().unwrap()];
    assert_eq!((claude.model.as_deref(), claude.max_turns), (Some("opus"), Some(7)));
    assert_eq!(
        executables(&layer),
        "agent reviewer: backend codex, permission safe-edit; allow \"Bash(git:*)\", limits timeout_ms 180000 cpu_ms 60000\n\
         agents of claude: model opus, permission yolo, max_turns 7\n"
    );
    let one_rule = "[agents.a]\nmodel = \"opus, permission read-only\"\npermission = { allow = [\"Bash(zz) Bash(*)\"] }\n";
    assert_eq!(
        executables(&check(one_rule, &[])),
        "agent a: model \"opus, permission read-only\", permission allow \"Bash(zz) Bash(*)\"\n"
    );
    let (layer, diagnostics) = read(file("[defaults.claude]\nbackend = \"codex\"\n[agents.a]\nbudget = 3\n"));
    let diagnostics: Vec<String> = diagnostics.iter().map(ToString::to_string).collect();
    assert!(diagnostics[0].contains("backend"), "{diagnostics:?}");
    assert!(
        diagnostics[1].contains("agents.a.budget: a budget in money cannot be enforced"),
        "{diagnostics:?}"
    );
    assert!(layer.has_errors);
}

#[test]
fn json_and_json_lines_name_the_pointer_of_the_answer() {
    let written = backend(
        "command = [\"a\", \"--json\"]\noutput = \"json\"\nresult = \"/result\"\nerror = { \"/is_error\" = true }\n\
         session = \"/session_id\"\nsuccess_codes = [0, 3]\nshortage_codes = [75]",
    );
    let output = CommandOutput::Json {
        result: "/result".to_owned(),
        error: vec![PointerMatch { pointer: "/is_error".to_owned(), value: json!(true) }],
        session: Some("/session_id".to_owned()),
    };
    let expected = CommandBackend {
        command: strings(&["a", "--json"]),
        output,
        success_codes: vec![0, 3],
        shortage_codes: vec![75],
        ..upper()
    };
    assert_eq!(written, expected);
    let written = backend(
        "command = [\"a\"]\noutput = \"jsonl\"\nresult = \"/r~1x\"\nterminal = { \"/type\" = \"result\", \"/n\" = 2 }\n\
         text = \"/delta/text\"",
    );
    let output = CommandOutput::Jsonl {
        terminal: vec![
            PointerMatch { pointer: "/type".to_owned(), value: json!("result") },
            PointerMatch { pointer: "/n".to_owned(), value: json!(2) },
        ],
        result: "/r~1x".to_owned(),
        error: Vec::new(),
        text: Some("/delta/text".to_owned()),
        session: None,
    };
    assert_eq!(written, CommandBackend { command: strings(&["a"]), output, ..upper() });
}

#[test]
fn a_backend_is_stored_in_a_stable_shape() {
    let written = backend("command = [\"a\"]\noutput = \"json\"\nresult = \"/r\"\nerror = { \"/e\" = 1.5 }");
    let expected = json!({
        "command": ["a"],
        "prompt": "stdin",
        "output": { "json": { "result": "/r", "error": [{ "pointer": "/e", "value": 1.5 }], "session": null } },
        "env": [],
        "success_codes": [0],
    });
    assert_eq!(serde_json::to_value(written).unwrap(), expected);
    assert_eq!(serde_json::to_value(CommandOutput::Text).unwrap(), json!("text"));
}

#[test]
fn a_command_that_speaks_acp_has_no_say_in_prompt_and_output() {
    let written = backend("protocol = \"acp\"\ncommand = [\"my-agent\", \"--acp\"]\nenv = [\"MY_KEY\"]");
    assert_eq!((written.protocol, written.protocol.kind()), (Protocol::Acp, "acp"));
    assert_eq!((written.command, written.env), (strings(&["my-agent", "--acp"]), strings(&["MY_KEY"])));
    let layer = check(
        "[backends.x]\nprotocol = \"acp\"\ncommand = [\"a\"]\nsession = \"/s\"\n",
        &["c.toml:4:11: warning: backends.x.session has no effect with protocol = \"acp\""],
    );
    assert_eq!(executables(&layer), "backend x: [\"a\"] by acp\n");
    refuse_backend(
        "protocol = \"acp\"\ncommand = [\"a\", \"{model}\"]",
        &["c.toml:1:1: error: backends.x.command: with protocol = \"acp\" there are no placeholders"],
    );
    refuse_backend(
        "protocol = \"a2a\"\ncommand = [\"a\"]",
        &["c.toml:2:12: error: backends.x.protocol: expected command or acp, found the text \"a2a\""],
    );
}

#[test]
fn the_command_says_how_the_prompt_arrives() {
    let prompt_delivery = |lines: &str| {
        let CommandBackend { command, prompt, .. } = backend(lines);
        (command.join(" "), prompt)
    };
    assert_eq!(prompt_delivery("command = [\"a\"]"), ("a".to_owned(), PromptDelivery::Stdin));
    assert_eq!(
        prompt_delivery("command = [\"a\", \"-p={prompt}\"]"),
        ("a -p={prompt}".to_owned(), PromptDelivery::Arg)
    );
    assert_eq!(
        prompt_delivery("command = [\"a\", \"{prompt_file}\"]"),
        ("a {prompt_file}".to_owned(), PromptDelivery::File)
    );
    assert_eq!(
        prompt_delivery("command = [\"a\", \"-p\"]\nprompt = \"arg\""),
        ("a -p {prompt}".to_owned(), PromptDelivery::Arg)
    );
    assert_eq!(
        prompt_delivery("command = [\"a\", \"{system_file}\", \"\"]"),
        ("a {system_file} ".to_owned(), PromptDelivery::Stdin)
    );
    refuse_backend(
        "command = [\"a\"]\nprompt = \"file\"",
        &["c.toml:3:10: error: backends.x.prompt: prompt = \"file\" needs {prompt_file} in the command"],
    );
    refuse_backend(
        "command = [\"a\", \"{prompt}\"]\nprompt = \"stdin\"",
        &["c.toml:3:10: error: backends.x.prompt: the command has {prompt}: write prompt = \"arg\""],
    );
    refuse_backend(
        "command = [\"a\", \"{prompt_file}\"]\nprompt = \"arg\"",
        &["c.toml:3:10: error: backends.x.prompt: the command has {prompt_file}: write prompt = \"file\""],
    );
    refuse_backend(
        "command = [\"a\", \"{prompt_file}\", \"{prompt}\"]",
        &[
            "c.toml:1:1: error: backends.x.prompt: the command has both {prompt} and {prompt_file}; use one of them",
        ],
    );
}

#[test]
fn a_command_is_a_list_and_never_a_shell_line() {
    refuse_backend(
        "command = \"tr a-z A-Z\"",
        &[
            "c.toml:2:11: error: backends.x.command: expected a list of program and arguments, found one text; no shell \
           is used (hint: write command = [\"tr\", \"a-z\", \"A-Z\"])",
        ],
    );
    refuse_backend(
        "",
        &[
            "c.toml:1:1: error: the key backends.x.command is missing (hint: add for example command = [\"program\", \
           \"argument\"])",
        ],
    );
    refuse_backend(
        "command = []",
        &["c.toml:2:11: error: backends.x.command: expected a program, found an empty list"],
    );
    refuse_backend("command = [\" \"]", &["c.toml:2:12: error: backends.x.command: the program has no name"]);
    refuse_backend(
        "command = [\"a\", 5]",
        &[
            "c.toml:2:17: error: backends.x.command: expected text, found the number 5 (hint: put it in quotes: \"5\")",
        ],
    );
    refuse_backend(
        "command = [\"a\\u0000\"]",
        &["c.toml:2:12: error: backends.x.command: a NUL character is not allowed"],
    );
}

#[test]
fn a_caller_cannot_choose_the_program() {
    for word in super::PLACEHOLDERS {
        refuse_backend(
            &format!("command = [\"{{{word}}}/bin/x\"]"),
            &["c.toml:2:12: error: backends.x.command: the program itself cannot have a placeholder"],
        );
    }
}

#[test]
fn a_slip_in_a_placeholder_is_an_error_and_other_braces_pass() {
    refuse_backend(
        "command = [\"a\", \"{promt}\"]",
        &[
            "c.toml:2:17: error: backends.x.command: unknown placeholder {promt} (hint: did you mean {prompt}?)",
        ],
    );
    let argument = "{\\\"a\\\": {\\\"b\\\": 1}} {print $1} {} {A}";
    let expected = "{\"a\": {\"b\": 1}} {print $1} {} {A}";
    assert_eq!(backend(&format!("command = [\"a\", \"{argument}\"]")).command, strings(&["a", expected]));
    let layer = check(
        "[backends.x]\ncommand = [\"awk\", \"{print}\"]\n",
        &[
            "c.toml:2:19: warning: backends.x.command: {print} is no placeholder and is passed on as it is (hint: \
           placeholders: {prompt} {prompt_file} {system_file} {directory} {model} {session_id})",
        ],
    );
    assert_eq!(layer.backends.len(), 1);
}

#[test]
fn output_needs_its_pointers() {
    refuse_backend(
        "command = [\"a\"]\noutput = \"jsonl\"",
        &[
            "c.toml:1:1: error: the key backends.x.result is missing (hint: say where the answer stands, for example \
             result = \"/result\")",
            "c.toml:1:1: error: the key backends.x.terminal is missing (hint: say which event is the last, for example \
             terminal = { \"/type\" = \"result\" })",
        ],
    );
    let hint = "(hint: write for example /result or /message/content/0/text)";
    refuse_backend(
        "command = [\"a\"]\noutput = \"json\"\nresult = \"result\"\nerror = { \"/a~2\" = [] }\nsession = \"s\"",
        &[
            &format!("c.toml:4:10: error: backends.x.result: \"result\" is no JSON pointer {hint}"),
            &format!("c.toml:5:11: error: backends.x.error: \"/a~2\" is no JSON pointer {hint}"),
            "c.toml:5:20: error: backends.x.error: expected a text, number, true or false, found a list",
            &format!("c.toml:6:11: error: backends.x.session: \"s\" is no JSON pointer {hint}"),
        ],
    );
    check(
        "[backends.x]\ncommand = [\"a\"]\nresult = \"/a\"\n",
        &["c.toml:3:10: warning: backends.x.result has no effect with output = \"text\""],
    );
}

#[test]
fn built_in_backends_cannot_be_redefined() {
    let layer = check(
        "[backends.claude]\ncommand = [\"a\"]\n[backends.\"a b\"]\ncommand = [\"a\"]\n",
        &[
            "c.toml:1:11: error: the backend claude is built in and cannot be redefined (hint: choose another name)",
            "c.toml:3:11: error: \"a b\" is not the name of a backend (hint: 1 to 64 letters, digits, '.', '_' or '-', \
             beginning with a letter or digit)",
        ],
    );
    assert_eq!(layer, ConfigLayer::default());
}

#[test]
fn unknown_keys_warn_with_a_suggestion_and_the_rest_counts() {
    let layer = check(
        "[slot]\ncount = 1\n[serve]\nwiat = 3\nwait = 4\n[backends.x]\ncommand = [\"a\"]\nshell = true\n[slots]\ncount = \
         0\n",
        &[
            "c.toml:1:2: warning: unknown key \"slot\" is ignored (hint: did you mean slots?)",
            "c.toml:4:1: warning: unknown key \"wiat\" in serve is ignored (hint: did you mean wait?)",
            "c.toml:8:1: warning: unknown key \"shell\" in backends.x is ignored (hint: known keys: api, protocol, command, prompt, \
             output, result, terminal, error, text, session, env, success_codes, shortage_codes)",
            "c.toml:10:9: error: slots.count: expected a whole number from 1 to 100000, found the number 0",
        ],
    );
    assert_eq!((layer.serve.wait_ms, layer.backends.len()), (Some(4_000), 1));
}

#[test]
fn several_syntax_errors_are_reported_at_once() {
    let layer = check(
        "[serve]\nwait = \n[backends.x]\ncommand = [\"rm\", \"-r\", \"/tmp/x\n",
        &[
            "c.toml:2:8: error: not valid TOML: string values must be quoted, expected literal string",
            "c.toml:4:31: error: not valid TOML: unclosed array, expected `]`",
            "c.toml:4:31: error: not valid TOML: invalid basic string, expected `\"`",
        ],
    );
    assert_eq!(layer, ConfigLayer { has_errors: true, ..ConfigLayer::default() });
}

#[test]
fn too_deep_nesting_is_reported_once() {
    let expected_text = |column: u32| {
        format!("c.toml:1:{column}: error: not valid TOML: cannot recurse further; max recursion depth met")
    };
    let deep = format!("a = {}{}\n", "[".repeat(200), "]".repeat(200));
    check(&deep, &[&expected_text(85)]);
    // The parser continues in the same line, where it exceeds its limit again.
    let deep_again = format!("a = {}{}\n", "[[],".repeat(200), "]".repeat(200));
    check(&deep_again, &[&expected_text(322)]);
    let unclosed = format!("a = {}", "[".repeat(200));
    check(
        &unclosed,
        &[&expected_text(85), "c.toml:1:205: error: not valid TOML: unclosed array, expected `]`"],
    );
}

#[test]
fn a_project_cannot_set_machine_wide_settings() {
    let text = "[retention]\nrecord = 0\n[slots]\ncount = 9\n[run]\ncontainment = \"strict\"\nunattended = \"wait\"\n\
                [serve]\ndialects = [\"powerspawn\"]\ncalls_per_minute = 10000000\n";
    let (layer, diagnostics) = read(ConfigFile { layer: Layer::Project, ..file(text) });
    let diagnostics: Vec<String> = diagnostics.iter().map(ToString::to_string).collect();
    let ignored = "concerns the whole machine and is ignored in a project's file (hint: put it into your own \
                   configuration)";
    let expected = [
        format!("c.toml:1:1: warning: retention {ignored}"),
        format!("c.toml:3:1: warning: slots {ignored}"),
        format!("c.toml:7:14: warning: unattended {ignored}"),
        format!("c.toml:8:1: warning: serve {ignored}"),
    ];
    assert_eq!(diagnostics, expected);
    let run = RunSettings { containment: Some(ContainmentDemand::Strict), unattended: None };
    assert_eq!(layer, ConfigLayer { run, ..ConfigLayer::default() });
}

#[test]
fn the_defaults_are_valid_and_agree_with_the_domain() {
    let text = include_str!("defaults.toml");
    assert_eq!(read(file(text)), (defaults(), Vec::new()));
    let config = merge(Vec::new());
    assert_eq!(resolve([&config.limits.to_requested_limits()]), Limits::default());
    assert_eq!(config.on_disconnect(), OnDisconnect::Cancel { grace_ms: 30_000 });
    assert!(config.rows().iter().all(|row| row.layer == Layer::Default && row.file == "(built in)"));
}

#[test]
fn the_nearest_layer_wins_and_every_value_knows_its_origin() {
    let layer = |text: &str| read(file(text)).0;
    let user = layer(
        "[backends.a]\ncommand = [\"user\"]\n[backends.b]\ncommand = [\"b\"]\n[serve]\nwait = 1\non_disconnect = \
         \"continue\"\n[limits]\nmemory = \"1G\"\ntimeout = 5\n[slots]\ncount = 3\n[clients.c]\nwait = 9\n",
    );
    let project =
        layer("[backends.a]\ncommand = [\"project\", \"é\"]\n[serve]\nwait = 2\n[limits]\ntimeout = 6\n");
    let call = layer("[limits]\ntimeout = 7\n");
    // The order in which the layers were found does not matter.
    let config = merge(vec![
        (Layer::CommandLine, "--timeout".to_owned(), call),
        (Layer::Project, "p.toml".to_owned(), project),
        (Layer::User, "u.toml".to_owned(), user),
    ]);
    let row = |key: &str, value: serde_json::Value, layer, file: &str| SettingRow {
        key: key.to_owned(),
        value,
        layer,
        file: file.to_owned(),
    };
    let default = |key: &str, value| row(key, value, Layer::Default, "(built in)");
    let expected = vec![
        row("backends.a.command", json!(["project", "é"]), Layer::Project, "p.toml"),
        row("backends.b.command", json!(["b"]), Layer::User, "u.toml"),
        row("limits.timeout", json!("7s"), Layer::CommandLine, "--timeout"),
        default("limits.grace", json!("5s")),
        default("limits.answer_timeout", json!("1h")),
        row("limits.memory", json!("1GiB"), Layer::User, "u.toml"),
        default("limits.output", json!("64MiB")),
        default("limits.depth", json!(5)),
        default("limits.children", json!(20)),
        default("limits.tree_runs", json!(200)),
        row("slots.count", json!(3), Layer::User, "u.toml"),
        default("slots.queue", json!(1000)),
        default("retention.output", json!("1d")),
        default("retention.record", json!("7d")),
        row("serve.wait", json!("2s"), Layer::Project, "p.toml"),
        row("serve.on_disconnect", json!("continue"), Layer::User, "u.toml"),
        default("serve.disconnect_grace", json!("30s")),
        default("serve.dialects", json!(["volery"])),
        default("serve.calls_per_minute", json!(1200)),
        default("serve.allowed_hosts", json!([])),
        default("serve.allowed_origins", json!([])),
        default("serve.powerspawn_permission", json!("yolo")),
        default("serve.powerspawn_agents_context", json!(false)),
        default("serve.callers_may_widen", json!(false)),
        row("clients.c.wait", json!("9s"), Layer::User, "u.toml"),
        default("run.containment", json!("auto")),
        default("run.unattended", json!("deny")),
    ];
    assert_eq!(config.rows(), expected);
    assert_eq!(config.on_disconnect(), OnDisconnect::Continue);
}

#[test]
fn trust_covers_the_executables_and_nothing_else() {
    let layer = |text: &str| read(file(text)).0;
    let one = layer(
        "[backends.b]\ncommand = [\"x\\u001b[31m\", \"\\u202e\\U0001f600\", \"q\\\"\\\\\"]\nenv = [\"B\", \"A\"]\n\
         [backends.a]\ncommand = [\"tr\", \"a-z\"]\n",
    );
    let text = "backend a: [\"tr\", \"a-z\"]\n\
                backend b: [\"x\\u001b[31m\", \"\\u202e\\ud83d\\ude00\", \"q\\\"\\\\\"] with the variables A B\n";
    assert_eq!(executables(&one), text);
    let moved = layer(
        "# hi\n[run]\ncontainment = \"plain\"\n[backends.a]\ncommand = ['tr',\n 'a-z']\noutput = \"text\"\n",
    );
    assert_eq!(executables(&moved), "backend a: [\"tr\", \"a-z\"]\n");
    assert_eq!(executables(&ConfigLayer::default()), "");
}

#[test]
fn a_file_that_is_too_large_is_refused() {
    let text = "#".repeat(crate::FILE_BYTES_MAX + 1);
    check(&text, &["c.toml:1:1: error: the file has more than 1048576 bytes"]);
}

#[test]
fn prices_are_dollars_per_million_tokens() {
    let text = "\
[prices.\"claude-sonnet-4-5\"]
input = 3
output = 15.0
cache_read = 0.3
[prices.local]
input = 0
output = 0.000001
";
    let layer = check(text, &[]);
    let sonnet = Price { input: 3_000_000, output: 15_000_000, cache_read: Some(300_000), cache_write: None };
    let local = Price { input: 0, output: 1, cache_read: None, cache_write: None };
    assert_eq!(layer.prices.get("claude-sonnet-4-5"), Some(&sonnet));
    let config = merge(vec![(Layer::User, "u.toml".to_owned(), layer)]);
    assert_eq!(config.prices().get("local"), Some(&local));
    let rows = config.rows();
    let shown: Vec<_> = rows.iter().filter(|row| row.key.starts_with("prices.")).collect();
    let row = |key: &str, value: serde_json::Value| SettingRow {
        key: key.to_owned(),
        value,
        layer: Layer::User,
        file: "u.toml".to_owned(),
    };
    let sonnet = row("prices.claude-sonnet-4-5", json!({"input": 3, "output": 15, "cache_read": 0.3}));
    assert_eq!(shown, [&sonnet, &row("prices.local", json!({"input": 0, "output": 0.000001}))]);
}

#[test]
fn a_price_that_is_wrong_is_left_out_and_explained() {
    let text = "\
[prices.a]
input = -1
output = \"much\"
[prices.b]
input = 1
[prices.\"\"]
input = 1
output = 1
[prices.c]
input = 1
output = 2
cache = 3
";
    let layer = check(
        text,
        &[
            "c.toml:2:9: error: prices.a.input: expected an amount of dollars, found the number -1",
            "c.toml:3:10: error: prices.a.output: expected an amount of dollars, found the text \"much\"",
            "c.toml:4:9: error: prices.b: a price has input and output (hint: in US dollars per million tokens)",
            "c.toml:6:9: error: prices: the name of a model is empty",
            "c.toml:12:1: warning: unknown key \"cache\" in prices.c is ignored (hint: known keys: input, output, \
             cache_read, cache_write)",
        ],
    );
    assert_eq!(layer.prices.into_keys().collect::<Vec<_>>(), ["c"]);
    let project = ConfigFile { layer: Layer::Project, ..file("[prices.a]\ninput = 0\noutput = 0\n") };
    let (layer, diagnostics) = read(project);
    assert_eq!(
        (layer.prices.len(), diagnostics.len()),
        (0, 1),
        "what a repository says about them does not count"
    );
}

#[test]
fn a_tier_is_one_target_or_a_list_and_the_user_replaces_that_of_the_system() {
    let layer = |layer, text: &str| (layer, format!("{layer:?}.toml"), check(text, &[]));
    let system = "[tiers]\nfast = [\"codex\", \"gemini\"]\ngeneral = \"claude\"\n";
    let user = "[tiers]\nfast = \"local\"\nreasoning = [\"opencode/openrouter/big\", \"claude\"]\n\"a.b\" = [\"codex\"]\n";
    let config = merge(vec![layer(Layer::User, user), layer(Layer::System, system)]);
    let target = |backend: &str, model: Option<&str>| TierTarget {
        backend: backend.to_owned(),
        model: model.map(ToOwned::to_owned),
    };
    let expected = [
        ("a.b", vec![target("codex", None)]),
        ("fast", vec![target("local", None)]),
        ("general", vec![target("claude", None)]),
        ("reasoning", vec![target("opencode", Some("openrouter/big")), target("claude", None)]),
    ];
    assert_eq!(config.tiers(), expected.map(|(tier, targets)| (tier.to_owned(), targets)).into());
    let rows: Vec<_> = config.rows().into_iter().filter(|row| row.key.starts_with("tiers.")).collect();
    let row = |key: &str, value: serde_json::Value, layer: Layer| SettingRow {
        key: key.to_owned(),
        value,
        layer,
        file: format!("{layer:?}.toml"),
    };
    let expected = [
        row("tiers.a.b", json!("codex"), Layer::User),
        row("tiers.fast", json!("local"), Layer::User),
        row("tiers.general", json!("claude"), Layer::System),
        row("tiers.reasoning", json!(["opencode/openrouter/big", "claude"]), Layer::User),
    ];
    assert_eq!(rows, expected);
}

#[test]
fn a_tier_that_is_wrong_is_left_out_and_explained() {
    let long = format!("[{}]", vec!["\"a\""; 17].join(", "));
    let longest = format!("[{}]", vec!["\"a\""; 16].join(", "));
    let text = format!(
        "[tiers]\na = \"/m\"\nb = [\"local\", \"local/\"]\nc = []\nd = {long}\ne = [\"x\", 3]\nf = \"two words\"\n\
         g = \"x/-m\"\nh.i = \"x\"\n\"j k\" = \"x\"\nl = {longest}\nm = \"\"\n"
    );
    let layer = check(
        &text,
        &[
            "c.toml:2:5: error: tiers.a: \"/m\": the backend is missing (hint: write BACKEND or BACKEND/MODEL)",
            "c.toml:3:15: error: tiers.b: \"local/\": the model is missing (hint: without '/', the backend chooses its \
             model)",
            "c.toml:4:5: error: tiers.c: the list has 0 entries (hint: a tier has 1 to 16)",
            "c.toml:5:5: error: tiers.d: the list has 17 entries (hint: a tier has 1 to 16)",
            "c.toml:6:11: error: tiers.e: expected text, found the number 3 (hint: put it in quotes: \"3\")",
            "c.toml:7:5: error: tiers.f: \"two words\": the name of the backend is not valid (hint: 1 to 64 letters, digits, \
             '.', '_' or '-', beginning with a letter or digit)",
            "c.toml:8:5: error: tiers.g: \"x/-m\": the name of the model is not valid (hint: at most 200 bytes without blanks \
             and control characters, not beginning with '-')",
            "c.toml:9:1: error: tiers.h: expected text or a list, found a map (hint: write tiers as TIER = \"BACKEND/MODEL\"; \
             a tier with '.' needs quotes)",
            "c.toml:10:1: error: tiers: \"j k\" cannot be a tier (hint: a tier is 1 to 64 letters, digits, '.', '_' or '-')",
            "c.toml:12:5: error: tiers.m: expected text, found an empty one",
        ],
    );
    assert!(layer.has_errors);
    assert_eq!(layer.tiers.into_keys().collect::<Vec<_>>(), ["l"]);
    check(
        "tiers = \"local\"\n",
        &[
            "c.toml:1:9: error: tiers: expected keys with values, found the text \"local\" (hint: write [tiers], then TIER = \"BACKEND\")",
        ],
    );
}

#[test]
fn a_project_cannot_redirect_a_tier() {
    let (layer, diagnostics) =
        read(ConfigFile { layer: Layer::Project, ..file("[tiers]\nfast = \"elsewhere\"\n") });
    let diagnostics: Vec<String> = diagnostics.iter().map(ToString::to_string).collect();
    assert_eq!(
        diagnostics,
        [
            "c.toml:1:1: warning: tiers concerns the whole machine and is ignored in a project's file (hint: put it into \
          your own configuration)"
        ]
    );
    assert_eq!(layer, ConfigLayer::default());
}

#[test]
fn a_provider_is_read_and_shown_for_trust() {
    let lines = "[backends.x]\napi = \"openai\"\nbase_url = \"https://models.example.org/v1\"\nkey_env = \"MY_KEY\"\n\
                 model = \"big\"\nmax_tokens = 100\n[backends.y]\napi = \"xai\"\n";
    let layer = check(lines, &[]);
    let x = Provider {
        api: "openai".to_owned(),
        base_url: Some("https://models.example.org/v1".to_owned()),
        key_env: Some("MY_KEY".to_owned()),
        model: Some("big".to_owned()),
        max_tokens: Some(100),
    };
    let y = Provider { api: "grok".to_owned(), base_url: None, key_env: None, model: None, max_tokens: None };
    let expected =
        [("x", x), ("y", y)].map(|(name, service)| (name.parse().unwrap(), Backend::Provider(service)));
    assert_eq!(layer.backends, expected.into());
    let expected_text = "backend x: the API of openai at \"https://models.example.org/v1\" with the key in MY_KEY\n\
                backend y: the API of grok\n";
    assert_eq!(executables(&layer), expected_text);
    for (line, problem) in [
        ("base_url = \"ftp://x\"", "\"ftp://x\" is no address"),
        ("base_url = \"https://a:b@x\"", "\"https://a:b@x\" has a user in it; keys are given by key_env"),
        ("base_url = \"https://x/v1?key=1\"", "\"https://x/v1?key=1\" has more than a path behind its host"),
    ] {
        let hint = "(hint: write for example https://models.example.org/v1)";
        refuse_backend(
            &format!("api = \"openai\"\n{line}"),
            &[&format!("c.toml:3:12: error: backends.x.base_url: {problem} {hint}")],
        );
    }
    refuse_backend(
        "api = \"openai\"\nkey_env = \"A=b\"",
        &[
            "c.toml:3:11: error: backends.x.key_env: expected the name of a variable, found an assignment (hint: give only \
           the name; the value is passed on)",
        ],
    );
}

#[test]
fn a_nearer_file_takes_rights_of_powerspawn_away_and_gives_none() {
    let layer = |layer: Layer, level: &str| {
        let text = format!("[serve]\npowerspawn_permission = \"{level}\"\n");
        (layer, format!("{layer:?}"), check(&text, &[]))
    };
    let level = |layers| merge(layers).powerspawn_permission.value;
    assert_eq!(level(Vec::new()), Level::Yolo);
    assert_eq!(level(vec![layer(Layer::User, "safe-edit"), layer(Layer::Project, "yolo")]), Level::SafeEdit);
    assert_eq!(
        level(vec![layer(Layer::User, "safe-edit"), layer(Layer::Project, "read-only")]),
        Level::ReadOnly
    );
}

#[test]
fn a_nearer_file_narrows_what_dialect_agents_inherit_and_restores_nothing() {
    let layer = |text: &str| check(text, &[]);
    let inherit = |files: &[(Layer, &str)]| {
        let layers = files.iter().map(|(at, text)| (*at, "c.toml".to_owned(), layer(text))).collect();
        merge(layers).inherit(DialectName::SubAgentsMcp).into_iter().collect::<Vec<_>>()
    };
    let only = |items: &str| format!("[dialects.sub-agents-mcp]\ninherit = [{items}]\n");
    assert_eq!(inherit(&[]), Inherited::ALL);
    let users = only("\"environment\", \"settings\"");
    assert_eq!(inherit(&[(Layer::User, &users)]), [Inherited::Environment, Inherited::Settings]);
    let projects = only("\"settings\", \"mcp-servers\"");
    let both = [(Layer::User, users.as_str()), (Layer::Project, projects.as_str())];
    assert_eq!(inherit(&both), [Inherited::Settings]);
    assert_eq!(inherit(&[(Layer::User, &only(""))]), []);
}

#[test]
fn a_dialect_or_an_item_that_there_is_not_is_reported() {
    check(
        "[dialects.volery]\ninherit = []\n",
        &[
            "c.toml:1:11: error: \"volery\" is not the name of another system's dialect (hint: it can be sub-agents-mcp, jarvis, codex, \
           budgie, powerspawn)",
        ],
    );
    check(
        "[dialects.jarvis]\ninherit = [\"settings\"]\n",
        &[
            "c.toml:2:12: warning: jarvis gives its agents no settings, so this has no effect (hint: remove settings here)",
        ],
    );
    let (layer, diagnostics) = read(file("[dialects.budgie]\ninherit = [\"everything\"]\n"));
    assert!(layer.has_errors && diagnostics.len() == 1, "{diagnostics:?}");
}
