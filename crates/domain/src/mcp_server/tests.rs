//! How references to variables are found in a text, and resolved.

use proptest::prelude::*;

use super::{McpServer, TextPiece, Transport, VariableText, server_in_tool_name};

fn variable<'a>(name: &'a str, default: Option<&'a str>) -> TextPiece<'a> {
    TextPiece::Variable { name, default }
}

#[test]
fn references_are_found_between_literals() {
    let text = VariableText::from("Bearer ${TOKEN} at ${HOST:-localhost:80}!");
    let pieces = [
        TextPiece::Literal("Bearer "),
        variable("TOKEN", None),
        TextPiece::Literal(" at "),
        variable("HOST", Some("localhost:80")),
        TextPiece::Literal("!"),
    ];
    assert_eq!(text.pieces(), pieces);
    assert_eq!(VariableText::from_variable_name("A_1").pieces(), [variable("A_1", None)]);
}

#[test]
fn an_incomplete_reference_is_a_literal() {
    for text in ["$HOME", "${", "${}", "${1A}", "${A B}", "a${A", "$${"] {
        assert_eq!(VariableText::from(text).pieces(), [TextPiece::Literal(text)], "{text}");
    }
    assert_eq!(VariableText::from("${ ${A}").variables().collect::<Vec<_>>(), ["A"]);
}

#[test]
fn values_are_substituted_and_missing_ones_reported() {
    let value_of = |name: &str| (name == "TOKEN").then(|| "s3cret".to_owned());
    let resolve = |text: &str| VariableText::from(text).resolve(value_of);
    assert_eq!(resolve("Bearer ${TOKEN}"), Ok("Bearer s3cret".to_owned()));
    assert_eq!(resolve("${A:-x}${B:-}"), Ok("x".to_owned()));
    assert_eq!(resolve("${A} ${TOKEN} ${B}"), Err(vec!["A".to_owned(), "B".to_owned()]));
}

#[test]
fn a_server_names_all_its_variables_once() {
    let env = [("A".to_owned(), "${TOKEN}".into()), ("B".to_owned(), "${TOKEN}-${USER_ID}".into())];
    let transport =
        Transport::Stdio { command: "srv".to_owned(), args: vec!["${ARG}".into()], env: env.into() };
    let server = McpServer { name: "x".to_owned(), transport, tools: None, timeout_ms: None };
    assert_eq!(server.variables(), ["ARG", "TOKEN", "USER_ID"]);
}

#[test]
fn values_with_secret_names_are_secrets() {
    let headers = [("Authorization".to_owned(), "Bearer abc".into()), ("Accept".to_owned(), "text".into())];
    let transport = Transport::Http { url: "http://x.example".into(), headers: headers.into() };
    let server = McpServer { name: "x".to_owned(), transport, tools: None, timeout_ms: None };
    assert_eq!(server.secrets(), [TextPiece::Literal("Bearer abc"), TextPiece::Literal("abc")]);
}

proptest! {
    #[test]
    fn the_pieces_are_the_text(text in "[${}A-C:-]{0,30}") {
        let whole = VariableText::from(text.as_str());
        let joined: String = whole
            .pieces()
            .iter()
            .map(|piece| match piece {
                TextPiece::Literal(literal) => (*literal).to_owned(),
                TextPiece::Variable { name, default: None } => format!("${{{name}}}"),
                TextPiece::Variable { name, default: Some(default) } => format!("${{{name}:-{default}}}"),
            })
            .collect();
        prop_assert_eq!(joined, text);
    }
}

#[test]
fn literal_values_are_hidden_whatever_their_names() {
    let text = r#"{"name": "s", "transport": {"stdio": {"command": "x", "args": ["-v"],
        "env": {"A": "plain", "B": "${TOKEN}", "C": "", "D": "${X:-y}"}}}}"#;
    let mut server: McpServer = serde_json::from_str(text).unwrap();
    assert!(server.has_literals());
    server.hide_literals("***");
    let Transport::Stdio { args, env, .. } = &server.transport else { panic!("{server:?}") };
    let shown: Vec<&str> = env.values().map(VariableText::as_str).collect();
    assert_eq!((shown, args[0].as_str()), (vec!["***", "${TOKEN}", "", "${X:-y}"], "-v"));
    let text = r#"{"name": "s", "transport": {"http": {"url": "http://x", "headers": {"authorization": "Bearer k"}}}}"#;
    let mut server: McpServer = serde_json::from_str(text).unwrap();
    server.hide_literals("***");
    assert!(!serde_json::to_string(&server).unwrap().contains("Bearer k"));
    let text = r#"{"name": "s", "transport": {"http": {"url": "http://x", "headers": {"a": "${K}"}}}}"#;
    assert!(!serde_json::from_str::<McpServer>(text).unwrap().has_literals());
}

#[test]
fn secrets_in_arguments_and_urls_are_found_and_hidden() {
    let text = r#"{"name": "s", "transport": {"stdio": {"command": "x", "args":
        ["--api-key", "k-12345678", "--token=t-12345678", "--level", "high", "${T:-}", "--token", "${T}"],
        "env": {"ANY": "${A:-ghp_0123456789abcdef0123}"}}}}"#;
    let mut server: McpServer = serde_json::from_str(text).unwrap();
    let secrets = ["k-12345678", "t-12345678", "ghp_0123456789abcdef0123"].map(TextPiece::Literal);
    assert_eq!(server.secrets(), secrets);
    assert!(server.has_literals());
    server.hide_literals("***");
    let Transport::Stdio { args, env, .. } = &server.transport else { panic!("{server:?}") };
    let shown: Vec<&str> = args.iter().map(VariableText::as_str).collect();
    assert_eq!(shown, ["--api-key", "***", "--token=***", "--level", "high", "${T:-}", "--token", "${T}"]);
    assert_eq!(env["ANY"].as_str(), "${A:-***}");
    let text = r#"{"name": "s", "transport": {"sse": {"url": "https://u:p-secret@h.example/?key=abc"}}}"#;
    let mut server: McpServer = serde_json::from_str(text).unwrap();
    assert!(server.has_literals());
    server.hide_literals("***");
    let Transport::Sse { url, .. } = &server.transport else { panic!("{server:?}") };
    assert_eq!(url.as_str(), "https://u:***@h.example/?key=***");
    let text = r#"{"name": "s", "transport": {"stdio": {"command": "x", "args": ["--level", "high"]}}}"#;
    assert!(!serde_json::from_str::<McpServer>(text).unwrap().has_literals());
}

#[test]
fn the_server_is_found_in_every_vendors_spelling_of_its_tools() {
    let named = [
        ("mcp__github__*", Some("github")),
        ("mcp__github", Some("github")),
        ("@birds/list", Some("birds")),
        ("playwright/*", Some("playwright")),
        ("github/get_issue", Some("github")),
        ("mcp_my-server_*", Some("my-server")),
        ("mcp_*", None),
        ("search/codebase", None),
        ("edit/editFiles", None),
        ("vscode/memory", None),
        ("@builtin", None),
        ("Read", None),
        ("read_file", None),
        ("*", None),
    ];
    for (tool, server) in named {
        assert_eq!(server_in_tool_name(tool), server, "{tool}");
    }
}
