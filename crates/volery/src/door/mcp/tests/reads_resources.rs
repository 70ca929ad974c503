//! Agents and runs as resources.

use serde_json::{Value, json};

use super::session::{BOTH, Era, Session};

async fn read(session: &mut Session, era: Era, uri: &str) -> Value {
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
        let mut session = Session::begin(era, "x", json!({})).await;
        let list = session.ask(era, "resources/list", json!({})).await;
        let uris: Vec<_> =
            list["result"]["resources"].as_array().unwrap().iter().map(|r| &r["uri"]).collect();
        assert_eq!(uris, ["volery://agents", "volery://agents/quick"]);
        let templates = session.ask(era, "resources/templates/list", json!({})).await;
        let templates = templates["result"]["resourceTemplates"].as_array().unwrap().clone();
        let templates: Vec<_> = templates.iter().map(|template| template["uriTemplate"].clone()).collect();
        assert_eq!(
            templates,
            ["volery://agents/{name}", "volery://runs/{id}", "volery://runs/{id}/events{?from}"]
        );
    }
}

#[tokio::test]
async fn agents_and_runs_can_be_read() {
    for era in BOTH {
        let mut session = Session::begin(era, "x", json!({})).await;
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
    let mut session = Session::begin(Era::Legacy, "x", json!({})).await;
    session.call(Era::Legacy, "run_agent", json!({ "agent": "quick", "prompt": "hi" })).await;
    let run = session.engine.run_ids()[0];
    let page = read(&mut session, Era::Legacy, &format!("volery://runs/{run}/events")).await;
    assert_eq!((page["events"].as_array().unwrap().len(), &page["next_event"]), (100, &Value::Null));
    let page = read(&mut session, Era::Legacy, &format!("volery://runs/{run}/events?from=98")).await;
    assert_eq!(page["events"][0]["seq"], 98);
}

#[tokio::test]
async fn an_unknown_resource_is_told_in_the_manner_of_the_generation() {
    for (era, code) in [(Era::Legacy, -32002), (Era::Modern, -32602)] {
        let mut session = Session::begin(era, "x", json!({})).await;
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
