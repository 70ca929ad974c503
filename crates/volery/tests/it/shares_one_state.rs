//! Many doors and hundreds of runs on one state directory: nothing is lost, nothing is done twice.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use crate::stage::{Guarded, Stage, said, wait_for};

const SERVERS: usize = 2;
const SHELLS: usize = 8;
/// Runs per door: 2 × 48 and 8 × 20 make 256.
const PER_SERVER: usize = 48;
const PER_SHELL: usize = 20;
const LONG: Duration = Duration::from_secs(120);

/// Starts a shell that starts its runs one after the other, in the background, and prints their ids.
fn shell(stage: &Stage, number: usize) -> Guarded {
    let program = stage.command(["x"]).get_program().to_owned();
    let loop_ = format!(
        "for i in $(seq {PER_SHELL}); do \"$0\" run nap \"shell {number} run $i\" --background || exit 9; done"
    );
    let mut command = std::process::Command::new("sh");
    command.arg("-c").arg(loop_).arg(program).current_dir(stage.project()).env_clear();
    let environment = stage.command(["x"]);
    command.envs(environment.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Guarded(command.spawn().unwrap())
}

#[test]
fn two_servers_eight_shells_and_256_runs() {
    let stage = Stage::new();
    stage.configure("[slots]\ncount = 300");
    stage.rehearsal("nap", "- sleep: 100ms\n- say: done with {prompt}", "");
    let directory = stage.project();
    let shells: Vec<Guarded> = (0..SHELLS).map(|number| shell(&stage, number)).collect();
    let mut clients: Vec<_> = (0..SERVERS).map(|_| stage.serve().initialize("it")).collect();
    let mut asked: Vec<(usize, u64)> = Vec::new();
    for run in 0..PER_SERVER {
        for (server, client) in clients.iter_mut().enumerate() {
            let arguments = json!({
                "agent": "nap", "prompt": format!("server {server} run {run}"), "directory": directory, "wait_s": 100,
            });
            asked.push((
                server,
                client.send("tools/call", json!({"name": "run_agent", "arguments": arguments})),
            ));
        }
    }
    let mut ids = BTreeSet::new();
    for (server, id) in asked {
        let answer = clients[server].answer(id, LONG);
        let run = &answer["result"]["structuredContent"];
        assert_eq!(run["status"], json!("succeeded"), "{answer}");
        ids.insert(run["run_id"].as_str().unwrap().to_owned());
    }
    for mut shell in shells {
        let ended = wait_for(LONG, "a shell to end", || shell.0.try_wait().unwrap());
        assert!(ended.success(), "{ended}");
        let output = said(std::process::Output {
            status: ended,
            stdout: read(shell.0.stdout.take().unwrap()),
            stderr: read(shell.0.stderr.take().unwrap()),
        });
        assert!(!output.stderr.contains("error"), "{}", output.stderr);
        ids.extend(output.stdout.lines().map(str::to_owned));
    }
    let total = SERVERS * PER_SERVER + SHELLS * PER_SHELL;
    assert_eq!((ids.len(), total), (256, 256), "every run has its own id");
    for id in &ids {
        let ending = stage.outcome_by_itself(id, LONG);
        assert_eq!(ending["outcome"], json!("succeeded"), "{id}");
        let ends = stage.events(id).into_iter().filter(|event| event["type"] == "ended").count();
        assert_eq!(ends, 1, "{id} has one outcome");
    }
    assert_eq!(stage.runs().into_iter().collect::<BTreeSet<_>>(), ids, "no run that nobody was told of");

    let listed = stage.json(["ps", "--all", "--limit", "1000"]);
    assert_eq!(ids_of(&listed["runs"]), ids);
    assert_eq!(listed_by(&mut clients[1]), ids);
    let prompts: BTreeSet<&str> =
        listed["runs"].as_array().unwrap().iter().map(|run| run["prompt"].as_str().unwrap()).collect();
    assert_eq!(prompts.len(), 256, "no update was lost");
    let health = stage.json(["health", "--all"]);
    let line = &health["agents"][0];
    assert_eq!(
        (&line["runs"], &line["succeeded"], &health["running"]),
        (&json!(256), &json!(256), &json!(0))
    );
}

fn read(mut stream: impl std::io::Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    bytes
}

fn ids_of(runs: &Value) -> BTreeSet<String> {
    runs.as_array().unwrap().iter().map(|run| run["run_id"].as_str().unwrap().to_owned()).collect()
}

/// Lists all runs through a server, page by page.
fn listed_by(client: &mut crate::stage::Client) -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    let mut ask = json!({"all_projects": true, "limit": 50});
    loop {
        let page = client.call("list_runs", ask.clone());
        ids.extend(ids_of(&page["runs"]));
        match page["before"].as_str() {
            Some(before) => ask["before"] = json!(before),
            None => return ids,
        }
    }
}
