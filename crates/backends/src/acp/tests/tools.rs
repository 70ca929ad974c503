//! Tool calls: how they are reported, asked about, and stored.

use domain::agent::Delegates;
use domain::mcp_server::{McpServer, Transport};
use domain::permission::{Level, Permission};
use serde_json::{Value, json};

use super::{TestConversation, hello, launch, permission_request, permission_requests, set, spec, update};
use crate::acp::Acp;
use crate::acp::tool_calls::{SessionServers, ToolCalls};
use crate::contract::{AgentReport, Backend, PermissionDecision, PermissionRequest};

#[test]
fn a_permission_request_is_assembled_from_all_updates() {
    let mut conversation = TestConversation::prompted(&spec("acp-kimi"));
    conversation.receive(&update(
        &json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Bash", "kind": "execute",
        "content": [{"type": "content", "content": {"type": "text", "text": "{\"command\":\"ls\"}"}}]}),
    ));
    let reports =
        conversation.receive(&permission_request(7, &json!({"toolCallId": "c", "title": "Running: ls"})));
    let input = json!({"command": "ls", "title": "Bash"});
    assert_eq!(
        permission_requests(&reports),
        [PermissionRequest { id: "7#0".to_owned(), tool: "execute".to_owned(), input }]
    );
    conversation.decide("7#0", &PermissionDecision::Deny("no".to_owned()));
    let outcome = json!({"outcome": {"outcome": "selected", "optionId": "no"}});
    assert_eq!(conversation.written.last().unwrap(), &json!({"jsonrpc": "2.0", "id": 7, "result": outcome}));
}

