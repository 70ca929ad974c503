//! Over HTTP, with a token for each caller.

use fake_llm::ScriptedReply;
use serde_json::json;

use super::{PowerspawnEnv, newest_result};
use crate::test_env::{PATIENCE, WebServer, wait_for};

/// Differs from powerspawn: callers over HTTP | no HTTP | each token sees its own agents
#[test]
fn a_token_sees_its_own_agents_and_waits_for_no_others() {
    let powerspawn = PowerspawnEnv::new(vec![ScriptedReply::say("for ann"), ScriptedReply::hang()]);
    let token = |name: &str| powerspawn.env.volery(["token", "new", name]).ok().stdout.trim().to_owned();
    let (ann, ben) = (token("ann"), token("ben"));
    let mut command = powerspawn.command();
    command.args(["--http", "127.0.0.1:0"]);
    let server = WebServer::start_command(command);
    let ask = json!({"prompt": "Count.", "model": "m"});
    let first = server.call(&ann, "spawn_grok", ask.clone())["agent_id"].clone();
    let waited = server.call(&ann, "wait_for_agents", json!({}));
    assert_eq!(newest_result(&waited)["result"], json!("for ann"), "{waited}");
    let going = server.call(&ann, "spawn_grok", ask)["agent_id"].clone();
    let seen = server.call(&ann, "list", json!({}));
    assert_eq!((&seen["running"][0]["id"], &seen["completed_ids"]), (&going, &json!([first])), "{seen}");
    let seen = server.call(&ben, "list", json!({}));
    assert_eq!((&seen["running"], &seen["completed_ids"]), (&json!([]), &json!([])), "{seen}");
    let idle = server.call(&ben, "wait_for_agents", json!({}));
    assert_eq!(idle, json!({"status": "no_agents_running", "recent_results": []}));
    for id in [&first, &going] {
        assert_eq!(server.call(&ben, "result", json!({"agent_id": id}))["status"], json!("not_found"));
    }
    // Whoever sits at the machine sees all of them.
    let mut owner = powerspawn.serve();
    let seen = super::call(&mut owner, "list", json!({}));
    assert_eq!((&seen["running"][0]["id"], &seen["completed_ids"]), (&going, &json!([first])), "{seen}");
    powerspawn.env.volery(["cancel", going.as_str().unwrap()]).ok();
    wait_for(PATIENCE, "the end", || {
        (server.call(&ann, "list", json!({}))["running"] == json!([])).then_some(())
    });
}
