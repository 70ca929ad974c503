//! `--sandbox`: Kiro in a container, by a command that stands in for docker; and no sandbox is no server.

use std::fs;

use serde_json::json;

use super::place::{Place, answered, call};
use crate::stage::{PATIENCE, wait_for};

const TOOL: &str = "kiro-subagents.test-agent";

fn place() -> Place {
    let place = Place::new();
    place.program("docker", include_str!("docker.sh"));
    place
}

/// Returns what docker was asked, by its first word.
fn asked(place: &Place, word: &str) -> Vec<Vec<String>> {
    let words = |call: String| call.split("arg=").skip(1).map(|word| word.trim_end().to_owned()).collect();
    let calls: Vec<Vec<String>> = place.notes("docker-calls").into_iter().map(words).collect();
    calls.into_iter().filter(|call| call[0] == word).collect()
}

#[test]
fn kiro_runs_in_a_container_with_the_mounts_of_budgie() {
    let place = place();
    let mut client = place.serve(&["--sandbox"]);
    let said = answered(&mut client, place.ask("x"));
    assert_eq!(said["response"], json!("contained: In directory /workspace, x"));
    let session = said["sessionId"].as_str().unwrap().to_owned();
    answered(&mut client, place.in_session("y", &session));
    assert_eq!(place.calls(), Vec::<String>::new(), "nothing runs outside");
    let runs = asked(&place, "run");
    let home = place.stage.path("home").display().to_string();
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
        format!("{}:/workspace:rw", place.stage.project().display()),
    ];
    assert_eq!(mounts, expected);
    assert_eq!(&runs[0][..3], ["run", "--rm", "--name"]);
    let image = runs[0].iter().position(|word| word == "budgie-sandbox:latest").unwrap();
    assert_eq!(&runs[0][image + 1..image + 4], ["kiro-cli", "chat", "--no-interactive"]);
    assert!(
        !runs[0].contains(&"--resume".to_owned()) && runs[1].contains(&"--resume".to_owned()),
        "{runs:?}"
    );
    assert!(runs[1].contains(&mounts[0].to_owned()), "the session has its volume: {runs:?}");
}

#[test]
fn a_container_gets_no_credentials_of_this_machine() {
    let place = place();
    let noting = "#!/bin/sh\nenv >>\"$HOME/docker-env\"";
    place.program("docker", &include_str!("docker.sh").replacen("#!/bin/sh", noting, 1));
    let mut command = place.command(&["--sandbox"]);
    command.env("AWS_SECRET_ACCESS_KEY", "aws-secret-0123456789").env("AWS_PROFILE", "ops");
    command.env("KIRO_API_KEY", "kiro-key-0123456789");
    let mut client = crate::stage::Client::start(command).initialize("test");
    answered(&mut client, place.ask("x"));
    let run = &asked(&place, "run")[0];
    assert!(
        run.iter().all(|word| word != "-e" && !word.contains("AWS_") && word != "KIRO_API_KEY"),
        "{run:?}"
    );
    let variables = fs::read_to_string(place.home("docker-env")).unwrap();
    assert!(!variables.contains("AWS_") && !variables.contains("KIRO_API_KEY"), "{variables}");
}

#[test]
fn an_image_can_be_named_and_an_answer_into_a_file_is_found() {
    let place = place();
    place.prompt("_system.md", "To {{RESPONSE_FILE}} from {{WORKING_DIRECTORY}}");
    let mut client = place.serve(&["--sandbox", "--sandbox-image", "mine:1"]);
    let said = answered(&mut client, place.ask("x"));
    let expected = "contained: In directory /workspace, x\n\nTo /answer/response.txt from /workspace";
    assert_eq!(said["response"], json!(expected));
    let run = &asked(&place, "run")[0];
    let work = place.stage.run_dir(&place.stage.only_run()).join("work/answer");
    assert!(run.contains(&format!("{}:/answer:rw", work.display())), "{run:?}");
    assert!(run.contains(&"mine:1".to_owned()));
}

/// Differs from budgie: the container of a call that was stopped | stays | removed with the run
#[test]
fn a_container_is_removed_whatever_became_of_its_run() {
    let place = place();
    let mut client = place.serve(&["--sandbox"]);
    let id = client.send("tools/call", json!({"name": TOOL, "arguments": place.ask("hang")}));
    let run = place.stage.newest_of(1);
    place.stage.event(&run, "agent_started");
    wait_for(PATIENCE, "the container", || (!asked(&place, "run").is_empty()).then_some(()));
    client.notify("notifications/cancelled", json!({"requestId": id, "reason": "the user pressed escape"}));
    place.stage.ended(&run);
    let name = format!("volery-{run}");
    assert!(asked(&place, "run")[0].contains(&name));
    assert_eq!(asked(&place, "rm"), [["rm", "-f", &name]]);
}

#[test]
fn a_directory_that_cannot_be_mounted_is_told() {
    let place = place();
    let directory = place.stage.path("a:b");
    fs::create_dir(&directory).unwrap();
    let mut client = place.serve(&["--sandbox", "--no-retry"]);
    let result = call(&mut client, TOOL, json!({"prompt": "x", "directory": directory}));
    assert!(super::place::refused(&result).contains("its path has a colon"), "{result}");
    assert_eq!(asked(&place, "run"), Vec::<Vec<String>>::new());
}

/// Differs from budgie: `--sandbox` without a docker that works | each call fails | podman counts too; without
///    either the server does not start
#[test]
fn without_docker_or_podman_that_work_there_is_no_sandbox() {
    let place = place();
    fs::write(place.home("docker-is-broken"), "").unwrap();
    let said = place.says(&["--sandbox"]).exits(2);
    let reason =
        "--sandbox needs docker or podman: docker does not work: Cannot connect to the Docker daemon";
    assert!(said.stderr.contains(reason), "{said:?}");
    place.program(
        "podman",
        include_str!("docker.sh").replace("docker-is-broken", "podman-is-broken").as_str(),
    );
    place.says(&["--sandbox", "--debug"]).ok();
}
