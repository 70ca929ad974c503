//! Samples of every shape that directives are written in: what becomes of each line, and what is refused.

use domain::access::{AccessEffect, AccessRule, AccessSubject};
use domain::agent::{Agent, Layer};
use domain::diagnostic::Diagnostic;
use domain::directive::{Criterion, DeclaredToolKind, Directive, DirectiveLimits};
use proptest::prelude::*;

use super::words::command_words;
use super::{is_directive, read};
use crate::agent_formats::AgentFile;

mod bounds;
mod coverage;
mod permissions;

const SAMPLES: [(&str, &str); 9] = [
    ("kiwi_tools", include_str!("samples/kiwi_tools.md")),
    ("kiwi_guidance", include_str!("samples/kiwi_guidance.md")),
    ("kiwi_groups", include_str!("samples/kiwi_groups.md")),
    ("rye_after_fence", include_str!("samples/rye_after_fence.md")),
    ("rye_services", include_str!("samples/rye_services.md")),
    ("rye_everything", include_str!("samples/rye_everything.md")),
    ("rye_template", include_str!("samples/rye_template.md")),
    ("ryeos", include_str!("samples/ryeos.md")),
    ("ryeos_services", include_str!("samples/ryeos_services.md")),
];

fn read_text(text: &str, stem: &str) -> (Option<Agent>, Vec<Diagnostic>) {
    read(AgentFile { text, file: "d.md", stem, layer: Layer::Project })
}

/// Returns the agent of a text that has no errors.
fn accept(text: &str, stem: &str) -> (Agent, Directive, Vec<String>) {
    let (agent, diagnostics) = read_text(text, stem);
    let messages: Vec<String> = diagnostics.iter().map(line_and_message).collect();
    let agent = agent.unwrap_or_else(|| panic!("{messages:#?}"));
    let directive = agent.directive.clone().expect("every directive has one");
    (agent, *directive, messages)
}

fn sample(name: &str) -> (Agent, Directive, Vec<String>) {
    let (_, text) = SAMPLES.iter().find(|(known, _)| *known == name).expect("a known sample");
    accept(text, name)
}

fn line_and_message(diagnostic: &Diagnostic) -> String {
    let word = if diagnostic.is_error() { "error" } else { "warning" };
    format!("{}: {word}: {}", diagnostic.line.unwrap_or_default(), diagnostic.message)
}

/// Wraps metadata in a directive that has everything else.
fn with_metadata(metadata: &str) -> String {
    format!(
        "<directive name=\"d\" version=\"1.0.0\">\n<metadata><description>x</description>\n{metadata}\n</metadata>\n\
         <process><step name=\"s\"><action>Act.</action></step></process>\n</directive>\n"
    )
}

fn messages(text: &str) -> Vec<String> {
    read_text(text, "d").1.iter().map(line_and_message).collect()
}

fn names(directive: &Directive) -> Vec<&str> {
    directive.steps.iter().map(|step| step.name.as_str()).collect()
}