#[test]
fn every_file_of_an_edit_needs_permission() {
    let mut conversation = TestConversation::prompted(&spec("acp-kimi"));
    let call = json!({"toolCallId": "c", "title": "Edit", "kind": "edit", "rawInput": {"path": "a.txt"},
        "content": [{"type": "diff", "path": "/p/b.txt", "newText": "x"}], "locations": [{"path": "/etc/passwd"}]});
    let reports = conversation.receive(&permission_request(7, &call));
    let paths: Vec<String> = permission_requests(&reports)
        .iter()
        .map(|ask| ask.input["file_path"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(paths, ["a.txt", "/etc/passwd", "/p/b.txt"]);
    assert_eq!(conversation.decide("7#0", &PermissionDecision::Allow(json!({}))), []);
    assert_eq!(conversation.decide("7#2", &PermissionDecision::Allow(json!({}))), []);
    conversation.decide("7#1", &PermissionDecision::Allow(json!({})));
    assert_eq!(conversation.written.last().unwrap()["result"]["outcome"]["optionId"], "yes");
}

#[test]
fn tools_are_named_by_what_is_stricter() {
    let mut spec = spec("acp-kimi");
    spec.delegates = Delegates::Anyone;
    let cases = [
        (json!({"name": "Bash", "kind": "read"}), "Bash"),
        (json!({"name": "launch", "kind": "read"}), "launch"),
        (json!({"name": "launch", "kind": "execute"}), "execute"),
        (json!({"kind": "delete"}), "edit"),
        (json!({"title": "Frobnicate the bird"}), "Frobnicate"),
        (json!({"_meta": {"goose": {"toolCall": {"toolName": "shell"}}}}), "shell"),
        (json!({"_meta": {"toolName": "web_fetch"}}), "web_fetch"),
    ];
    for (mut call, tool) in cases {
        let mut conversation = TestConversation::prompted(&spec);
        call["toolCallId"] = json!("c");
        let reports = conversation.receive(&permission_request(7, &call));
        assert_eq!(permission_requests(&reports)[0].tool, tool, "{call}");
    }
    let mut conversation = TestConversation::prompted(&spec);
    conversation.receive(&permission_request(
        7,
        &json!({"toolCallId": "c", "name": "volery-run_agent", "kind": "other"}),
    ));
    let actual = &conversation.written.last().unwrap()["result"]["outcome"]["optionId"];
    assert_eq!(actual, "yes", "whoever may delegate is not asked about it");
}

/// A conversation of an agent with the server `aviary` and these rules.
fn with_server(kind: &str, level: Option<Level>, deny: &[&str]) -> TestConversation {
    let mut spec = spec(kind);
    spec.setup.permission.level = level;
    spec.setup.permission.deny = deny.iter().map(|rule| rule.parse().unwrap()).collect();
    let transport = Transport::Stdio { command: "s".to_owned(), args: Vec::new(), env: [].into() };
    spec.setup.mcp_servers =
        vec![McpServer { name: "aviary".to_owned(), transport, tools: None, timeout_ms: None }];
    let mut conversation = TestConversation::new(&spec);
    conversation.receive(&hello(&json!({})));
    let modes = crate::registry::vendor_for_backend(kind).and_then(|vendor| vendor.acp?.profile.modes);
    let mode = modes.map(|modes| modes.safe_edit);
    conversation.receive(
        &json!({"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s-1", "modes": {"currentModeId": mode}}}),
    );
    conversation
}

#[test]
fn a_servers_tool_is_recognised_in_every_form() {
    let codex = json!({"sessionUpdate": "tool_call", "toolCallId": "c", "kind": "execute", "title": "mcp.aviary.count",
        "rawInput": {"server": "aviary", "tool": "count", "arguments": {}}, "_meta": {"is_mcp_tool_call": true}});
    let copilot = json!({"sessionUpdate": "tool_call", "toolCallId": "c", "kind": "other", "title": "aviary-count",
        "rawInput": {}});
    for (kind, begins) in [("acp-codex", codex), ("acp-copilot", copilot)] {
        let mut conversation = with_server(kind, Some(Level::SafeEdit), &[]);
        conversation.receive(&update(&begins));
        let reports = conversation.receive(&permission_request(
            7,
            &json!({"toolCallId": "c", "kind": begins["kind"], "title": "count"}),
        ));
        assert_eq!(permission_requests(&reports)[0].tool, "mcp__aviary__count", "{kind}");
    }
}

#[test]
fn a_tool_that_may_be_a_restricted_one_of_a_server_is_denied() {
    // Its title is what the model calls it.
    let described = json!({"sessionUpdate": "tool_call", "toolCallId": "c", "kind": "other", "title": "aviary-count",
        "rawInput": {"description": "aviary-count"}});
    let mut conversation = with_server("acp-copilot", Some(Level::Yolo), &["mcp__aviary__drop"]);
    conversation.receive(&update(&described));
    assert_eq!(
        permission_requests(
            &conversation.receive(&permission_request(7, &json!({"toolCallId": "c", "kind": "other"})))
        ),
        []
    );
    assert_eq!(conversation.written.last().unwrap()["result"]["outcome"]["optionId"], "no");
    let mut conversation = with_server("acp-copilot", Some(Level::SafeEdit), &[]);
    conversation.receive(&update(&described));
    let reports = conversation.receive(&permission_request(7, &json!({"toolCallId": "c", "kind": "other"})));
    assert_eq!(permission_requests(&reports)[0].tool, "aviary-count", "no tool of the server's");
    // A command of the same name is not a server's tool.
    let mut conversation = with_server("acp-codex", Some(Level::SafeEdit), &[]);
    let command = json!({"toolCallId": "c", "kind": "execute", "title": "mcp.aviary.count", "rawInput": {"command": "x"}});
    assert_eq!(
        permission_requests(&conversation.receive(&permission_request(7, &command)))[0].tool,
        "execute"
    );
    let mut approval = permission_request(8, &json!({"toolCallId": "d", "kind": "execute"}));
    approval["params"]["_meta"] = json!({"is_mcp_tool_approval": true});
    assert_eq!(permission_requests(&conversation.receive(&approval)), [], "which one was not told");
    assert_eq!(conversation.written.last().unwrap()["result"]["outcome"]["optionId"], "no");
}

#[test]
fn a_restricted_agent_cannot_delegate_to_unrestricted_ones() {
    let extensions = |rules: &str| {
        let mut spec = spec("acp-goose");
        spec.setup.permission = serde_json::from_str(rules).unwrap();
        set(&launch(&spec), "EXTENSIONS").to_owned()
    };
    assert!(extensions(r#"{"level": "yolo"}"#).contains("summon"));
    for rules in
        [r#"{"level": "yolo", "deny": ["Bash(rm:*)"]}"#, r#"{"level": "read-only", "allow": ["Task"]}"#, "{}"]
    {
        let actual = extensions(rules);
        assert!(actual.contains("developer") && !actual.contains("summon"), "{rules}: {actual}");
    }
    let goose = crate::registry::by_kind("acp-goose").unwrap();
    let permission: Permission =
        serde_json::from_str(r#"{"level": "read-only", "allow": ["Task"]}"#).unwrap();
    assert_eq!(goose.inexpressible_grants(&permission, &Value::Null), ["the rule allow Task"]);
}

#[test]
fn a_permission_that_could_only_be_permanent_is_not_given() {
    let options = json!([{"optionId": "always", "name": "Always", "kind": "allow_always"}]);
    let params =
        json!({"sessionId": "s-1", "toolCall": {"toolCallId": "c", "kind": "execute"}, "options": options});
    let ask = json!({"jsonrpc": "2.0", "id": 7, "method": "session/request_permission", "params": params});
    for (level, expected) in [(Some(Level::Yolo), json!("always")), (None, Value::Null)] {
        let mut spec = spec("acp-kimi");
        spec.setup.permission.level = level;
        let mut conversation = TestConversation::prompted(&spec);
        conversation.receive(&ask);
        conversation.decide("7#0", &PermissionDecision::Allow(json!({})));
        assert_eq!(conversation.written.last().unwrap()["result"]["outcome"]["optionId"], expected);
    }
}

#[test]
fn files_terminals_and_unknown_methods_are_refused() {
    let mut conversation = TestConversation::prompted(&spec("acp-kimi"));
    for method in ["fs/read_text_file", "terminal/create", "craft/drainMidTurnQueue"] {
        conversation.receive(&json!({"jsonrpc": "2.0", "id": "x", "method": method, "params": {}}));
        let answer = conversation.written.last().unwrap();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("x"), &json!(-32601)));
    }
}

#[test]
fn a_tool_call_is_reported_once_when_its_input_is_known() {
    let mut conversation = TestConversation::prompted(&spec("acp-claude"));
    let begin = json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Terminal", "name": "Bash",
        "kind": "execute", "rawInput": {}});
    assert_eq!(conversation.receive(&update(&begin)), []);
    let known =
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "rawInput": {"command": "ls"}});
    let called = AgentReport::ToolCalled {
        id: "c".to_owned(),
        name: "Bash".to_owned(),
        input: json!({"command": "ls"}),
    };
    assert_eq!(conversation.receive(&update(&known)), [called]);
    assert_eq!(conversation.receive(&update(&known)), []);
    let done = json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "failed", "rawOutput": "no"});
    let returned = AgentReport::ToolReturned { id: "c".to_owned(), ok: false, output: "no".to_owned() };
    assert_eq!(conversation.receive(&update(&done)), [returned]);
}

