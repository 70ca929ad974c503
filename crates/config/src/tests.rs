//! Scripts and frontmatter, and properties of every reader for any text.

use domain::agent::{
    Agent, AgentFormat, AgentSource, Callers, Delegates, Layer, RehearsalScript, RehearsalStep, ScriptSource,
};
use domain::budget::RequestedLimits;
use domain::diagnostic::{Diagnostic, Severity};
use domain::id::AgentName;
use domain::run::{ContainmentDemand, OnDisconnect, OnInterrupt};
use proptest::prelude::*;
use serde_json::json;

use crate::agent_formats::{
    AgentFile, claude, codex, copilot, cursor, directive, dot_agents, gemini, jarvis, kiro, opencode, plain,
    qwen, volery,
};
use crate::frontmatter::{self, Missing, Parts};
use crate::script;
use crate::settings::{self, ConfigFile};

#[track_caller]
fn accept(text: &str, steps: Vec<RehearsalStep>) {
    assert_eq!(script::read(text, "a.yaml"), (Some(RehearsalScript { steps }), Vec::new()));
}

#[track_caller]
fn refuse(text: &str, expected: &[&str]) {
    let (script, diagnostics) = script::read(text, "a.yaml");
    let diagnostics: Vec<String> = diagnostics.iter().map(ToString::to_string).collect();
    assert_eq!((script, diagnostics), (None, expected.iter().map(|text| (*text).to_owned()).collect()));
}

fn every_step() -> (&'static str, Vec<RehearsalStep>) {
    let text = "\
- say: Hello {prompt}
- sleep: 250ms
- write: {path: out/a.txt, text: hi}
- write:
    path: b.txt
    text: |
      two
      lines
- append: {path: b.txt, text: three}
- ask: Continue?
- delegate: {agent: reviewer, prompt: Look at it}
- usage: {input_tokens: 10, output_tokens: 5, cost_usd: 0.01}
- usage: {output_tokens: 7}
- fail: no luck
";
    let steps = vec![
        RehearsalStep::Say("Hello {prompt}".to_owned()),
        RehearsalStep::Sleep(250),
        RehearsalStep::Write { path: "out/a.txt".to_owned(), text: "hi".to_owned() },
        RehearsalStep::Write { path: "b.txt".to_owned(), text: "two\nlines\n".to_owned() },
        RehearsalStep::Append { path: "b.txt".to_owned(), text: "three".to_owned() },
        RehearsalStep::Ask("Continue?".to_owned()),
        RehearsalStep::Delegate { agent: "reviewer".parse().unwrap(), prompt: "Look at it".to_owned() },
        RehearsalStep::Usage { input_tokens: 10, output_tokens: 5, cost_microusd: Some(10_000) },
        RehearsalStep::Usage { input_tokens: 0, output_tokens: 7, cost_microusd: None },
        RehearsalStep::Fail("no luck".to_owned()),
    ];
    (text, steps)
}

#[test]
fn every_step_of_a_script_is_read() {
    let (text, steps) = every_step();
    accept(text, steps);
}

#[test]
fn the_steps_may_be_below_a_key() {
    accept("steps:\n  - say: a\n", vec![RehearsalStep::Say("a".to_owned())]);
    accept("[]", Vec::new());
}

#[test]
fn all_problems_of_a_script_are_reported() {
    let text = "\
- sya: a
- dance: b
- say: 5
- say: a
  sleep: 1s
- {}
- plain
- sleep: soon
- write: {path: /etc/passwd, txt: a}
- write: {path: ../a}
- delegate: {agent: a b}
- usage: {input_tokens: -1, cost_usd: much}
";
    let rule = "1 to 100 letters, digits, '.', '_' or '-', beginning with a letter, digit or '_'; ':' and '/' join such \
                words";
    refuse(
        text,
        &[
            "a.yaml:1:3: error: unknown step \"sya\" (hint: did you mean say?)",
            "a.yaml:2:3: error: unknown step \"dance\" (hint: known steps: say, sleep, write, append, ask, delegate, usage, \
             fail)",
            "a.yaml:3:8: error: say: expected text, found the number 5 (hint: put it in quotes: \"5\")",
            "a.yaml:5:3: error: a step has one key; write each step after its own dash",
            "a.yaml:6:3: error: an empty step",
            "a.yaml:7:3: error: expected a step, found the text \"plain\" (hint: write for example - say: Hello)",
            "a.yaml:8:10: error: sleep: expected a duration, found the text \"soon\" (hint: write for example 250ms, \
             30s, 5m or 1h30m; a number counts seconds)",
            "a.yaml:9:17: error: write.path: \"/etc/passwd\" is not a relative path without '..'",
            "a.yaml:9:30: warning: unknown key \"txt\" in write is ignored (hint: did you mean text?)",
            "a.yaml:10:17: error: write.path: \"../a\" is not a relative path without '..'",
            "a.yaml:11:13: error: the key delegate.prompt is missing",
            &format!(
                "a.yaml:11:21: error: delegate.agent: \"a b\" is not the name of an agent (hint: {rule})"
            ),
            "a.yaml:12:25: error: usage.input_tokens: expected a whole number from 0 to 1125899906842624, found the \
             number -1",
            "a.yaml:12:39: error: usage.cost_usd: expected an amount of dollars, found the text \"much\"",
        ],
    );
}

