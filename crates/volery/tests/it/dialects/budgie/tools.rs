//! The tools, their answers and their errors.

use std::fs;

use serde_json::{Value, json};

use super::budgie_env::{BudgieEnv, answered, call, refused, same_in_both};
use crate::test_env::Client;

const TOOL: &str = "kiro-subagents.test-agent";
const PROMPT_FILE: &str = "---\nname: test-agent\ndescription: Validation and testing specialist for MCP server functionality\n\
    capabilities:\n  - Tool validation\n  - Session management testing\nuse_when:\n  - Need to validate MCP tools\n\
    avoid_when:\n  - Deployment tasks\ntools:\n  - fs_read\nmodel: claude-3-5-sonnet-20241022\ntags:\n  - testing\n---\n\n# Test Agent\n";

/// Differs from budgie: `directory` in the schema | not marked as required | required
#[test]
fn the_tools_are_the_ones_that_were_reviewed() {
    let budgie = BudgieEnv::new();
    budgie.prompt("test-agent.md", PROMPT_FILE);
    let mut client = Client::start(budgie.command(&[]));
    let hello = client.request(
        "initialize",
        json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}),
    );
    assert_eq!(hello["serverInfo"]["name"], json!("kiro-subagents"));
    assert_eq!(hello["capabilities"], json!({"tools": {}}));
    let tools = client.request("tools/list", json!({}));
    insta::assert_snapshot!("budgie", serde_json::to_string_pretty(&tools["tools"]).unwrap());
}

#[test]
fn without_the_users_servers_an_agent_may_use_only_the_tools_that_its_file_allows() {
    let budgie = BudgieEnv::new();
    budgie.agent(json!({"name": "reader", "description": "sub-agent: Reads", "allowedTools": ["fs_read"]}));
    // With the user's servers, Kiro is started with the agent's own file.
    budgie.env.configure("[dialects.budgie]\ninherit = [\"environment\", \"settings\"]\n");
    call(&mut budgie.serve(&[]), "kiro-subagents.reader", budgie.ask("x"));
    let calls = budgie.calls();
    assert!(calls[0].contains("arg=--trust-tools=fs_read\n"), "{}", calls[0]);
}

/// Differs from budgie: further arguments of Kiro | none | `--wrap never`, and `--trust-tools` with what the file allows
/// Differs from budgie: the model of an agent that names none | `claude-sonnet-4.5` in later versions | Kiro's own
#[test]
fn a_call_runs_kiro_in_a_directory_of_the_session_and_answers_as_documented() {
    let budgie = BudgieEnv::new();
    let answer = answered(&mut budgie.serve(&[]), budgie.ask("count the herons"));
    let keys: Vec<&String> = answer.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["response", "sessionId"]);
    let session = answer["sessionId"].as_str().unwrap();
    assert_eq!(session, budgie.env.only_run(), "it is a UUID");
    let directory = budgie.env.project().display().to_string();
    assert_eq!(answer["response"], json!(format!("done: In directory {directory}, count the herons")));
    let folder = budgie.home(".kiro/sub-agents/sessions").join(session).display().to_string();
    let expected = [
        &format!("cwd={folder}"),
        "arg=chat",
        "arg=--no-interactive",
        "arg=--wrap",
        "arg=never",
        "arg=--agent",
        "arg=test-agent",
        "arg=--trust-tools=fs_read,fs_write",
        &format!("arg=In directory {directory}, count the herons"),
    ];
    assert_eq!(budgie.calls(), [expected.join("\n")]);
    assert_eq!(fs::read_dir(budgie.env.project()).unwrap().count(), 1, "nothing is written where it works");
    let run = budgie.env.json(["show", &budgie.env.only_run()]);
    assert_eq!((&run["agent"], &run["backend"]), (&json!("test-agent"), &json!("kiro")));
    let spec = budgie.env.spec(&budgie.env.only_run());
    assert_eq!(spec["limits"]["timeout_ms"], json!(600_000));
    assert_eq!(spec["setup"]["inherit"], json!(["environment", "mcp-servers", "settings"]));
}

/// Differs from budgie: a parameter that a tool does not have | ignored without a word | ignored, and a note names
///    it
#[test]
fn an_unknown_parameter_is_named() {
    let budgie = BudgieEnv::new();
    let mut arguments = budgie.ask("x");
    arguments["model"] = json!("opus");
    let result = call(&mut budgie.serve(&[]), TOOL, arguments);
    let note = format!("model is not a parameter of {TOOL} and was ignored");
    assert_eq!(
        (&result["content"][1]["text"], &result["content"][2]),
        (&json!(note), &Value::Null),
        "{result}"
    );
}