#[test]
fn tool_calls_that_are_too_large_to_store_are_denied() {
    let mut conversation = TestConversation::prompted(&spec("acp-kimi"));
    let begins = |id: &str, bytes: usize| {
        let input = json!({"command": "x".repeat(bytes)});
        update(&json!({"sessionUpdate": "tool_call", "toolCallId": id, "title": "Bash", "kind": "execute",
            "rawInput": input}))
    };
    for id in ["a", "b", "c"] {
        assert_eq!(conversation.receive(&begins(id, 7 << 20)).len(), 1);
    }
    let reports = conversation.receive(&permission_request(7, &json!({"toolCallId": "a"})));
    assert_eq!(permission_requests(&reports), []);
    assert_eq!(conversation.written.last().unwrap()["result"]["outcome"]["optionId"], "no");
    let reports = conversation.receive(&permission_request(8, &json!({"toolCallId": "c"})));
    assert_eq!(permission_requests(&reports)[0].input["command"].as_str().unwrap().len(), 7 << 20);
    assert_eq!(conversation.receive(&begins("a", 1)), [], "what is forgotten is not told again");
    assert_eq!(
        permission_requests(&conversation.receive(&permission_request(9, &json!({"toolCallId": "a"})))),
        []
    );
    let done = json!({"sessionUpdate": "tool_call_update", "toolCallId": "a", "status": "completed", "rawOutput": "yes"});
    let returned = AgentReport::ToolReturned { id: "a".to_owned(), ok: true, output: "yes".to_owned() };
    assert_eq!(conversation.receive(&update(&done)), [returned]);
}

