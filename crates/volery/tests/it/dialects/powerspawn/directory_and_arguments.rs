//! The directory in which agents work, and unknown parameters of calls.

use std::fs;

use fake_llm::ScriptedReply;
use serde_json::{Value, json};

use super::{PowerspawnEnv, call, install_fake_cli};
use crate::test_env::Client;

/// Differs from powerspawn: a server that was started in `/` or the home | programs work there | programs are
///    refused unless there is a folder `.volery`
#[test]
fn programs_are_refused_outside_a_project() {
    let powerspawn = PowerspawnEnv::new(vec![ScriptedReply::say("ok").always()]);
    let cursor = install_fake_cli(&powerspawn, "cursor-agent");
    let serve = |directory: &std::path::Path| {
        let mut command = powerspawn.command();
        command.current_dir(directory).env("CURSOR_AGENT_BIN", &cursor).env("CURSOR_API_KEY", "dummy");
        Client::start(command).initialize("t")
    };
    let home = powerspawn.env.path("home");
    let refused = [home.as_path(), std::path::Path::new("/")].map(|nowhere| {
        let refused = call(&mut serve(nowhere), "spawn_cursor", json!({"prompt": "x"}));
        assert_eq!(refused["error_type"], json!("PermissionError"), "{refused}");
        powerspawn.env.masked_texts(&refused["error"])
    });
    insta::assert_snapshot!(refused.join("\n"), @"
    there is no project here: this server was started in [stage]/home
    hint: start it in the project's directory; or make a folder [stage]/home/.volery if agents shall work there
    there is no project here: this server was started in /
    hint: start it in the project's directory; or make a folder /.volery if agents shall work there
    ");
    assert_eq!(powerspawn.env.runs(), Vec::<String>::new());
    let warnings = |spawned: &Value| powerspawn.env.masked_texts(&spawned["warnings"]);
    let mut client = serve(&home);
    let text_only = call(&mut client, "spawn_mistral", json!({"prompt": "x"}));
    // Who sees no files may work anywhere.
    insta::assert_snapshot!(warnings(&text_only), @"no project was found, so [stage]/home is taken for one: it has no .git or .volery");
    call(&mut client, "wait_for_agents", json!({}));
    let plain = powerspawn.env.path("plain");
    fs::create_dir(&plain).unwrap();
    let mut client = serve(&plain);
    let spawn_warnings = [(); 2].map(|()| {
        let spawned = call(&mut client, "spawn_cursor", json!({"prompt": "x"}));
        call(&mut client, "wait_for_agents", json!({}));
        warnings(&spawned)
    });
    // The warning about the missing project appears once.
    insta::assert_snapshot!(spawn_warnings.join("\n--\n"), @"
    no project was found, so [stage]/plain is taken for one: it has no .git or .volery
    cursor-agent [version]-fake was not tried with volery, which goes by its documentation
    --
    cursor-agent [version]-fake was not tried with volery, which goes by its documentation
    ");
    fs::create_dir(home.join(".volery")).unwrap();
    let spawned = call(&mut serve(&home), "spawn_cursor", json!({"prompt": "x"}));
    assert!(spawned["agent_id"].is_string(), "{spawned}");
    insta::assert_snapshot!(warnings(&spawned), @"cursor-agent [version]-fake was not tried with volery, which goes by its documentation");
    powerspawn.env.wait_for_end(&powerspawn.run(spawned["agent_id"].as_str().unwrap()));
}

/// Differs from powerspawn: a parameter that a tool does not have | the agent fails (1.8) | ignored, and named in
///    `warnings`
#[test]
fn an_unknown_parameter_of_a_tool_is_named() {
    let powerspawn = PowerspawnEnv::new(vec![ScriptedReply::say("ok").always()]);
    let mut client = powerspawn.serve();
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
fn a_broken_list_of_models_and_a_replaced_default_are_both_warned_about() {
    let powerspawn = PowerspawnEnv::new(vec![ScriptedReply::say("ok").always()]);
    fs::write(powerspawn.env.project().join("models.json"), "[").unwrap();
    let mut client = powerspawn.serve();
    let spawned = call(&mut client, "spawn_grok", json!({"prompt": "x"}));
    let expected = json!([
        "models.json of the project is not used: it is no JSON (line 1, column 1)",
        "the documented default model, grok-3, is replaced by grok-4: volery's own list of models",
    ]);
    assert_eq!(spawned["warnings"], expected);
    call(&mut client, "wait_for_agents", json!({}));
}
