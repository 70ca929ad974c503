//! The declared name of a file that cannot be used.

use domain::agent::AgentFormat;

use crate::agent_formats::declared_name;

#[test]
fn a_name_is_found_however_the_rest_of_its_file_is_broken() {
    let cases = [
        (AgentFormat::Kiro, "{\"name\":\"rev\",\"description\":\"sub-agent: x\",\n \"tools\": [\"a\",]}"),
        (
            AgentFormat::Kiro,
            "{\"mcpServers\": {\"x\": {\"name\": \"no\", \"a\": \"\\\"}\"}}, \"name\" : \"rev\"",
        ),
        (AgentFormat::DotAgents, "---\nname: rev\nrun-agent: codex\npermission: maybe\n---\nx"),
        (AgentFormat::Claude, "\n \n---\nname: rev\nmaxTurns: x\n---\n"),
        (AgentFormat::Claude, "---\n\"name\": rev\nmaxTurns: x\n---\n"),
        (AgentFormat::Claude, "---\n'name': rev\nmaxTurns: [\n---\n"),
        (AgentFormat::Claude, "---\n{description: d, name: rev, maxTurns: x}\n---\n"),
        (AgentFormat::Claude, "---\r\ndescription: caf\u{fffd}\r\nname: rev\r\n"),
        (AgentFormat::Codex, "\u{feff}name = \"rev\"\ndescription = \"d\"\n"),
        (AgentFormat::Codex, "\"name\" = 'rev'\nsandbox_mode = [\n[x]\nname = \"no\"\n"),
    ];
    for (format, text) in cases {
        let name = declared_name(format, text, "other");
        assert_eq!(name.as_ref().map(|name| name.as_str()), Some("rev"), "{text}");
    }
}

#[test]
fn a_file_without_a_name_is_named_by_its_stem() {
    let cases = [
        (AgentFormat::Kiro, "{\"mcpServers\": {\"x\": {\"name\": \"no\"}},"),
        (AgentFormat::Claude, "text\n---\nname: no\n---\n"),
        (AgentFormat::Claude, "---\ntools: [\n---\nname: no\n"),
        (AgentFormat::Codex, "a = [\n[mcp_servers]\nname = \"no\"\n"),
        (AgentFormat::Plain, "---\nname: no\n---\n"),
        (AgentFormat::Directive, "<directive version=\"1\" name=\"no\">"),
    ];
    for (format, text) in cases {
        let name = declared_name(format, text, "other");
        assert_eq!(name.as_ref().map(|name| name.as_str()), Some("other"), "{text}");
    }
}