#[test]
fn a_script_must_have_steps() {
    let missing = "error: the script has no steps (hint: write a list such as\n- say: Hello\n- sleep: 1s)";
    refuse(
        "step: []\n",
        &[
            &format!("a.yaml:1:1: {missing}"),
            "a.yaml:1:1: warning: unknown key \"step\" is ignored (hint: did you mean steps?)",
        ],
    );
    refuse("", &["a.yaml:1:1: error: steps: expected a list, found nothing"]);
    refuse("- say: [\n", &["a.yaml:1:8: error: not valid YAML: unclosed bracket '['"]);
}

#[test]
fn the_size_of_a_script_is_bounded() {
    let steps = |count: usize| "- say: a\n".repeat(count);
    let (script, _) = script::read(&steps(script::STEPS_MAX), "a.yaml");
    assert_eq!(script.map(|script| script.steps.len()), Some(script::STEPS_MAX));
    refuse(&steps(script::STEPS_MAX + 1), &["a.yaml:1:1: error: steps: 10001 steps are more than 10000"]);
    let large = format!("- say: {}\n", "a".repeat(crate::FILE_BYTES_MAX));
    refuse(&large, &["a.yaml:1:1: error: the script has more than 1048576 bytes"]);
}

#[test]
fn frontmatter_is_split_from_the_body() {
    let parts = |yaml, lines_before, body| Ok(Parts { yaml, lines_before, body });
    assert_eq!(frontmatter::split("---\na: 1\n---\nbody\n---\nmore"), parts("a: 1\n", 1, "body\n---\nmore"));
    assert_eq!(frontmatter::split("\n \n---  \n--- \n"), parts("", 3, ""));
    assert_eq!(frontmatter::split("---\n---"), parts("", 1, ""));
    assert_eq!(frontmatter::split("---\na: 1\n"), Err(Missing::End));
    assert_eq!(frontmatter::split("a\n---\n---\n"), Err(Missing::Begin));
    assert_eq!(frontmatter::split(""), Err(Missing::Begin));
}

// Properties of every reader for any text.

const AGENT: &str = "---\nname: shout\ndescription: \"Turns: text\"\nbackend: upper\nuse_when: [a, 'b']\nenv: [A_B]\n\
                     timeout: 30s\nlimits: {memory: 1G, cpu: 5}\ncallers: [main]\ndelegates: &d [x]\n\
                     on_disconnect: cancel\nsteps:\n  - say: |\n      Hällo\n  - usage: {input_tokens: 3}\n---\n\
                     Prompt.\n";
const CONFIG: &str = "# all of it\n[backends.upper]\ncommand = [\"tr\", 'a-z', \"A-Z\", \"{prompt}\"]\n\
                      output = \"jsonl\"\nresult = \"/a/b\"\nterminal = { \"/type\" = \"result\", \"/n\" = 0x1F }\n\
                      env = [\"Ü\"]\nsuccess_codes = [0, 1]\n[limits]\ntimeout = \"1m\"\nmemory = 1_048_576\n\
                      [slots]\ncount = 4\n[clients.\"a b\"]\nwait = 2.5\n[run]\ncontainment = \"strict\"\n";

const KIRO: &str = "{\n\"name\": \"a\", \"description\": \"sub-agent: x\", \"allowedTools\": [\"fs_read\", \"@git/log\"],\n\
                    \"mcpServers\": {\"g\": {\"command\": \"x\", \"env\": {\"T\": \"${T}\"}}},\n\
                    \"hooks\": {\"x\": [{\"command\": \"\\u00fc\"}]}, \"n\": [1, -2.5e3, null, true]}\n";
