//! `--sandbox`: Kiro runs in a container, here by a fake docker command. Without a sandbox the server does not start.

use std::fs;

use serde_json::json;

use super::budgie_env::{BudgieEnv, answered, call};
use crate::test_env::{PATIENCE, wait_for};

const TOOL: &str = "kiro-subagents.test-agent";

fn budgie() -> BudgieEnv {
    let budgie = BudgieEnv::new();
    budgie.program("docker", include_str!("docker.sh"));
    budgie
}

/// Returns the recorded calls of docker with this subcommand.
fn docker_calls(budgie: &BudgieEnv, subcommand: &str) -> Vec<Vec<String>> {
    let arguments =
        |call: String| call.split("arg=").skip(1).map(|argument| argument.trim_end().to_owned()).collect();
    let calls: Vec<Vec<String>> = budgie.notes("docker-calls").into_iter().map(arguments).collect();
    calls.into_iter().filter(|call| call[0] == subcommand).collect()
}

#[test]
fn kiro_runs_in_a_container_with_the_mounts_of_budgie() {
    let budgie = budgie();
    let mut client = budgie.serve(&["--sandbox"]);
    let answer = answered(&mut client, budgie.ask("x"));
    assert_eq!(answer["response"], json!("contained: In directory /workspace, x"));
    let session = answer["sessionId"].as_str().unwrap().to_owned();
    answered(&mut client, budgie.in_session("y", &session));
    assert_eq!(budgie.calls(), Vec::<String>::new(), "nothing runs outside");
    let runs = docker_calls(&budgie, "run");
    let home = budgie.env.path("home").display().to_string();
    let mounts: Vec<&str> = runs[0]
        .iter()
        .zip(&runs[0][1..])
        .filter(|(flag, _)| *flag == "-v")
        .map(|(_, to)| to.as_str())
        .collect();
    let expected = [
        format!("budgie-session-{session}:/root/.local/share/kiro-cli:rw"),
        format!("{home}/.local/share/kiro-cli:/auth:ro"),
        format!("{home}/.kiro:/root/.kiro:ro"),
        format!("{}:/workspace:rw", budgie.env.project().display()),
    ];
    assert_eq!(mounts, expected);
    assert_eq!(&runs[0][..3], ["run", "--rm", "--name"]);
    let image = runs[0].iter().position(|argument| argument == "budgie-sandbox:latest").unwrap();
    assert_eq!(&runs[0][image + 1..image + 4], ["kiro-cli", "chat", "--no-interactive"]);
    assert!(
        !runs[0].contains(&"--resume".to_owned()) && runs[1].contains(&"--resume".to_owned()),
        "{runs:?}"
    );
    assert!(runs[1].contains(&mounts[0].to_owned()), "the session has its volume: {runs:?}");
}

#[test]
fn a_container_gets_no_credentials_of_this_machine() {
    let budgie = budgie();
    let noting = "#!/bin/sh\nenv >>\"$HOME/docker-env\"";
    budgie.program("docker", &include_str!("docker.sh").replacen("#!/bin/sh", noting, 1));
    let mut command = budgie.command(&["--sandbox"]);
    command.env("AWS_SECRET_ACCESS_KEY", "aws-secret-0123456789").env("AWS_PROFILE", "ops");
    command.env("KIRO_API_KEY", "kiro-key-0123456789");
    let mut client = crate::test_env::Client::start(command).initialize("test");
    answered(&mut client, budgie.ask("x"));
    let run = &docker_calls(&budgie, "run")[0];
    assert!(
        run.iter()
            .all(|argument| argument != "-e" && !argument.contains("AWS_") && argument != "KIRO_API_KEY"),
        "{run:?}"
    );
    let variables = fs::read_to_string(budgie.home("docker-env")).unwrap();
    assert!(!variables.contains("AWS_") && !variables.contains("KIRO_API_KEY"), "{variables}");
}

#[test]
fn an_image_can_be_named_and_an_answer_into_a_file_is_found() {
    let budgie = budgie();
    budgie.prompt("_system.md", "To {{RESPONSE_FILE}} from {{WORKING_DIRECTORY}}");
    let mut client = budgie.serve(&["--sandbox", "--sandbox-image", "mine:1"]);
    let answer = answered(&mut client, budgie.ask("x"));
    let expected = "contained: In directory /workspace, x\n\nTo /answer/response.txt from /workspace";
    assert_eq!(answer["response"], json!(expected));
    let run = &docker_calls(&budgie, "run")[0];
    let work = budgie.env.run_dir(&budgie.env.only_run()).join("work/answer");
    assert!(run.contains(&format!("{}:/answer:rw", work.display())), "{run:?}");
    assert!(run.contains(&"mine:1".to_owned()));
}

/// Differs from budgie: the container of a call that was stopped | stays | removed with the run
#[test]
fn a_container_is_removed_after_every_kind_of_end() {
    let budgie = budgie();
    let mut client = budgie.serve(&["--sandbox"]);
    let id = client.send("tools/call", json!({"name": TOOL, "arguments": budgie.ask("hang")}));
    let run = budgie.env.wait_for_run_count(1);
    budgie.env.wait_for_event(&run, "agent_started");
    wait_for(PATIENCE, "the container", || (!docker_calls(&budgie, "run").is_empty()).then_some(()));
    client.notify("notifications/cancelled", json!({"requestId": id, "reason": "the user pressed escape"}));
    budgie.env.wait_for_end(&run);
    let name = format!("volery-{run}");
    assert!(docker_calls(&budgie, "run")[0].contains(&name));
    assert_eq!(docker_calls(&budgie, "rm"), [["rm", "-f", &name]]);
}

#[test]
fn a_directory_that_cannot_be_mounted_is_an_error() {
    let budgie = budgie();
    let directory = budgie.env.path("a:b");
    fs::create_dir(&directory).unwrap();
    let mut client = budgie.serve(&["--sandbox", "--no-retry"]);
    let result = call(&mut client, TOOL, json!({"prompt": "x", "directory": directory}));
    insta::assert_snapshot!(budgie.env.masked(super::budgie_env::refused(&result)), @r#"{"response":"ERROR: kiro-cli failed: the agent could not be started: the kiro backend cannot carry out this run: \"[stage]/a:b\" cannot be mounted in a container: its path has a colon (health of test-agent: success rate 0.0%, 1 of 1 calls failed, 0 by time-out)","sessionId":"[run id]"}"#);
    assert_eq!(docker_calls(&budgie, "run"), Vec::<Vec<String>>::new());
}

/// Differs from budgie: `--sandbox` without a docker that works | each call fails | podman counts too; without
///    either the server does not start
#[test]
fn sandbox_needs_a_working_docker_or_podman() {
    let budgie = budgie();
    fs::write(budgie.home("docker-is-broken"), "").unwrap();
    let output = budgie.serve_output(&["--sandbox"]).exits(2);
    let reason =
        "--sandbox needs docker or podman: docker does not work: Cannot connect to the Docker daemon";
    assert!(output.stderr.contains(reason), "{output:?}");
    budgie.program(
        "podman",
        include_str!("docker.sh").replace("docker-is-broken", "podman-is-broken").as_str(),
    );
    budgie.serve_output(&["--sandbox", "--debug"]).ok();
}
