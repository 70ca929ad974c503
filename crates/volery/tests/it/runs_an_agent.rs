//! The main job, through both doors: a prompt goes in, an answer comes out, and it stays.

use serde_json::json;

use crate::stage::{Stage, tagged};

#[test]
fn the_shell_gets_the_answer_and_it_can_be_fetched_again() {
    let stage = Stage::new();
    stage.backend("upper", &["tr", "a-z", "A-Z"]).agent("shout", "backend: upper");
    let run = stage.volery(["run", "shout", "hello"]).ok();
    assert_eq!(run.stdout, "HELLO");
    let listed = stage.json(["ps"]);
    let id = listed["runs"][0]["run_id"].as_str().unwrap();
    let shown = stage.json(["show", &id[id.len() - 8..]]);
    assert_eq!((&shown["result"], &shown["status"]), (&json!("HELLO"), &json!("succeeded")));
    assert_eq!(tagged(stage.tag(id)), Vec::<u32>::new());
}

#[test]
fn an_mcp_client_gets_the_answer() {
    let stage = Stage::new();
    stage.rehearsal("greeter", "- say: good day, {prompt}", "");
    let mut client = stage.serve().initialize("it");
    let directory = stage.project();
    let answer =
        client.call("run_agent", json!({"agent": "greeter", "prompt": "world", "directory": directory}));
    assert_eq!((&answer["status"], &answer["result"]), (&json!("succeeded"), &json!("good day, world\n")));
}

#[test]
fn what_a_rehearsal_says_is_its_output() {
    let stage = Stage::new();
    stage.rehearsal("talker", "- say: one\n- say: two", "");
    stage.volery(["run", "talker", "x"]).ok();
    let id = stage.runs().remove(0);
    assert_eq!(stage.volery(["logs", &id]).ok().stdout, "one\ntwo\n");
}

#[test]
fn inputs_reach_the_agent_and_wrong_ones_are_all_named_before_anything_starts() {
    let stage = Stage::new();
    let inputs = "inputs: {branch: {required: true, description: which}, depth: {type: integer, default: 3}}";
    stage.rehearsal("builder", "- say: \"{prompt}\"", inputs).rehearsal("plain", "- say: hi", "");
    let told = "<inputs>\n{\n  \"branch\": \"main\",\n  \"depth\": 7\n}\n</inputs>\n\ngo\n";
    let shell = stage.volery(["run", "builder", "go", "--input", "branch=main", "--input", "depth=7"]).ok();
    assert_eq!(shell.stdout, told);
    let mut client = stage.serve().initialize("it");
    let arguments = |agent: &str, inputs: serde_json::Value| json!({"agent": agent, "prompt": "go", "directory": stage.project(), "inputs": inputs});
    let answer = client.call("run_agent", arguments("builder", json!({"branch": "main", "depth": 7})));
    assert_eq!(answer["result"], told);
    let runs = stage.runs().len();
    let refused =
        client.refused("run_agent", arguments("builder", json!({"brunch": "main", "depth": "deep"})));
    for problem in ["did you mean branch?", "the input branch is missing: which", "of the type integer"] {
        assert!(refused.contains(problem), "{problem}: {refused}");
    }
    let none = client.refused("run_agent", arguments("plain", json!({"branch": "main"})));
    assert!(none.contains("there is no input branch: the agent has none"), "{none}");
    let twice = stage.volery(["run", "builder", "go", "--input", "branch=a", "--input", "branch=b"]).exits(2);
    assert!(twice.stderr.contains("the input branch is given twice"), "{}", twice.stderr);
    assert_eq!(stage.runs().len(), runs);
}

#[test]
fn the_status_line_begins_a_line_where_both_streams_go_to_one_file() {
    let stage = Stage::new();
    stage.backend("bare", &["printf", "no line break"]).agent("bare", "backend: bare");
    let both = stage.path("both.txt");
    let file = std::fs::File::create(&both).unwrap();
    let mut command = stage.command(["run", "bare", "go"]);
    let status =
        command.stdin(std::process::Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file).status();
    assert!(status.unwrap().success());
    let text = std::fs::read_to_string(&both).unwrap();
    assert!(text.starts_with("no line break\n") && text.contains(" succeeded in "), "{text}");
    assert_eq!(stage.volery(["run", "bare", "go"]).ok().stdout, "no line break");
}