const DIRECTIVE: &str = "# Ä\n```xml\n<directive name=\"stem\" version=\"1.0\">\n<metadata><description>Ü &amp; b</description>\n\
                         <model tier='general'/><permissions><read resource=\"env\"/></permissions></metadata>\n\
                         <inputs><input name=\"a\">x < y</input></inputs>\n\
                         <process><step><action><![CDATA[a && b]]></action></step></process>\n<!-- c -->\n\
                         </directive>\n```\n";
const VENDORS: &str = "---\nname: a b\ndescription: \"x\"\ntools: [Read, 'Bash(a:*)']\nmodel: inherit\npermissionMode: plan\n\
                       mcpServers: [a, {b: {command: x, args: ['']}}]\npermission: {bash: {'*': ask}}\nkind: local\n\
                       run-agent: codex\ntimeout_mins: 3\noutput_schema: {type: object}\n---\nPrompt.\n";

fn samples() -> [&'static str; 6] {
    [AGENT, CONFIG, every_step().0, KIRO, DIRECTIVE, VENDORS]
}

/// The result of one reader for a text.
struct Reading {
    reader: &'static str,
    /// Whether there is a value; the configuration is read as far as it is right.
    read: Option<bool>,
    /// Whether no error means that there is a value; some formats have files for other programs.
    whole: bool,
    /// Whether the reader counts lines after normalizing line feeds.
    normalizes: bool,
    diagnostics: Vec<Diagnostic>,
}

/// Passes a text to every reader and returns the results.
fn read_all(text: &str) -> Vec<Reading> {
    let file = AgentFile { text, file: "f", stem: "stem", layer: Layer::User };
    let defaults = plain::PlainDefaults::default();
    let skills = [text.to_owned()];
    let jarvis_folder = jarvis::AgentFolder { folder: "d", memory: Some(text), skills: &skills };
    let kiro_sidecars = kiro::SidecarFiles {
        prompt: None,
        system_template: Some(text),
        summary_template: Some(text),
        sub_agents_only: true,
    };
    let agents = [
        ("volery", true, true, volery::read(file)),
        ("plain", true, true, plain::read(file, &defaults)),
        ("dot_agents", true, true, dot_agents::read(file, &defaults)),
        ("jarvis", true, true, jarvis::read(file, jarvis_folder)),
        ("directive", true, true, directive::read(file)),
        ("claude", true, true, claude::read(file)),
        ("cursor", true, true, cursor::read(file)),
        ("gemini", true, true, gemini::read(file)),
        ("qwen", true, true, qwen::read(file)),
        ("opencode", false, true, opencode::read(file)),
        ("copilot", false, true, copilot::read(file)),
        ("codex", true, false, codex::read(file)),
        ("kiro", false, false, kiro::read(file, kiro_sidecars)),
    ];
    let mut readings: Vec<Reading> = agents
        .into_iter()
        .map(|(reader, whole, normalizes, (agent, diagnostics))| {
            check_agent(agent.as_ref());
            Reading { reader, read: Some(agent.is_some()), whole, normalizes, diagnostics }
        })
        .collect();
    let described = "{\"description\": \"sub-agent: x\"}";
    let prompt = kiro::SidecarFiles { prompt: Some((text, "f")), ..kiro::SidecarFiles::default() };
    let (agent, diagnostics) = kiro::read(AgentFile { text: described, ..file }, prompt);
    readings.push(Reading {
        reader: "kiro prompt",
        read: Some(agent.is_some()),
        whole: true,
        normalizes: true,
        diagnostics,
    });
    let (script, diagnostics) = script::read(text, "f");
    readings.push(Reading {
        reader: "script",
        read: Some(script.is_some()),
        whole: true,
        normalizes: true,
        diagnostics,
    });
    let config_file = ConfigFile { text, file: "f", layer: Layer::User, built_in: &["rehearsal"] };
    let (layer, diagnostics) = settings::read(config_file);
    let shown = settings::executables(&layer);
    assert!(shown.bytes().all(|byte| byte == b'\n' || (b' '..=b'~').contains(&byte)), "{shown:?}");
    let merged = settings::merge(vec![(Layer::User, "f".to_owned(), layer)]);
    assert!(merged.rows().len() > 10);
    readings.push(Reading { reader: "config", read: None, whole: true, normalizes: false, diagnostics });
    readings
}