#[test]
fn the_procedure_of_kiwi_is_read_in_its_order() {
    let (agent, directive, diagnostics) = sample("kiwi_tools");
    assert_eq!(diagnostics, ["1: warning: the signature is not verified"]);
    assert_eq!(
        directive.instructions,
        "\
# Release a branch

Prose before the block belongs to the instructions.

  Releases a branch to the
      staging area

  <context>
    <tech_stack>typescript & sql</tech_stack>
  </context>

  <process>
    <step name=\"validate\">
      <description>Validates the schema of {branch}</description>
      <action>Run lint && stop if a < b or Vec<T> occurs. <![CDATA[x]]></action>
      <tool_call tool=\"lint_schema\"/>
      <verification><check>No findings</check></verification>
    </step>
    <step name=\"migrate\" condition=\"validate passed\">
      <action>Apply all migrations.</action>
      <!-- Stop here if one fails. -->
    </step>
  </process>

  <success_criteria>
    <criterion>All migrations are applied</criterion>
    <criterion command=\"npm run check 'all tables'\">The check passes</criterion>
    <criterion><command>git diff --exit-code</command>Nothing else changed</criterion>
  </success_criteria>

  <outputs>
    <success>Report the applied migrations</success>
    <failure>Name the broken migration</failure>
  </outputs>

Notes after the block."
    );
    assert_eq!(agent.system_prompt, directive.instructions);
    assert_eq!(agent.description, "Releases a branch to the staging area");
    assert_eq!(names(&directive), ["validate", "migrate"]);
    assert_eq!(directive.steps[0].description, "Validates the schema of {branch}");
    assert_eq!(directive.steps[1].description, "Apply all migrations.");
    let command = |text: &str, words: &[&str]| Criterion {
        text: text.to_owned(),
        command: (!words.is_empty()).then(|| words.iter().map(|word| (*word).to_owned()).collect()),
    };
    assert_eq!(
        directive.criteria,
        [
            command("All migrations are applied", &[]),
            command("The check passes", &["npm", "run", "check", "all tables"]),
            command("Nothing else changed", &["git", "diff", "--exit-code"]),
        ]
    );
    assert!(directive.is_async);
    let model = (directive.model.tier.as_deref(), directive.model.id.as_deref());
    assert_eq!(model, (Some("balanced"), Some("some-model")));
    assert_eq!(directive.model.fallback, ["general"]);
}

#[test]
fn declared_tools_are_read() {
    let (_, directive, _) = sample("kiwi_tools");
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let tools = directive.tools.unwrap();
    let kinds: Vec<(DeclaredToolKind, bool)> =
        tools.into_iter().map(|tool| (tool.kind, tool.is_required)).collect();
    let mcp = |server: &str, tools: &[&str]| DeclaredToolKind::Mcp {
        server: server.to_owned(),
        tools: texts(tools),
    };
    assert_eq!(
        kinds,
        [
            (DeclaredToolKind::ReadFiles { paths: texts(&["src/**", "schema/**"]) }, false),
            (DeclaredToolKind::WriteFiles { paths: texts(&["out/**"]) }, false),
            (DeclaredToolKind::Shell { commands: vec![texts(&["git"]), texts(&["npm"])] }, true),
            (mcp("database", &["migrate", "describe"]), true),
            (mcp("tracker", &["create"]), false),
            (DeclaredToolKind::Script { name: "lint_schema".to_owned() }, false),
            (DeclaredToolKind::Fetch { hosts: texts(&["api.example.org"]) }, false),
            (DeclaredToolKind::Directives, false),
            (DeclaredToolKind::Items { action: "search".to_owned() }, false),
        ]
    );
}

#[test]
fn a_guide_needs_no_permissions_and_its_checks_may_be_commands() {
    let (_, directive, diagnostics) = sample("kiwi_guidance");
    assert_eq!(directive.permissions, Some(Vec::new()));
    assert_eq!(directive.tools, None);
    let criteria: Vec<(&str, bool)> =
        directive.criteria.iter().map(|one| (one.text.as_str(), one.command.is_some())).collect();
    assert_eq!(
        criteria,
        [
            ("No failure", true),
            ("cargo doc | grep warning", false),
            ("Findings are sorted", false),
            ("Each has a line", false),
        ]
    );
    assert_eq!(
        diagnostics,
        [
            "8: warning: <model_class> is the old word for <model>",
            "15: warning: the directive \"base_setup\" is not run first; it is only noted",
            "18: warning: <budget_hint> in <metadata> is unknown, so only the model reads it",
            "33: warning: the command \"cargo doc | grep warning\" needs a shell because of \"|\", so only the model \
             checks it",
        ]
    );
    for text in ["<budget_hint>small</budget_hint>", "<what_built>", "<auto_fix>typos", "review_patterns"] {
        assert!(directive.instructions.contains(text), "{text}");
    }
}

