//! Where agents would work, and what a call asks for that no tool has.

use std::fs;

use model_server::Reply;
use serde_json::{Value, json};

use super::{Place, call, stand_in};
use crate::stage::Client;

/// Differs from powerspawn: a server that was started in `/` or the home | programs work there | programs are
///    refused unless there is a folder `.volery`
#[test]
fn programs_are_not_let_loose_where_nobody_has_chosen_a_project() {
    let place = Place::new(vec![Reply::say("ok").always()]);
    let cursor = stand_in(&place, "cursor-agent");
    let serve = |directory: &std::path::Path| {
        let mut command = place.command();
        command.current_dir(directory).env("CURSOR_AGENT_BIN", &cursor).env("CURSOR_API_KEY", "dummy");
        Client::start(command).initialize("t")
    };
    let home = place.stage.path("home");
    for nowhere in [home.as_path(), std::path::Path::new("/")] {
        let refused = call(&mut serve(nowhere), "spawn_cursor", json!({"prompt": "x"}));
        assert_eq!(refused["error_type"], json!("PermissionError"), "{refused}");
        let error = refused["error"].as_str().unwrap();
        assert!(error.contains("there is no project here") && error.contains("hint: start it in"), "{error}");
    }
    assert_eq!(place.stage.runs(), Vec::<String>::new());
    let warning = |spawned: &Value| {
        let warnings = spawned.get("warnings").map(Value::to_string).unwrap_or_default();
        warnings.contains("no project was found")
    };
    let mut client = serve(&home);
    let text_only = call(&mut client, "spawn_mistral", json!({"prompt": "x"}));
    assert!(warning(&text_only), "who sees no files may work anywhere: {text_only}");
    call(&mut client, "wait_for_agents", json!({}));
    let plain = place.stage.path("plain");
    fs::create_dir(&plain).unwrap();
    let mut client = serve(&plain);
    let told: Vec<bool> = (0..2)
        .map(|_| {
            let spawned = call(&mut client, "spawn_cursor", json!({"prompt": "x"}));
            call(&mut client, "wait_for_agents", json!({}));
            warning(&spawned)
        })
        .collect();
    assert_eq!(told, [true, false], "told once");
    fs::create_dir(home.join(".volery")).unwrap();
    let spawned = call(&mut serve(&home), "spawn_cursor", json!({"prompt": "x"}));
    assert!(spawned["agent_id"].is_string() && !warning(&spawned), "{spawned}");
    place.stage.ended(&place.run(spawned["agent_id"].as_str().unwrap()));
}

/// Differs from powerspawn: a parameter that a tool does not have | the agent fails (1.8) | ignored, and named in
///    `warnings`
#[test]
fn what_is_no_parameter_of_a_tool_is_named() {
    let place = Place::new(vec![Reply::say("ok").always()]);
    let mut client = place.serve();
    let ignored =
        |tool: &str, key: &str| json!(format!("{key} is not a parameter of {tool} and was ignored"));
    let ask = json!({"prompt": "x", "bogus": 1, "force": true});
    let spawned = call(&mut client, "spawn_mistral", ask);
    let expected = json!([ignored("spawn_mistral", "bogus"), ignored("spawn_mistral", "force")]);
    assert_eq!(spawned["warnings"], expected, "{spawned}");
    let waited = call(&mut client, "wait_for_agents", json!({"timeout": 60, "ids": []}));
    assert_eq!(waited["warnings"], json!([ignored("wait_for_agents", "ids")]), "{waited}");
    let listed = call(&mut client, "list", json!({"all": true}));
    assert_eq!(listed["warnings"], json!([ignored("list", "all")]), "{listed}");
    let wrong = call(&mut client, "spawn_claude", json!({"system_prompt": "Be brief."}));
    assert_eq!(wrong["warnings"], json!([ignored("spawn_claude", "system_prompt")]), "{wrong}");
}

/// Differs from powerspawn: a default model other than the documented one | used without a word | used, and named
///    in `warnings`
#[test]
fn a_broken_list_of_models_is_told_beside_the_model_that_is_replaced() {
    let place = Place::new(vec![Reply::say("ok").always()]);
    fs::write(place.stage.project().join("models.json"), "[").unwrap();
    let mut client = place.serve();
    let spawned = call(&mut client, "spawn_grok", json!({"prompt": "x"}));
    let expected = json!([
        "models.json of the project is not used: it is no JSON (line 1, column 1)",
        "the documented default model, grok-3, is replaced by grok-4: volery's own list of models",
    ]);
    assert_eq!(spawned["warnings"], expected);
    call(&mut client, "wait_for_agents", json!({}));
}