/// Checks properties of any agent: no part of it looks like an option or contains a NUL.
fn check_agent(agent: Option<&Agent>) {
    let Some(agent) = agent else { return };
    assert!(!agent.system_prompt.contains('\0'));
    assert!(agent.model.as_deref().is_none_or(|model| !model.starts_with('-')));
    assert!(agent.setup.effort.as_deref().is_none_or(|effort| !effort.starts_with('-')));
    let permission = &agent.setup.permission;
    let rules = permission.allow.iter().chain(&permission.ask).chain(&permission.deny);
    assert!(rules.into_iter().all(|rule| !rule.spelling().starts_with('-')));
    let stored = serde_json::to_value(&agent.setup).unwrap();
    assert_eq!(serde_json::from_value::<domain::setup::Setup>(stored).unwrap(), agent.setup);
}

/// Checks properties of all results for a text.
fn check(text: &str) -> Result<(), TestCaseError> {
    let normal = frontmatter::normalize(text);
    let plain = text.strip_prefix('\u{feff}').unwrap_or(text);
    for Reading { reader, read, whole, normalizes, diagnostics } in read_all(text) {
        let errors = diagnostics.iter().any(Diagnostic::is_error);
        prop_assert!(!(read == Some(true) && errors), "reader {}: {:?}", reader, diagnostics);
        prop_assert!(!(read == Some(false) && whole && !errors), "reader {}: {:?}", reader, diagnostics);
        let lines: Vec<&str> =
            if normalizes { normal.split('\n').collect() } else { plain.split('\n').collect() };
        for diagnostic in diagnostics {
            prop_assert!(
                !diagnostic.message.is_empty() && diagnostic.message.len() < 2_000,
                "{}",
                diagnostic
            );
            let (Some(line), Some(column)) = (diagnostic.line, diagnostic.column) else {
                prop_assert!(diagnostic.message.ends_with("not shown"), "no place: {}", diagnostic);
                continue;
            };
            let width = lines.get(line as usize - 1).map(|line| line.chars().count());
            let inside = width.is_some_and(|width| (1..=width + 1).contains(&(column as usize)));
            prop_assert!(inside, "{}: outside of {} lines: {}", reader, lines.len(), diagnostic);
        }
    }
    Ok(())
}

#[test]
fn the_samples_are_read_without_errors() {
    let agent_reading = read_all(AGENT).remove(0);
    assert_eq!(agent_reading.read, Some(true), "{:?}", agent_reading.diagnostics);
    let config_diagnostics = read_all(CONFIG).pop().unwrap().diagnostics;
    let messages: Vec<&str> = config_diagnostics
        .iter()
        .filter(|diagnostics| diagnostics.severity == Severity::Error)
        .map(|diagnostics| diagnostics.message.as_str())
        .collect();
    assert_eq!(messages, ["backends.upper.env: \"Ü\" is not the name of a variable"]);
}

#[test]
fn every_beginning_of_a_sample_is_survived() {
    for sample in samples() {
        for end in (0..=sample.len()).filter(|end| sample.is_char_boundary(*end)) {
            check(&sample[..end]).unwrap();
        }
    }
}

fn yaml_like() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "---\n",
        "---",
        "\n",
        "  ",
        "- ",
        ": ",
        ":",
        "backend",
        "limits",
        "steps",
        "say",
        "timeout",
        "name",
        "'",
        "\"",
        "[",
        "]",
        "{",
        "}",
        ",",
        "|\n",
        ">\n",
        "&a ",
        "*a",
        "!!str ",
        "!x ",
        "# c",
        "~",
        "5",
        "-1",
        "1e999",
        "ü",
        "\t",
        "\r\n",
        "\r",
        "\u{feff}",
        "\u{2028}",
        "<<",
        "? ",
        "%YAML 1.2\n",
        "...",
        "\0",
        "description",
        "yes",
    ]);
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

fn toml_like() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "[",
        "]",
        "[[",
        "]]",
        "backends",
        ".",
        "upper",
        "\n",
        "=",
        " = ",
        "command",
        "\"tr\"",
        "'",
        "\"",
        "{",
        "}",
        ",",
        "1",
        "0x",
        "1979-05-27",
        "true",
        "limits",
        "memory",
        "\"1G\"",
        "{promt}",
        "\"{prompt}\"",
        "#",
        "\\u0000",
        "\r\n",
        "\"\"\"",
        "inf",
        "nan",
        "-",
        "+",
        "_",
        "ü",
        "slots",
        "count",
        "terminal",
        "\"/a\"",
        "\r",
        "\u{feff}",
        "prompt",
    ]);
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