#[test]
fn limits_are_read_in_every_spelling() {
    let limits = |name: &str| sample(name).1.limits;
    let none = DirectiveLimits::default();
    assert_eq!(
        limits("kiwi_groups"),
        DirectiveLimits {
            steps: Some(10),
            tokens: Some(50_000),
            children: Some(5),
            cost_microusd: Some(500_000),
            ..none.clone()
        }
    );
    assert_eq!(
        limits("rye_after_fence"),
        DirectiveLimits {
            steps: Some(8),
            tokens: Some(4_096),
            children: Some(2),
            depth: Some(3),
            timeout_ms: Some(90_000),
            cost_microusd: Some(100_000),
            ..none.clone()
        }
    );
    // `<cost>` has the lower number of turns.
    assert_eq!(
        limits("rye_services"),
        DirectiveLimits {
            steps: Some(2),
            tokens: Some(2_048),
            timeout_ms: Some(600_000),
            cost_microusd: Some(200_000),
            ..none.clone()
        }
    );
    assert_eq!(
        limits("ryeos"),
        DirectiveLimits {
            steps: Some(20),
            tool_calls: Some(40),
            tokens: Some(40_000),
            timeout_ms: Some(60_000),
            cost_microusd: Some(50_000),
            ..none.clone()
        }
    );
    // The number of steps of the process is an estimate, not a limit.
    assert_eq!(limits("kiwi_tools"), none);
    assert_eq!(
        messages(&with_metadata(
            "<limits turns=\"0\" tokens=\"many\" duration=\"-1\" spend=\"1e9\" colour=\"red\"/>"
        )),
        [
            "3: error: the limit turns must be a whole number of at least 1, not \"0\"",
            "3: error: the limit tokens must be a whole number of at least 1, not \"many\"",
            "3: error: the limit duration must be a number of seconds, not \"-1\"",
            "3: error: the limit spend must be an amount of dollars, not \"1e9\"",
            "3: warning: the limit colour=\"red\" is unknown and ignored",
        ]
    );
}

#[test]
fn the_procedure_of_rye_comes_after_the_fence() {
    let (agent, directive, diagnostics) = sample("rye_after_fence");
    assert_eq!(diagnostics, ["1: warning: the signature is not verified"]);
    assert_eq!(names(&directive), ["find", "write"]);
    assert!(directive.steps[0].description.starts_with("Find the notes about {input:topic}."));
    assert_eq!(directive.criteria[0].text, "The file exists in {input:target}");
    for text in [
        "Collects notes and writes one file.",
        "rye_search(item_type=",
        "directive_id: <directive to run>",
        "value=\"<!-- a 'quoted' mark --> text\"",
        "Closing words after the procedure.",
    ] {
        assert!(directive.instructions.contains(text), "{text}");
    }
    assert!(!directive.instructions.contains("file-system.*") && !directive.instructions.contains("```xml"));
    let model = &directive.model;
    assert_eq!((model.id.as_deref(), model.provider.as_deref()), (Some("a-model"), Some("zen/zen")));
    assert_eq!((agent.model.as_deref(), model.tier.as_deref()), (Some("a-model"), None));
    let outputs: Vec<(&str, &str, bool)> = directive
        .outputs
        .iter()
        .map(|output| (output.name.as_str(), output.kind.as_str(), output.is_required))
        .collect();
    assert_eq!(outputs, [("note_path", "any", true), ("count", "integer", false)]);
}

