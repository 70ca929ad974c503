//! Every run above a child run shows the child's question, and the person who started the root run answers it there.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::reports_what_a_program_says::{command, env as scripted_claude};
use crate::test_env::{PATIENCE, Terminal, TestEnv, command_output, run_processes, wait_for};

const FIXER: &str = "- ask: May I deploy?\n- say: fixed";

/// Defines an agent `chief` that delegates to an agent `fixer`.
fn chief_env(fixer: &str, chief: &str) -> TestEnv {
    let env = TestEnv::new();
    env.rehearsal("fixer", fixer, "delegates: anyone");
    let chief = format!("delegates: anyone\n{chief}");
    env.rehearsal("chief", "- delegate: {agent: fixer, prompt: fix it}\n- say: done", &chief);
    env
}

/// Starts a chief in the background and waits for the question of its fixer. Returns both runs.
fn started(env: &TestEnv) -> (String, String) {
    env.people_answer();
    let chief = env.start("chief", "go");
    let fixer = env.wait_for_run_count(2);
    env.wait_for_event(&fixer, "asked");
    (chief, fixer)
}

fn short(run: &str) -> &str {
    &run[run.len() - 8..]
}

/// Subscribes to a run as a command or server does, and returns its progress messages.
fn progress_of(env: &TestEnv, run: &str) -> impl Iterator<Item = Value> {
    let socket = env.path("state").join(format!("sockets/{:x}", env.tag(run)));
    let mut stream = wait_for(PATIENCE, "the run's socket", || UnixStream::connect(&socket).ok());
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"{\"word\":\"watch\"}\n").unwrap();
    let lines = BufReader::new(stream).lines().map_while(Result::ok);
    lines.map(|line| serde_json::from_str::<Value>(&line).unwrap()["progress"].clone())
}

