//! Which name a file is about that cannot be used.

use domain::agent::Format;

use crate::agent::name_of;

#[test]
fn a_name_is_found_however_the_rest_of_its_file_is_broken() {
    let found = [
        (Format::Kiro, "{\"name\":\"rev\",\"description\":\"sub-agent: x\",\n \"tools\": [\"a\",]}"),
        (Format::Kiro, "{\"mcpServers\": {\"x\": {\"name\": \"no\", \"a\": \"\\\"}\"}}, \"name\" : \"rev\""),
        (Format::DotAgents, "---\nname: rev\nrun-agent: codex\npermission: maybe\n---\nx"),
        (Format::Claude, "\n \n---\nname: rev\nmaxTurns: x\n---\n"),
        (Format::Claude, "---\n\"name\": rev\nmaxTurns: x\n---\n"),
        (Format::Claude, "---\n'name': rev\nmaxTurns: [\n---\n"),
        (Format::Claude, "---\n{description: d, name: rev, maxTurns: x}\n---\n"),
        (Format::Claude, "---\r\ndescription: caf\u{fffd}\r\nname: rev\r\n"),
        (Format::Codex, "\u{feff}name = \"rev\"\ndescription = \"d\"\n"),
        (Format::Codex, "\"name\" = 'rev'\nsandbox_mode = [\n[x]\nname = \"no\"\n"),
        (Format::Directive, "<directive version=\"1\" name=\"rev\">"),
    ];
    for (format, text) in found {
        let name = name_of(format, text, "other");
        assert_eq!(name.as_ref().map(|name| name.as_str()), Some("rev"), "{text}");
    }
}

#[test]
fn a_file_that_says_no_name_is_known_by_its_own() {
    let silent = [
        (Format::Kiro, "{\"mcpServers\": {\"x\": {\"name\": \"no\"}},"),
        (Format::Claude, "text\n---\nname: no\n---\n"),
        (Format::Claude, "---\ntools: [\n---\nname: no\n"),
        (Format::Codex, "a = [\n[mcp_servers]\nname = \"no\"\n"),
        (Format::Plain, "---\nname: no\n---\n"),
    ];
    for (format, text) in silent {
        let name = name_of(format, text, "other");
        assert_eq!(name.as_ref().map(|name| name.as_str()), Some("other"), "{text}");
    }
}