#[test]
fn services_that_do_not_exist_are_named_with_their_line() {
    let unsupported = |name: &str| -> Vec<String> {
        let found = sample(name).1.unsupported;
        found.iter().map(|feature| format!("{} {}", feature.line, feature.name)).collect()
    };
    assert_eq!(
        unsupported("rye_services"),
        [
            "7 extends=agent/core/base",
            "13 the knowledge rye/agent/core/Identity",
            "14 the knowledge rules/naming",
            "20 registry",
            "21 bundler",
            "22 telemetry",
            "23 web search",
            "24 graphs",
            "27 signing",
            "32 a limit of 20.00 EUR",
            "35 hooks",
        ]
    );
    assert_eq!(unsupported("kiwi_groups"), ["25 hooks"]);
    assert_eq!(
        unsupported("ryeos_services"),
        [
            "26 the service scheduler",
            "27 ryeos.get.vault.keys",
            "28 registry",
            "30 manifest {\"runtime_authority\": \"vault\"}",
            "3 extends=base/agent",
            "12 the knowledge rules/identity",
            "17 hooks",
        ]
    );
    assert_eq!(unsupported("rye_everything"), Vec::<String>::new());
    let (_, _, diagnostics) = sample("rye_everything");
    assert_eq!(
        diagnostics,
        ["8: warning: items are not signed here, so the permission to sign allows nothing"]
    );
}

#[test]
fn a_template_in_an_action_does_not_end_the_directive() {
    let (_, directive, diagnostics) = sample("rye_template");
    assert_eq!(diagnostics, Vec::<String>::new());
    assert_eq!(names(&directive), ["template", "last"]);
    assert_eq!(directive.permissions.unwrap().len(), 1);
    for text in
        ["path=\"never/**\"", "Inner text", "Then sign it.", "<!-- sig --> # Title", "Finish the file."]
    {
        assert!(directive.instructions.contains(text), "{text}");
    }
}

#[test]
fn frontmatter_is_read() {
    let (agent, directive, diagnostics) = sample("ryeos");
    assert_eq!(diagnostics, ["1: warning: the signature is not verified"]);
    assert!(
        directive
            .instructions
            .starts_with("Sorts incoming mail into folders.\n\nSort the mail into ${inputs.")
    );
    assert_eq!((agent.description.as_str(), agent.tags.len()), ("Sorts incoming mail into folders.", 3));
    assert_eq!(names(&directive), ["sort"]);
    assert_eq!(directive.criteria.len(), 1);
    let inputs: Vec<(&str, &str, bool, Option<&str>)> = agent
        .inputs
        .iter()
        .map(|input| (input.name.as_str(), input.kind.as_str(), input.required, input.default.as_deref()))
        .collect();
    assert_eq!(inputs, [("folder", "path", true, None), ("most", "integer", false, Some("5"))]);
    assert_eq!(directive.outputs[0].schema, Some(serde_json::json!({"items": {"type": "string"}})));
    assert_eq!(directive.outputs[1].description, "What was done");
    assert_eq!(directive.model.fallback, ["fast", "other-model"]);
    assert!(directive.is_async);
    let tools: Vec<(DeclaredToolKind, bool)> =
        directive.tools.unwrap().into_iter().map(|tool| (tool.kind, tool.is_required)).collect();
    let query = DeclaredToolKind::Mcp { server: "supabase".to_owned(), tools: vec!["query".to_owned()] };
    let shell = DeclaredToolKind::Shell { commands: vec![vec!["*".to_owned()]] };
    assert_eq!(tools, [(query, false), (shell, true)]);
    let (_, services, _) = sample("ryeos_services");
    assert_eq!(services.permissions, Some(Vec::new()));
}

#[test]
fn broken_frontmatter_is_reported() {
    for (text, expected) in [
        ("---\ndescription: x\nlimits: [\n---\nBody.\n", "3: error: not valid YAML: "),
        ("---\ndescription: x\nBody.\n", "1: error: the frontmatter has no end"),
        ("---\ndescription: x\nlimits: 3\n---\nBody.\n", "3: error: limits: expected keys with values"),
    ] {
        assert!(is_directive(text), "{text}");
        let found = messages(text);
        assert!(found.iter().any(|message| message.starts_with(expected)), "{found:?}");
    }
    assert!(!is_directive("---\ntitle: Notes\n---\nAbout directives.\n"));
}