fn json_like() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "\"",
        "\\",
        "\\u12",
        "\"name\"",
        "\"a\": ",
        "\"hooks\"",
        "\"mcpServers\"",
        "1",
        "-",
        "1e9",
        "1e999",
        "null",
        "tru",
        "true",
        " ",
        "\n",
        "\t",
        "\r\n",
        "ü",
        "\u{feff}",
        "\0",
        "\"command\": \"x\"",
    ]);
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

fn directive_like() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "<directive",
        "</directive>",
        "<metadata>",
        "</metadata>",
        "<inputs>",
        "<input",
        " name=",
        "\"a\"",
        "'",
        "\"",
        ">",
        "/>",
        "<",
        "</",
        "<action>",
        "</action>",
        "<![CDATA[",
        "]]>",
        "<!--",
        "-->",
        "&lt;",
        "&",
        "```",
        "\n",
        "ü",
        "<permissions>",
        "<model tier=\"x\"/>",
        "\0",
        "=",
    ]);
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    #[test]
    fn any_text_is_survived(text in "\\PC{0,200}") {
        check(&text)?;
    }

    #[test]
    fn any_bytes_in_frontmatter_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let text = String::from_utf8_lossy(&bytes);
        check(&format!("---\n{text}\n---\nbody\n"))?;
        check(&text)?;
    }

    #[test]
    fn yaml_like_text_is_survived(text in yaml_like()) {
        check(&text)?;
        check(&format!("---\n{text}\n---\n"))?;
    }

    #[test]
    fn json_like_text_is_survived(text in json_like()) {
        check(&text)?;
        check(&format!("{{\"description\": \"sub-agent: x\", {text}"))?;
    }

    #[test]
    fn directive_like_text_is_survived(text in prop_oneof![
        directive_like(),
        Just("<directive name=<![CDATA[</directive>".to_owned()),
    ]) {
        check(&text)?;
        check(&format!("<directive name=\"stem\" version=\"1\">{text}</directive>"))?;
    }

    #[test]
    fn toml_like_text_is_survived(text in toml_like()) {
        check(&text)?;
        check(&format!("[backends.a]\n{text}"))?;
    }

    #[test]
    fn flipped_bits_are_survived(
        sample in prop::sample::select(samples().to_vec()),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 0_u32..8), 1..4),
    ) {
        let mut bytes = sample.as_bytes().to_vec();
        for (index, bit) in &flips {
            let at = index.index(bytes.len());
            bytes[at] ^= 1 << bit;
        }
        check(&String::from_utf8_lossy(&bytes))?;
    }

    #[test]
    fn a_script_that_was_written_reads_back(steps in prop::collection::vec(step(), 0..8)) {
        let script = RehearsalScript { steps };
        prop_assert_eq!(script::read(&write_script(&script), "f"), (Some(script), Vec::new()));
    }

    #[test]
    fn an_agent_that_was_written_reads_back(agent in agent()) {
        let text = write_agent(&agent);
        let file = AgentFile { text: &text, file: "f", stem: "other", layer: Layer::User };
        prop_assert_eq!(volery::read(file), (Some(agent), Vec::new()));
    }
}

fn text_with_letters() -> impl Strategy<Value = String> {
    // Anything printable, quotes, colons and line ends included; blank texts are refused by design.
    "[^\\p{C}]{0,20}[a-zA-Z:'\"#é\u{1f600}][^\\p{C}]{0,5}(\n[a-z: ]{0,9}x)?"
}

fn name() -> impl Strategy<Value = AgentName> {
    "[a-zA-Z0-9][a-zA-Z0-9._-]{0,20}".prop_map(|name| name.parse().unwrap())
}

fn step() -> impl Strategy<Value = RehearsalStep> {
    prop_oneof![
        text_with_letters().prop_map(RehearsalStep::Say),
        (0_u64..1 << 30).prop_map(RehearsalStep::Sleep),
        ("[a-z]{1,5}(/[a-z.]{1,5}x)?", "[^\\p{C}]{0,20}")
            .prop_map(|(path, text)| RehearsalStep::Write { path, text }),
        ("[a-z]{1,5}", text_with_letters()).prop_map(|(path, text)| RehearsalStep::Append { path, text }),
        text_with_letters().prop_map(RehearsalStep::Ask),
        (name(), text_with_letters()).prop_map(|(agent, prompt)| RehearsalStep::Delegate { agent, prompt }),
        (0_u64..1 << 40, 0_u64..1 << 40, prop::option::of(0_u64..1 << 40)).prop_map(
            |(input_tokens, output_tokens, cost_microusd)| RehearsalStep::Usage {
                input_tokens,
                output_tokens,
                cost_microusd
            }
        ),
        text_with_letters().prop_map(RehearsalStep::Fail),
    ]
}

