//! Agents and runs as resources.

use serde_json::{Value, json};

use super::client_session::{BOTH, ClientSession, Era, fast_options};

async fn read(session: &mut ClientSession, era: Era, uri: &str) -> Value {
    let answer = session.ask(era, "resources/read", json!({ "uri": uri })).await;
    let contents = &answer["result"]["contents"][0];
    assert_eq!(
        (&contents["uri"], &contents["mimeType"]),
        (&json!(uri), &json!("application/json")),
        "{answer}"
    );
    serde_json::from_str(contents["text"].as_str().unwrap()).unwrap()
}

#[tokio::test]
async fn agents_are_listed_and_runs_have_templates() {
    for era in BOTH {
        let mut session = ClientSession::begin(era, "x", json!({})).await;
        let list = session.ask(era, "resources/list", json!({})).await;
        let uris: Vec<_> =
            list["result"]["resources"].as_array().unwrap().iter().map(|r| &r["uri"]).collect();
        assert_eq!(uris, ["volery://agents", "volery://agents/quick"]);
        let templates = session.ask(era, "resources/templates/list", json!({})).await;
        let templates = templates["result"]["resourceTemplates"].as_array().unwrap().clone();
        let templates: Vec<_> = templates.iter().map(|template| template["uriTemplate"].clone()).collect();
        assert_eq!(
            templates,
            [
                "volery://agents/{name}",
                "volery://runs/{id}",
                "volery://runs/{id}/result{?offset}",
                "volery://runs/{id}/events{?from}"
            ]
        );
    }
}

#[tokio::test]
async fn agents_and_runs_can_be_read() {
    for era in BOTH {
        let mut session = ClientSession::begin(era, "x", json!({})).await;
        session.call(era, "run_agent", json!({ "agent": "quick", "prompt": "hi" })).await;
        let run = session.engine.run_ids()[0];
        assert_eq!(read(&mut session, era, "volery://agents").await["agents"][0]["name"], "quick");
        assert_eq!(read(&mut session, era, "volery://agents/quick").await["description"], "Shouts.");
        let shown = read(&mut session, era, &format!("volery://runs/{run}")).await;
        assert_eq!((&shown["status"], &shown["result"]), (&json!("succeeded"), &json!("HI")));
        let shown = read(&mut session, era, &format!("volery://runs/{}", run.short())).await;
        assert_eq!(shown["run_id"], run.to_string());
    }
}

#[tokio::test]
async fn events_come_in_pages() {
    let mut session = ClientSession::begin(Era::Legacy, "x", json!({})).await;
    session.call(Era::Legacy, "run_agent", json!({ "agent": "quick", "prompt": "hi" })).await;
    let run = session.engine.run_ids()[0];
    let page = read(&mut session, Era::Legacy, &format!("volery://runs/{run}/events")).await;
    assert_eq!((page["events"].as_array().unwrap().len(), &page["next_event"]), (100, &Value::Null));
    let page = read(&mut session, Era::Legacy, &format!("volery://runs/{run}/events?from=98")).await;
    assert_eq!(page["events"][0]["seq"], 98);
}

#[tokio::test]
async fn an_unknown_resource_gets_the_error_of_the_generation() {
    for (era, code) in [(Era::Legacy, -32002), (Era::Modern, -32602)] {
        let mut session = ClientSession::begin(era, "x", json!({})).await;
        for uri in [
            "volery://agents/nobody",
            "volery://runs/../../etc/passwd",
            "volery://runs/0193a1b2-0000-7000-8000-000000000000",
            "volery://runs/zzzz",
            "volery://runs/0193a1b2-0000-7000-8000-000000000000/events?from=x",
            "file:///etc/passwd",
            "",
        ] {
            let answer = session.ask(era, "resources/read", json!({ "uri": uri })).await;
            assert_eq!(answer["error"]["code"], code, "{uri}");
        }
    }
}

#[tokio::test]
async fn a_result_that_is_cut_is_linked_and_read_in_pages() {
    let mut session = ClientSession::begin(Era::Legacy, "x", json!({})).await;
    let result = session.call(Era::Legacy, "run_agent", json!({ "agent": "long", "prompt": "p" })).await;
    let link = &result["content"][1];
    assert_eq!((&link["type"], &link["mimeType"]), (&json!("resource_link"), &json!("text/plain")), "{link}");
    let uri = link["uri"].as_str().unwrap().to_owned();
    let mut whole = String::new();
    let mut next = uri.clone();
    loop {
        let read = session.ask(Era::Legacy, "resources/read", json!({ "uri": next })).await;
        let page = &read["result"]["contents"][0];
        whole.push_str(page["text"].as_str().unwrap_or_else(|| panic!("{read}")));
        match page["_meta"]["next_offset"].as_u64() {
            Some(offset) => next = format!("{uri}?offset={offset}"),
            None => break,
        }
    }
    assert_eq!(whole, "0123456789\n".repeat(20_000));
    let quick = session.call(Era::Legacy, "run_agent", json!({ "agent": "quick", "prompt": "p" })).await;
    assert_eq!(quick["content"].as_array().unwrap().len(), 1, "what is whole needs no link");
}

#[tokio::test]
async fn a_client_from_before_links_gets_none() {
    let mut session = ClientSession::open(fast_options());
    let params = json!({ "protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": { "name": "x", "version": "1" } });
    session.ask(Era::Legacy, "initialize", params).await;
    let result = session.call(Era::Legacy, "run_agent", json!({ "agent": "long", "prompt": "p" })).await;
    assert_eq!(result["content"].as_array().unwrap().len(), 1, "{result}");
}
