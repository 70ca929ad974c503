//! Real programs are agents by their own names, in a project without any agent file.

use model_server::Reply;
use serde_json::json;

use super::place::Place;

#[test]
fn claude_and_codex_answer_by_their_names() {
    let replies = vec![Reply::say("Three herons."), Reply::say("Four cranes.")];
    let Some(place) = Place::make_for(&["claude", "codex"], "without_a_file", replies) else { return };
    assert_eq!(place.volery(&["run", "claude", "How many herons?"]).ok().stdout, "Three herons.");
    let run = place.volery(&["run", "codex", "How many cranes?", "--json"]).ok().json();
    assert_eq!((&run["result"], &run["agent"]), (&json!("Four cranes."), &json!("codex")), "{run}");
}