#[test]
fn a_word_of_prose_is_not_the_start() {
    let text = format!("Write `<directive to run>` or <directives>.\n{}", with_metadata(""));
    let (_, directive, diagnostics) = accept(&text, "d");
    assert_eq!(diagnostics, Vec::<String>::new());
    assert!(directive.instructions.starts_with("Write `<directive to run>` or <directives>."));
    for text in
        ["A <directive to run> in prose.\n", "The tag `<directive>` begins one.\n", "# About <directives>\n"]
    {
        assert!(!is_directive(text), "{text}");
    }
    for text in ["<directive name=\"a\" oops>x</directive>", "<directive name=\"a\">"] {
        assert!(is_directive(text), "{text}");
        assert!(read_text(text, "a").0.is_none(), "{text}");
    }
}

#[test]
fn a_comment_without_an_end_hides_nothing() {
    for mark in ["<!-- open", "<![CDATA[ open"] {
        let text =
            with_metadata("<author>somebody</author>").replace("<metadata>", &format!("{mark}\n<metadata>"));
        let (_, directive, _) = accept(&text, "d");
        assert_eq!(directive.notes[0].text, "somebody", "{mark}");
        assert!(directive.instructions.starts_with(mark.trim_end_matches(" open")) || mark.contains("CDATA"));
        assert!(directive.instructions.contains("open"), "{}", directive.instructions);
    }
}

#[test]
fn what_is_optional_may_be_missing() {
    let text = "<directive name=\"other\">\n<process><step>Look around.</step></process>\n</directive>\n";
    let (agent, directive, diagnostics) = accept(text, "folder/small");
    assert_eq!(agent.name.as_str(), "folder/small");
    assert_eq!(
        diagnostics,
        [
            "1: warning: the directive \"other\" stands in a file of another name, by which it is found",
            "1: warning: the directive has no description",
        ]
    );
    assert_eq!((directive.tools, directive.permissions), (None, None));
    assert_eq!(directive.steps[0].name, "step_1");
    let (_, _, diagnostics) =
        accept(&with_metadata("<model id=\"x\"/>").replace("name=\"d\"", "name=\"a/d\""), "a/d");
    assert_eq!(diagnostics, Vec::<String>::new());
}

#[test]
fn all_problems_are_reported_at_once() {
    let text = "\
<directive name=\"ship\" version=\"0.0.0\" colour=\"red\">
  <metadata>
    <model tier=\"-x\"/>
    <permissions><read/><deny/><write resource=\"filesystem\"/></permissions>
    <tools><mcp/></tools>
    Stray text.
  </metadata>
  <inputs><input type=\"string\"/><input name=\"a\"/><input name=\"a\"/></inputs>
  <success_criteria><criterion command=\"make && echo ok\"/></success_criteria>
  <process><step></process>
</directive>
";
    let expected = [
        "1: warning: the directive \"ship\" stands in a file of another name, by which it is found",
        "1: warning: the version 0.0.0 is none",
        "1: warning: the attribute colour=\"red\" of <directive> is ignored",
        "1: warning: the directive has no description",
        "3: warning: \"-x\" is not the name of a model or tier, so it is ignored",
        "4: warning: <read> has no object; the permission allows nothing",
        "4: error: <deny> has no object, so nothing is denied",
        "4: warning: the permission has no path; the permission allows nothing",
        "5: error: an <mcp> has no name",
        "8: error: an <input> has no name",
        "8: error: the input \"a\" stands twice",
        "9: error: the command \"make && echo ok\" needs a shell because of \"&\", and there is none",
        "10: error: <step> is not closed before </process>",
    ];
    assert_eq!(messages(text), expected);
}