#[test]
fn lists_and_pages_name_the_agents_and_the_commands() {
    let env = chief_env(FIXER, "");
    let (chief, fixer) = started(&env);
    let listed = env.volery(["ps"]).ok();
    let chief_line = listed.stdout.lines().find(|line| line.contains(short(&chief))).unwrap();
    assert!(chief_line.ends_with("needs you: chief › fixer"), "{listed:?}");
    insta::assert_snapshot!(env.masked(&listed.stderr), @"
    needs you: chief › fixer: May I deploy?
    hint: volery approve|deny [run-id], or volery answer [run-id] TEXT
    ");
    assert!(listed.stderr.contains(short(&fixer)), "{listed:?}");

    let page = env.volery(["show", &chief]).ok().stdout;
    let about_question = |line: &&str| line.contains("needs you") || line.contains("volery approve");
    let lines: Vec<&str> = page.lines().filter(about_question).collect();
    insta::assert_snapshot!(env.masked(&lines.join("\n")), @"
    status      running: needs you: chief › fixer
    needs you   chief › fixer: May I deploy?
                volery approve|deny [run-id], or volery answer [run-id] TEXT
    ");
    assert!(page.contains(&format!("volery approve|deny {}", short(&fixer))), "{page}");

    let shown = env.json(["show", &chief]);
    let until = &shown["needs_answer"][0]["until"];
    let question = json!({
        "run_id": fixer, "short_id": short(&fixer), "agents": ["chief", "fixer"],
        "question": "q0", "text": "May I deploy?", "until": until,
    });
    assert_eq!(shown["needs_answer"], json!([question]), "{shown}");
    let runs = env.json(["ps", "--agent", "chief"])["runs"].clone();
    assert_eq!(runs[0]["needs_answer"], json!([question]), "{runs}");
    let waited = env.json(["wait", &chief, "--timeout", "1ms"]);
    assert_eq!(waited["runs"][0]["needs_answer"], json!([question]), "{waited}");

    let approved = env.volery(["approve"]).ok();
    insta::assert_snapshot!(env.masked(&(approved.stdout + &approved.stderr)), @"
    [run-id] approved q0
    [run-id] chief › fixer asks: May I deploy?
    ");
    assert_eq!(env.wait_for_end(&chief)["result"], json!("yes\nfixed\ndone\n"));
    let listed = env.volery(["ps"]).ok();
    assert!(!(listed.stdout + &listed.stderr).contains("needs you"));
    assert_eq!(env.json(["show", &chief]).get("needs_answer"), None);
}

#[test]
fn a_question_of_a_grandchild_passes_through_each_run_above_it() {
    let env = chief_env("- delegate: {agent: helper, prompt: help}", "");
    env.people_answer().rehearsal("helper", "- ask: Which one?\n- say: helped", "");
    let notes = env.path("notes");
    let mut command = env.command(["run", "chief", "go"]);
    let stderr = std::fs::File::create(&notes).unwrap();
    let running = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr).spawn().unwrap();
    let printed = wait_for(PATIENCE, "the question", || {
        let printed = std::fs::read_to_string(&notes).unwrap();
        printed.contains("volery deny").then_some(printed)
    });
    let helper = env.wait_for_run_count(3);
    insta::assert_snapshot!(env.masked(&printed), @"
    needs you: chief › fixer › helper asks: Which one?
    to answer, from another terminal: volery approve [run-id], volery deny [run-id] or volery answer [run-id] TEXT
    ");
    assert!(printed.contains(short(&helper)), "{printed}");
    let agents = |run: &str| env.json(["show", run])["needs_answer"][0]["agents"].clone();
    let runs = env.runs();
    assert_eq!(agents(&runs[0]), json!(["chief", "fixer", "helper"]));
    assert_eq!(agents(&runs[1]), json!(["fixer", "helper"]));
    assert_eq!(agents(&runs[2]), json!(["helper"]));
    env.volery(["answer", &helper, "the blue one"]).ok();
    let output = command_output(running.wait_with_output().unwrap()).ok();
    assert_eq!(output.stdout, "the blue one\nhelped\ndone\n");
    let printed = std::fs::read_to_string(&notes).unwrap();
    assert_eq!(printed.matches("Which one?").count(), 1, "{printed}");
}

#[test]
fn a_person_answers_at_the_terminal_of_the_root() {
    let env = chief_env("- ask: May I build?\n- ask: May I build?\n- ask: When?\n- say: fixed", "");
    let mut terminal = Terminal::start(env.command(["run", "chief", "go"]));
    terminal.shows("needs you: chief › fixer asks: May I build?");
    terminal.shows("[y]es, [n]o, or an answer in words: ");
    terminal.types("y");
    wait_for(PATIENCE, "the second question", || {
        (terminal.screen().matches("asks: May I build?").count() == 2).then_some(())
    });
    let fixer = env.wait_for_run_count(2);
    // Another user answers the second question.
    let mut deny = env.command(["deny", &fixer]);
    command_output(deny.env("USER", "ada").output().unwrap()).ok();
    terminal.shows("the question was denied by ada");
    terminal.shows("needs you: chief › fixer asks: When?");
    terminal.types("on Monday");
    let (code, screen) = terminal.exits();
    assert_eq!(code, Some(0), "{screen}");
    assert!(!screen.contains("from another terminal"), "{screen}");
    let answers: Vec<_> =
        env.events(&fixer).into_iter().filter(|event| event["type"] == "answered").collect();
    let texts: Vec<&Value> = answers.iter().map(|event| &event["text"]).collect();
    assert_eq!(texts, [&json!("yes"), &json!("no"), &json!("on Monday")]);
}

#[test]
fn progress_has_the_question_again_and_again_until_it_is_answered() {
    let env = TestEnv::new();
    let go = format!("wait-file:{}", env.path("go").display());
    env.fake("slow", &[&go], "");
    let steps = "- ask: May I deploy?\n- delegate: {agent: slow, prompt: wait}";
    env.rehearsal("fixer", steps, "delegates: anyone");
    env.rehearsal("chief", "- delegate: {agent: fixer, prompt: fix it}", "delegates: anyone");
    let (chief, fixer) = started(&env);
    let mut progress = progress_of(&env, &chief);
    // The run does nothing meanwhile. It repeats the message, because a message can be lost.
    let open = progress.by_ref().filter(|progress| progress.get("needs_answer").is_some()).nth(2).unwrap();
    assert_eq!(open["needs_answer"]["run_id"], json!(fixer), "{open}");
    assert_eq!(open["needs_answer"]["agents"], json!(["chief", "fixer"]), "{open}");
    assert_eq!(open["activity"], json!("needs you: chief › fixer: May I deploy?"), "{open}");
    env.volery(["approve"]).ok();
    // The fixer continues without output, so neither its end nor new output removes the question.
    let closed = progress.by_ref().find(|progress| progress.get("needs_answer").is_none()).unwrap();
    assert_eq!(closed["status"], json!("running"), "{closed}");
    let elapsed_ms = |progress: &Value| progress["elapsed_ms"].as_u64().unwrap();
    let repeated = progress.next().unwrap();
    assert!(repeated.get("needs_answer").is_none(), "{repeated}");
    assert!(elapsed_ms(&repeated) >= elapsed_ms(&closed));
    std::fs::write(env.path("go"), "").unwrap();
    env.wait_for_end(&chief);
}

#[test]
fn a_new_worker_of_the_parent_has_the_question_too() {
    let env = chief_env(FIXER, "on_interrupt: resume");
    let (chief, fixer) = started(&env);
    let worker = run_processes(&env.run_dir(&chief)).worker.unwrap();
    worker.signal(Signal::KILL);
    wait_for(PATIENCE, "another worker", || {
        run_processes(&env.run_dir(&chief)).worker.filter(|other| other.pid != worker.pid)
    });
    let open = progress_of(&env, &chief).find(|progress| progress.get("needs_answer").is_some()).unwrap();
    assert_eq!(open["needs_answer"]["run_id"], json!(fixer), "{open}");
    env.volery(["approve"]).ok();
    assert_eq!(env.wait_for_end(&chief)["result"], json!("yes\nfixed\ndone\n"));
    let ends = env.events(&chief).into_iter().filter(|event| event["type"] == "child_ended").count();
    assert_eq!(ends, 1, "{:?}", env.events(&chief));
}

#[test]
fn a_new_worker_knows_the_children_that_its_agent_does_not_mention() {
    // The resumed program does not start the fixer again, and waits for something else.
    let start = format!(
        "[ -e started ] || {{ touch started; {} run fixer go --background >/dev/null 2>&1; }}
        while [ ! -e go ]; do sleep 0.05; done
        echo '{{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"done\"}}'",
        env!("CARGO_BIN_EXE_volery"),
    );
    let env = scripted_claude(&[], &start);
    env.people_answer().rehearsal("fixer", FIXER, "");
    env.agent("chief", "backend: claude\ndelegates: anyone\non_interrupt: resume");
    let run = command(&env, &["run", "chief", "go", "--background"]).output().unwrap();
    let chief = command_output(run).ok().stdout.trim().to_owned();
    let fixer = env.wait_for_run_count(2);
    env.wait_for_event(&fixer, "asked");
    env.wait_for_event(&chief, "session_named");
    let worker = run_processes(&env.run_dir(&chief)).worker.unwrap();
    worker.signal(Signal::KILL);
    wait_for(PATIENCE, "another worker", || {
        run_processes(&env.run_dir(&chief)).worker.filter(|other| other.pid != worker.pid)
    });
    let open = progress_of(&env, &chief).find(|progress| progress.get("needs_answer").is_some()).unwrap();
    assert_eq!(open["needs_answer"]["agents"], json!(["chief", "fixer"]), "{open}");
    env.volery(["approve"]).ok();
    let ended = env.wait_for_event(&chief, "child_ended");
    assert_eq!(ended["outcome"], json!("succeeded"), "the fixer did not end with the chief");
    std::fs::write(env.project().join("go"), "").unwrap();
    assert_eq!(env.wait_for_end(&chief)["result"], json!("done"));
}

#[test]
fn a_client_sees_the_question_in_progress_and_reports() {
    let env = chief_env(FIXER, "");
    env.people_answer();
    let mut client = env.serve().initialize("it");
    let arguments = json!({"agent": "chief", "prompt": "go", "directory": env.project()});
    let call = json!({"name": "run_agent", "arguments": arguments, "_meta": {"progressToken": "t"}});
    let id = client.send("tools/call", call);
    let progress =
        client.next_where(PATIENCE, |message| message["params"]["message"].to_string().contains("needs you"));
    let message = progress["params"]["message"].as_str().unwrap();
    assert!(message.starts_with("needs you: chief › fixer: May I deploy? ("), "{message}");
    let (chief, fixer) = (env.runs()[0].clone(), env.runs()[1].clone());

    let report = client.call("get_run", json!({"run_id": chief}));
    let until = &report["needs_answer"][0]["until"];
    let question = json!({
        "run_id": fixer, "agents": ["chief", "fixer"], "question_id": "q0", "text": "May I deploy?", "until": until,
    });
    assert_eq!(report["needs_answer"], json!([question]), "{report}");
    assert_eq!(report.get("question"), None, "{report}");
    insta::assert_snapshot!(env.masked_texts(&report["next"]), @r#"chief › fixer waits for an answer of a person, who gives it with volery approve, deny or answer [run id]. Tell your user. Nothing is lost if you do other work; then call wait_runs with run_ids ["[run id]"] for the result. Without an answer in time it is told no, and goes on."#);
    let listed = client.call("list_runs", json!({"agent": "chief", "directory": env.project()}));
    assert_eq!(listed["runs"][0]["needs_answer"], json!([question]), "{listed}");

    env.volery(["approve"]).ok();
    let answer = client.answer(id, PATIENCE)["result"]["structuredContent"].clone();
    assert_eq!((&answer["result"], answer.get("needs_answer")), (&json!("yes\nfixed\ndone\n"), None));
}

#[test]
fn the_user_of_a_client_answers_for_the_root() {
    let env = chief_env("- ask: May I build?\n- ask: May I deploy?\n- say: fixed", "");
    let mut client = env.serve().initialize_with("it", json!({"elicitation": {"form": {}}}));
    let arguments = json!({"agent": "chief", "prompt": "go", "directory": env.project()});
    let id = client.send("tools/call", json!({"name": "run_agent", "arguments": arguments}));
    let elicited = |client: &mut crate::test_env::Client| {
        client.next_where(PATIENCE, |message| message["method"] == json!("elicitation/create"))
    };
    let first = elicited(&mut client);
    assert_eq!(first["params"]["message"], json!("needs you: chief › fixer asks: May I build?"));
    client.respond(&first["id"], json!({"action": "accept", "content": {"answer": "yes, build"}}));
    let second = elicited(&mut client);
    assert_eq!(second["params"]["message"], json!("needs you: chief › fixer asks: May I deploy?"));
    // The user closes the window. The wait continues, and a person answers in a shell.
    client.respond(&second["id"], json!({"action": "cancel"}));
    env.volery(["deny"]).ok();
    let answer = client.answer(id, PATIENCE)["result"]["structuredContent"].clone();
    assert_eq!(answer["result"], json!("yes, build\nno\nfixed\ndone\n"), "{answer}");
}