fn agent() -> impl Strategy<Value = Agent> {
    let time = || prop::option::of(1_u64..1 << 36);
    let limits = (time(), time(), prop::option::of(1_u64 << 20..1 << 50), prop::option::of(0_u32..99))
        .prop_map(|(timeout_ms, grace_ms, memory_bytes, depth)| RequestedLimits {
            timeout_ms,
            grace_ms,
            memory_bytes,
            depth,
            ..RequestedLimits::default()
        });
    let texts = || prop::collection::vec(text_with_letters(), 0..3);
    let script = prop::option::of(prop::collection::vec(step(), 0..3));
    let lists = (
        texts(),
        prop::option::of(prop::collection::vec(text_with_letters(), 1..3)),
        prop::collection::vec(name(), 1..3),
    );
    (name(), text_with_letters(), text_with_letters(), lists, limits, script).prop_map(
        |(name, description, prompt, lists, limits, script)| {
            let (use_when, callers, delegates) = lists;
            let source =
                AgentSource { file: "f".to_owned(), format: AgentFormat::Volery, layer: Layer::User };
            Agent {
                description: description.trim().to_owned(),
                system_prompt: prompt.trim().to_owned(),
                use_when,
                limits,
                callers: callers.map_or(Callers::Anyone, Callers::Only),
                delegates: Delegates::Only(delegates),
                on_disconnect: Some(OnDisconnect::Cancel { grace_ms: 1 }),
                on_interrupt: OnInterrupt::Resume,
                containment: ContainmentDemand::Plain,
                script: script.map(|steps| ScriptSource::Inline(RehearsalScript { steps })),
                ..Agent::new(name, "upper".parse().unwrap(), source)
            }
        },
    )
}

/// Writes JSON, which is YAML, so that only the reader is under test.
fn write_script(script: &RehearsalScript) -> String {
    let steps: Vec<serde_json::Value> = script
        .steps
        .iter()
        .map(|step| match step {
            RehearsalStep::Say(text) => json!({ "say": text }),
            RehearsalStep::Sleep(ms) => json!({ "sleep": format!("{ms}ms") }),
            RehearsalStep::Write { path, text } => json!({ "write": { "path": path, "text": text } }),
            RehearsalStep::Append { path, text } => json!({ "append": { "path": path, "text": text } }),
            RehearsalStep::Ask(text) => json!({ "ask": text }),
            RehearsalStep::Delegate { agent, prompt } => {
                json!({ "delegate": { "agent": agent, "prompt": prompt } })
            }
            RehearsalStep::Usage { input_tokens, output_tokens, cost_microusd } => {
                let cost_usd = cost_microusd.map(|cost| cost as f64 / 1e6);
                let (input, output) = (input_tokens, output_tokens);
                json!({ "usage": { "input_tokens": input, "output_tokens": output, "cost_usd": cost_usd } })
            }
            RehearsalStep::Fail(text) => json!({ "fail": text }),
        })
        .collect();
    serde_json::Value::from(steps).to_string()
}

fn write_agent(agent: &Agent) -> String {
    let ms = |time: Option<u64>| time.map(|ms| format!("{ms}ms"));
    let mut lines = vec![
        ("name", json!(agent.name)),
        ("description", json!(agent.description)),
        ("backend", json!(agent.backend)),
        ("use_when", json!(agent.use_when)),
        ("timeout", json!(ms(agent.limits.timeout_ms))),
        ("grace", json!(ms(agent.limits.grace_ms))),
        ("limits", json!({ "memory": agent.limits.memory_bytes, "depth": agent.limits.depth })),
        ("on_disconnect", json!("cancel")),
        ("disconnect_grace", json!("1ms")),
        ("on_interrupt", json!("resume")),
        ("containment", json!("plain")),
    ];
    if let Callers::Only(names) = &agent.callers {
        lines.push(("callers", json!(names)));
    }
    if let Delegates::Only(names) = &agent.delegates {
        lines.push(("delegates", json!(names)));
    }
    let mut text: String = lines.into_iter().map(|(key, value)| format!("{key}: {value}\n")).collect();
    if let Some(ScriptSource::Inline(script)) = &agent.script {
        text.push_str(&format!("steps: {}\n", write_script(script)));
    }
    format!("---\n{text}---\n{}\n", agent.system_prompt)
}
