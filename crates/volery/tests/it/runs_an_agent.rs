//! The main job, through both doors: a prompt goes in, an answer comes out, and it stays.

use serde_json::json;

use crate::test_env::{TestEnv, tagged};

#[test]
fn the_shell_gets_the_answer_and_it_can_be_fetched_again() {
    let env = TestEnv::new();
    env.backend("upper", &["tr", "a-z", "A-Z"]).agent("shout", "backend: upper");
    let run = env.volery(["run", "shout", "hello"]).ok();
    assert_eq!(run.stdout, "HELLO");
    let listed = env.json(["ps"]);
    let id = listed["runs"][0]["run_id"].as_str().unwrap();
    let shown = env.json(["show", &id[id.len() - 8..]]);
    assert_eq!((&shown["result"], &shown["status"]), (&json!("HELLO"), &json!("succeeded")));
    assert_eq!(tagged(env.tag(id)), Vec::<u32>::new());
}

#[test]
fn an_mcp_client_gets_the_answer() {
    let env = TestEnv::new();
    env.rehearsal("greeter", "- say: good day, {prompt}", "");
    let mut client = env.serve().initialize("it");
    let directory = env.project();
    let answer =
        client.call("run_agent", json!({"agent": "greeter", "prompt": "world", "directory": directory}));
    assert_eq!((&answer["status"], &answer["result"]), (&json!("succeeded"), &json!("good day, world\n")));
}

#[test]
fn what_a_rehearsal_says_is_its_output() {
    let env = TestEnv::new();
    env.rehearsal("talker", "- say: one\n- say: two", "");
    env.volery(["run", "talker", "x"]).ok();
    let id = env.runs().remove(0);
    assert_eq!(env.volery(["logs", &id, "--raw"]).ok().stdout, "one\ntwo\n");
}

#[test]
fn inputs_reach_the_agent_and_wrong_ones_are_all_named_before_anything_starts() {
    let env = TestEnv::new();
    let inputs = "inputs: {branch: {required: true, description: which}, depth: {type: integer, default: 3}}";
    env.rehearsal("builder", "- say: \"{prompt}\"", inputs).rehearsal("plain", "- say: hi", "");
    let expected = "<inputs>\n{\n  \"branch\": \"main\",\n  \"depth\": 7\n}\n</inputs>\n\ngo\n";
    let shell = env.volery(["run", "builder", "go", "--input", "branch=main", "--input", "depth=7"]).ok();
    assert_eq!(shell.stdout, expected);
    let mut client = env.serve().initialize("it");
    let arguments = |agent: &str, inputs: serde_json::Value| json!({"agent": agent, "prompt": "go", "directory": env.project(), "inputs": inputs});
    let answer = client.call("run_agent", arguments("builder", json!({"branch": "main", "depth": 7})));
    assert_eq!(answer["result"], expected);
    let runs = env.runs().len();
    let refused =
        client.refused("run_agent", arguments("builder", json!({"brunch": "main", "depth": "deep"})));
    insta::assert_snapshot!(env.masked(&refused), @r#"
    agent builder cannot be given these inputs: there is no input brunch; did you mean branch?; the input branch is missing: which; the input depth must be of the type integer, not "deep"
    hint: `volery agents show NAME` and list_agents say which inputs it takes
    "#);
    let none = client.refused("run_agent", arguments("plain", json!({"branch": "main"})));
    insta::assert_snapshot!(env.masked(&none), @"
    agent plain cannot be given these inputs: there is no input branch: the agent has none
    hint: `volery agents show NAME` and list_agents say which inputs it takes
    ");
    let twice = env.volery(["run", "builder", "go", "--input", "branch=a", "--input", "branch=b"]).exits(2);
    insta::assert_snapshot!(env.masked(&twice.stderr), @"error: the input branch is given twice");
    assert_eq!(env.runs().len(), runs);
}

#[test]
fn the_status_line_begins_a_line_where_both_streams_go_to_one_file() {
    let env = TestEnv::new();
    env.backend("bare", &["printf", "no line break"]).agent("bare", "backend: bare");
    let both = env.path("both.txt");
    let file = std::fs::File::create(&both).unwrap();
    let mut command = env.command(["run", "bare", "go"]);
    let status =
        command.stdin(std::process::Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file).status();
    assert!(status.unwrap().success());
    let text = std::fs::read_to_string(&both).unwrap();
    insta::assert_snapshot!(env.masked(&text), @"
    no line break
    [run-id] succeeded in [span]
    ");
    assert_eq!(env.volery(["run", "bare", "go"]).ok().stdout, "no line break");
}