#[test]
fn an_agent_keeps_its_name_and_its_tool_has_a_normalised_one() {
    let budgie = BudgieEnv::new();
    let result = call(&mut budgie.serve(&[]), "kiro-subagents.code-writer", budgie.ask("x"));
    assert_ne!(result["isError"], json!(true), "{result}");
    assert!(budgie.calls()[0].contains("\narg=--agent\narg=Code Writer\n"), "{:?}", budgie.calls());
}

/// Differs from budgie: `directory` | is not looked at | must be absolute and exist
#[test]
fn missing_or_wrong_arguments_get_the_documented_errors_and_nothing_runs() {
    let budgie = BudgieEnv::new();
    let mut client = budgie.serve(&[]);
    let directory = budgie.env.project().display().to_string();
    fs::write(budgie.env.path("file"), "").unwrap();
    for (arguments, message) in [
        (json!({"directory": directory}), "prompt is required"),
        (json!({"prompt": " ", "directory": directory}), "prompt is required"),
        (json!({"prompt": "x"}), "directory is required"),
        (json!({"prompt": "x", "directory": ""}), "directory is required"),
        (json!({"prompt": "x", "directory": 7}), "directory must be a string"),
        (json!({"prompt": ["x"], "directory": directory}), "prompt must be a string"),
        (json!({"prompt": "x", "directory": directory, "sessionId": 7}), "sessionId must be a string"),
        (
            json!({"prompt": "x", "directory": "here"}),
            "directory must be an absolute path, and \"here\" is not",
        ),
    ] {
        assert_eq!(refused(&call(&mut client, TOOL, arguments)), message);
    }
    let file = budgie.env.path("file");
    let refusals = ["/does/not/exist", file.to_str().unwrap()].map(|directory| {
        let result = call(&mut client, TOOL, json!({"prompt": "x", "directory": directory}));
        refused(&result).to_owned()
    });
    insta::assert_snapshot!(budgie.env.masked(&refusals.join("\n")), @r#"
    the directory "/does/not/exist" does not exist
    hint: give the absolute path of an existing directory
    "[stage]/file" is a file, not a directory
    hint: give the absolute path of an existing directory
    "#);
    let long = call(&mut client, TOOL, json!({"prompt": "x".repeat((1 << 20) + 1), "directory": directory}));
    insta::assert_snapshot!(budgie.env.masked(refused(&long)), @"
    the prompt has 1048577 bytes with its context and inputs, and 1048576 (1.0 MiB) are allowed
    hint: put long material into a file and name the file in the prompt
    ");
    assert_eq!(budgie.env.runs(), Vec::<String>::new());
}

/// Differs from budgie: response files | in the directory of the session | in the directory of the run
#[test]
fn an_answer_is_taken_from_the_file_of_the_template_which_is_read_for_each_call() {
    let budgie = BudgieEnv::new();
    let mut client = budgie.serve(&["--no-retry"]);
    answered(&mut client, budgie.ask("x"));
    // Its fake CLI writes no file, so that the template shows in the answer.
    budgie.prompt(
        "_system.md",
        "Write your response to: {{RESPONSE_FILE}}\nWorking directory: {{WORKING_DIRECTORY}}\n",
    );
    let answer = answered(&mut client, budgie.ask("x"));
    let run = budgie.env.run_dir(&budgie.env.runs()[1]);
    let (directory, file) = (budgie.env.project(), run.join("work/response.txt"));
    let expected = format!(
        "done: In directory {0}, x\n\nWrite your response to: {1}\nWorking directory: {0}",
        directory.display(),
        file.display()
    );
    assert_eq!(answer["response"], json!(expected));
    assert!(!file.starts_with(&directory), "it is not in the working directory");
}

#[test]
fn any_answer_on_stdout_counts() {
    let budgie = BudgieEnv::new();
    let answer = answered(&mut budgie.serve(&[]), budgie.ask("uncredited"));
    assert_eq!(answer["response"], json!("just words"));
    let session = answer["sessionId"].as_str().unwrap();
    answered(&mut budgie.serve(&[]), budgie.in_session("and now?", session));
    assert!(budgie.calls()[1].contains("arg=--resume"), "{:?}", budgie.calls());
}

/// Differs from budgie: an agent without `fs_write` | is asked to write its answer into a file all the same |
///    answers on stdout
#[test]
fn an_agent_is_started_by_its_own_name_whatever_its_file_includes_or_allows() {
    let budgie = BudgieEnv::new();
    budgie.prompt("_system.md", "Write your response to: {{RESPONSE_FILE}}");
    budgie.agent(json!({
        "name": "test-agent", "description": "sub-agent: reads only", "allowedTools": ["fs_read"],
        "includeMcpJson": true, "mcpServers": {"birds": {"command": "birds-server"}},
    }));
    let answer = answered(&mut budgie.serve(&[]), budgie.ask("x"));
    assert!(answer["response"].as_str().unwrap().starts_with("done: "), "its answer is on stdout: {answer}");
    let noted = &budgie.calls()[0];
    assert!(noted.contains("\narg=--agent\narg=test-agent\n"), "{noted}");
    assert!(!noted.contains("mcpServers"), "there is no copy: {noted}");
}

#[test]
fn an_agent_file_without_a_name_has_no_tool() {
    let budgie = BudgieEnv::new();
    let file = budgie.home(".kiro/agents/nameless.json");
    fs::write(file, json!({"description": "sub-agent: has no name"}).to_string()).unwrap();
    let tools = budgie.serve(&[]).request("tools/list", json!({}));
    let names: Vec<&Value> = tools["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(
        names,
        ["kiro-subagents.code-writer", "kiro-subagents.test-agent", "kiro-subagents.health-check"]
    );
}

/// Differs from budgie: a changed file of an agent | counts after a restart | counts for the next call; the list of
///    tools stays
#[test]
fn agents_are_read_at_each_call_and_the_list_stays_as_it_was() {
    let budgie = BudgieEnv::new();
    let mut client = budgie.serve(&[]);
    let before = client.request("tools/list", json!({}));
    budgie.agent(json!({"name": "late", "description": "sub-agent: came later"}));
    budgie.agent(json!({
        "name": "test-agent", "description": "sub-agent: changed", "model": "another",
        "allowedTools": ["fs_read", "fs_write"],
    }));
    answered(&mut client, budgie.ask("x"));
    assert!(budgie.calls()[0].contains("arg=--model\narg=another\n"), "{:?}", budgie.calls());
    assert_eq!(client.request("tools/list", json!({})), before);
    fs::remove_file(budgie.home(".kiro/agents/test-agent.json")).unwrap();
    let gone = call(&mut client, TOOL, budgie.ask("x"));
    insta::assert_snapshot!(budgie.env.masked(refused(&gone)), @"the agent test-agent is not in [stage]/home/.kiro/agents any more (health of test-agent: success rate 100.0%, 0 of 1 calls failed, 0 by time-out)");
}

/// Differs from budgie: the dot in the names of tools | always there, and many clients refuse it | `--safe-names`
///    lists an underscore; a call may use either
#[test]
fn both_spellings_of_a_tool_are_understood() {
    let budgie = BudgieEnv::new();
    for (flags, listed) in
        [(&[][..], "kiro-subagents.test-agent"), (&["--safe-names"][..], "kiro-subagents_test-agent")]
    {
        let mut client = budgie.serve(flags);
        let tools = client.request("tools/list", json!({}));
        let names: Vec<&str> =
            tools["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        assert_eq!(names.len(), 3);
        assert!(names.contains(&listed), "{names:?}");
        for tool in ["kiro-subagents.test-agent", "kiro-subagents_test-agent"] {
            assert_ne!(call(&mut client, tool, budgie.ask("x"))["isError"], json!(true));
        }
        for tool in ["kiro-subagents.health-check", "kiro-subagents_health-check"] {
            assert_ne!(call(&mut client, tool, json!({}))["isError"], json!(true));
        }
    }
}

/// Differs from budgie: health | forgotten with the server | summed up from the journal, over all servers and
///    projects of the user
#[test]
fn health_is_reported_in_the_documented_form_and_survives_the_server() {
    let budgie = BudgieEnv::new();
    let health = |client: &mut Client| same_in_both(&call(client, "kiro-subagents.health-check", json!({})));
    let mut client = budgie.serve(&["--no-retry"]);
    let nothing = json!({
        "overall": {"totalCalls": 0, "successCalls": 0, "successRate": "0.0%"}, "agents": [],
    });
    assert_eq!(health(&mut client), nothing);
    for prompt in ["one", "two"] {
        answered(&mut client, budgie.ask(prompt));
    }
    call(&mut client, TOOL, budgie.ask("crash"));
    drop(client);
    let mut client = budgie.serve(&["--no-retry", "--agent-timeout", "1s"]);
    call(&mut client, TOOL, budgie.ask("hang"));
    call(&mut client, "kiro-subagents.code-writer", budgie.ask("crash"));
    let report = health(&mut client);
    assert_eq!(report["overall"], json!({"totalCalls": 5, "successCalls": 2, "successRate": "40.0%"}));
    let agents = report["agents"].as_array().unwrap();
    let health_of = |name: &str| agents.iter().find(|agent| agent["agent"] == name).unwrap();
    let tested = health_of("test-agent");
    let keys: Vec<&String> = tested.as_object().unwrap().keys().collect();
    let documented = [
        "agent",
        "totalCalls",
        "successCalls",
        "failedCalls",
        "timeoutCalls",
        "successRate",
        "avgDuration",
        "lastSuccess",
        "lastFailure",
        "lastError",
    ];
    assert_eq!(keys, documented);
    let counts = |agent: &Value| {
        ["totalCalls", "successCalls", "failedCalls", "timeoutCalls"].map(|key| agent[key].as_u64().unwrap())
    };
    assert_eq!((counts(tested), &tested["successRate"]), ([4, 2, 2, 1], &json!("50.0%")));
    let average = tested["avgDuration"].as_str().unwrap();
    assert!(domain_go_duration(average), "{average}");
    let whole_seconds = |text: &str| text.len() == "2025-12-10T19:25:00Z".len() && text.ends_with('Z');
    assert!(whole_seconds(tested["lastSuccess"].as_str().unwrap()), "{tested}");
    assert!(whole_seconds(tested["lastFailure"].as_str().unwrap()), "{tested}");
    assert!(tested["lastFailure"].as_str() >= tested["lastSuccess"].as_str(), "{tested}");
    let writer = health_of("code-writer");
    assert_eq!(writer["lastSuccess"], json!("0001-01-01T00:00:00Z"), "it never had any");
    assert!(writer["lastError"].as_str().unwrap().contains("it broke"), "{writer}");
}

/// Tells whether a text is a duration of Go's below a minute.
fn domain_go_duration(text: &str) -> bool {
    let number = text.strip_suffix("ms").or_else(|| text.strip_suffix('s'));
    number.is_some_and(|number| number.parse::<f64>().is_ok())
}

/// Differs from budgie: a client that gives up before the answer | loses the answer | is told that the agent goes
///    on; the same call again gets the answer
#[test]
fn a_client_without_patience_gets_answer_and_session_by_asking_again() {
    let budgie = BudgieEnv::new();
    budgie.env.configure("[serve]\nwait = \"1s\"\n");
    let mut client = budgie.serve(&[]);
    let first = answered(&mut client, budgie.ask("gate"));
    let text = first["response"].as_str().unwrap();
    insta::assert_snapshot!(budgie.env.masked(text), @"The agent is still running, as run [run-id]. Call kiro-subagents.test-agent again with exactly the same arguments to wait for its answer; it is not started a second time.");
    fs::write(budgie.home("go"), "").unwrap();
    let second = answered(&mut client, budgie.ask("gate"));
    assert!(second["response"].as_str().unwrap().starts_with("done: "), "{second}");
    assert_eq!((&second["sessionId"], budgie.env.runs().len()), (&first["sessionId"], 1));
    answered(&mut client, budgie.in_session("and now?", second["sessionId"].as_str().unwrap()));
    assert!(budgie.calls()[1].contains("arg=--resume"), "that session goes on: {:?}", budgie.calls());
}

/// Differs from budgie: the user's home or `/` as `directory` | agents edit there | an agent that may edit is refused: Kiro cannot be held to
///    leave Volery's own files alone
#[test]
fn an_agent_that_may_edit_is_refused_around_volerys_own_folders() {
    let budgie = BudgieEnv::new();
    let home = budgie.env.path("state").parent().unwrap().to_owned();
    let mut client = budgie.serve(&[]);
    let refusals = [home.as_path(), std::path::Path::new("/")].map(|directory| {
        let result =
            call(&mut client, "kiro-subagents.test-agent", json!({"prompt": "x", "directory": directory}));
        refused(&result).to_owned()
    });
    insta::assert_snapshot!(budgie.env.masked(&refusals.join("\n")), @"
    [stage] holds [stage]/state, where Volery keeps its own files: no agent may edit those
    hint: choose another directory, such as a project's; kiro cannot be held to leave these files alone, and these can: claude, glm, claude-kimi; an agent that may only read works here too
    / holds [stage]/state, where Volery keeps its own files: no agent may edit those
    hint: choose another directory, such as a project's; kiro cannot be held to leave these files alone, and these can: claude, glm, claude-kimi; an agent that may only read works here too
    ");
    assert_eq!(budgie.calls(), Vec::<String>::new());
}