#[test]
fn stored_tool_calls_are_bounded_in_bytes() {
    let mut calls = ToolCalls::new(SessionServers::default());
    let long = "x".repeat(1 << 20);
    let zeros = vec![0; 100_000];
    for number in 0..40 {
        let call = match number % 4 {
            0 => json!({"toolCallId": format!("{number}"), "rawInput": {"a": long}}),
            1 => json!({"toolCallId": format!("{number}"), "title": long}),
            2 => json!({"toolCallId": format!("{number}"), "locations": [{"path": long}]}),
            _ => json!({"toolCallId": format!("{number}"), "rawInput": {"a": zeros}}),
        };
        calls.handle_update(serde_json::from_value(call).unwrap());
        assert!(calls.bytes() <= 16 << 20, "{number}: {}", calls.bytes());
    }
    assert!(calls.bytes() > 8 << 20, "{}", calls.bytes());
    let long_id = json!({"toolCallId": long, "rawInput": {"a": 1}});
    let (_, parts) = calls.handle_permission_request(serde_json::from_value(long_id).unwrap());
    assert_eq!(parts, []);
}

#[test]
fn unenforceable_rules_are_named() {
    let permission = Permission {
        level: Some(Level::ReadOnly),
        allow: vec!["Read".parse().unwrap()],
        ask: vec!["Edit(src/**)".parse().unwrap()],
        deny: vec!["Bash(rm:*)".parse().unwrap(), "mcp__x".parse().unwrap()],
    };
    let gaps = |kind: &str| crate::registry::by_kind(kind).unwrap().unenforceable(&permission, &Value::Null);
    assert_eq!(gaps("acp-goose"), Vec::<String>::new(), "it asks about everything");
    assert_eq!(gaps("acp-codex"), ["the rule deny Bash(rm:*)"], "it lets harmless commands pass");
    let all = [
        "the level read-only",
        "the rule ask Edit(src/**)",
        "the rule deny Bash(rm:*)",
        "the rule deny mcp__x",
    ];
    assert_eq!(gaps("acp"), all, "nobody knows what it asks");
    for kind in ["acp-claude", "acp-gemini", "acp-opencode", "acp-qwen"] {
        assert_eq!(gaps(kind), all, "{kind} does not ask about what settings allow");
    }
    assert_eq!(gaps("acp-kimi"), all[..3], "it edits what git knows unasked");
    let editor = Permission { level: Some(Level::SafeEdit), ..Permission::default() };
    let kimi = crate::registry::by_kind("acp-kimi").unwrap();
    assert_eq!(kimi.unenforceable(&editor, &Value::Null), [""; 0], "beyond the directory it asks");
    assert_eq!(
        Acp.unenforceable(&Permission { level: Some(Level::Yolo), ..Permission::default() }, &Value::Null),
        [""; 0]
    );
}

#[test]
fn codex_is_put_in_a_mode_in_which_it_asks_about_the_edits_that_rules_speak_of() {
    let modes = ["read-only", "workspace-write", "agent-full-access"];
    let mode = |level: Level, ask: &[&str], deny: &[&str]| {
        let mut spec = spec("acp-codex");
        let parse = |rules: &[&str]| rules.iter().map(|rule| rule.parse().unwrap()).collect();
        spec.setup.permission =
            Permission { level: Some(level), ask: parse(ask), deny: parse(deny), ..Permission::default() };
        let mut conversation = TestConversation::new(&spec);
        conversation.receive(&hello(&json!({})));
        let available: Vec<Value> = modes.iter().map(|mode| json!({"id": mode, "name": mode})).collect();
        conversation.receive(&json!({"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s-1", "modes": {
            "currentModeId": "auto", "availableModes": available}}}));
        let set =
            conversation.written.iter().find(|message| message["method"] == "session/set_mode").unwrap();
        set["params"]["modeId"].as_str().unwrap().to_owned()
    };
    assert_eq!(mode(Level::SafeEdit, &[], &[]), "workspace-write");
    assert_eq!(mode(Level::SafeEdit, &[], &["mcp__x"]), "workspace-write");
    assert_eq!(mode(Level::Yolo, &[], &[]), "agent-full-access");
    for level in [Level::SafeEdit, Level::Yolo] {
        assert_eq!(mode(level, &[], &["Edit"]), "read-only");
        assert_eq!(mode(level, &[], &["Edit(secret/**)"]), "read-only");
        assert_eq!(mode(level, &["Write"], &[]), "read-only");
    }
}