#[test]
fn commands_are_plain_words() {
    for (command, expected) in [
        ("cargo test --locked", Ok(vec!["cargo", "test", "--locked"])),
        ("grep 'a b' \"c d\"e x='y'", Ok(vec!["grep", "a b", "c de", "x=y"])),
        ("test -f {input:file} ${inputs.dir}/x", Ok(vec!["test", "-f", "{input:file}", "${inputs.dir}/x"])),
        ("a | b", Err("|")),
        ("a; b", Err(";")),
        ("a > b", Err(">")),
        ("echo $HOME", Err("$")),
        ("echo \"$HOME\"", Err("$")),
        ("echo `id`", Err("`")),
        ("ls *.rs", Err("*")),
        ("ls ~/x", Err("~")),
        ("a\nb", Err("\n")),
        ("A=b make", Err("A=b")),
        ("echo 'open", Err("'")),
        ("make # all", Err("#")),
        ("{a,b}", Err("{")),
        ("", Err("an empty command")),
    ] {
        let words = command_words(command);
        let words = words.as_ref().map(|words| words.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(words.map_err(String::as_str), expected, "{command}");
    }
}

/// Returns what a rule is about, of all rules that allow something.
fn allowed(rules: &[AccessRule]) -> Vec<AccessSubject> {
    rules.iter().filter(|rule| rule.effect == AccessEffect::Allow).map(|rule| rule.subject.clone()).collect()
}

fn directive_like() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "<directive name=\"d\">",
        "</directive>",
        "<directive ",
        "<metadata>",
        "</metadata>",
        "<permissions>",
        "</permissions>",
        "<execute>",
        "</execute>",
        "<execute resource=\"shell\" ",
        "<tool>",
        "</tool>",
        "<read ",
        "<tools>",
        "</tools>",
        "<mcp ",
        "<process>",
        "</process>",
        "<step>",
        "</step>",
        "<action>",
        "</action>",
        "<criterion ",
        "command=\"",
        "path=\"",
        "name=",
        "\"",
        "'",
        ">",
        "/>",
        "<",
        "</",
        "<![CDATA[",
        "]]>",
        "<!--",
        "-->",
        "```\n",
        "---\n",
        "description: x\n",
        "limits:\n",
        "  turns: ",
        "permissions:\n",
        "hooks:\n",
        "- a: b\n",
        "*",
        "rye.",
        ".",
        "{input:x}",
        "&lt;",
        "\n",
        "ü",
        "a",
        "1",
        "=",
        "\0",
        " ",
    ]);
    prop::collection::vec(piece, 0..80).prop_map(|pieces| pieces.concat())
}

fn check(text: &str) -> Result<(), TestCaseError> {
    let (agent, diagnostics) = read_text(text, "d");
    prop_assert_eq!(agent.is_some(), !diagnostics.iter().any(Diagnostic::is_error), "{:?}", diagnostics);
    let lines = u32::try_from(text.lines().count().max(1)).expect("a short text");
    for diagnostic in &diagnostics {
        prop_assert!(diagnostic.line.is_some_and(|line| (1..=lines).contains(&line)), "{diagnostic:?}");
    }
    if let Some(directive) = agent.and_then(|agent| agent.directive) {
        prop_assert!(!directive.instructions.trim().is_empty());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    #[test]
    fn any_text_is_survived(text in "\\PC{0,200}") {
        check(&text)?;
        check(&with_metadata(&text))?;
        check(&format!("---\ndescription: x\n{text}\n---\n{text}"))?;
    }

    #[test]
    fn directive_like_text_is_survived(text in directive_like()) {
        check(&text)?;
        check(&with_metadata(&text))?;
        check(&format!("<directive name=\"d\">{text}</directive>\n{text}"))?;
    }

    #[test]
    fn mutated_samples_are_survived(
        (_, text) in prop::sample::select(SAMPLES.to_vec()),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), 0_usize..40, directive_like()), 1..4),
    ) {
        let mut text = text.to_owned();
        for (index, length, insertion) in cuts {
            let start = text.floor_char_boundary(index.index(text.len() + 1));
            let end = text.floor_char_boundary((start + length).min(text.len())).max(start);
            text.replace_range(start..end, &insertion);
        }
        check(&text)?;
    }
}
