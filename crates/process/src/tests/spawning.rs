//! What an agent gets at its start, how its end is reported, and the errors if it cannot start.

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use domain::run::ContainmentDemand;

use super::scenario::{DEADLINE, fake_agent, read_all, readable, request};
use crate::{
    AgentRequest, KeeperRequest, ProcessHandle, Signal, SpawnError, StartedAgent, Stdin, request_termination,
    spawn_agent, spawn_keeper,
};
use domain::run::Exit;

/// Both kinds of containment, where the machine allows the second.
const DEMANDS: [ContainmentDemand; 2] = [ContainmentDemand::Plain, ContainmentDemand::Strict];

fn start(request: &AgentRequest) -> Option<StartedAgent> {
    match spawn_agent(request) {
        Ok(started) => Some(started),
        Err(SpawnError::ContainmentRefused { reason }) => {
            eprintln!("SKIPPED: {reason}");
            None
        }
        Err(error) => panic!("{error}: {:?}", std::error::Error::source(&error)),
    }
}

fn with_demand(demand: ContainmentDemand, steps: &[&str]) -> AgentRequest {
    AgentRequest { demand, ..request(steps) }
}

fn exit(started: &mut StartedAgent) -> Exit {
    assert!(readable(&started.agent.exit_fd(), DEADLINE), "the agent does not end");
    started.agent.try_exit().expect("it can be asked").expect("the descriptor has said so")
}

fn error(request: &AgentRequest) -> String {
    spawn_agent(request).map(|_| ()).expect_err("it cannot start").to_string()
}

#[test]
fn an_agent_has_three_descriptors_and_nothing_else() {
    // Not marked for closing at exec, as a careless library would leave it.
    let leaky = rustix::io::dup(fs::File::open("/dev/null").expect("it exists")).expect("a copy");
    for demand in DEMANDS {
        let Some(mut started) = start(&with_demand(demand, &["fds"])) else { continue };
        assert_eq!(read_all(&started.stdout), "0 1 2\n", "{demand:?}");
        started.agent.sweep().expect("processes can be listed");
    }
    drop(leaky);
}

#[test]
fn an_agent_has_its_directory_and_only_its_environment() {
    let directory = tempfile::tempdir().expect("a folder");
    let directory = directory.path().canonicalize().expect("it exists");
    for demand in DEMANDS {
        let agent_request = AgentRequest {
            directory: directory.clone(),
            env: vec![("KEY".into(), "value with spaces".into())],
            ..with_demand(demand, &["cwd", "env"])
        };
        let Some(mut started) = start(&agent_request) else { continue };
        let tag = agent_request.tag;
        let output = read_all(&started.stdout);
        let folder = directory.display();
        assert_eq!(
            output,
            format!("{folder}\nKEY=value with spaces\nVOLERY_RUN_TAG={tag:016x}\n"),
            "{demand:?}"
        );
        started.agent.sweep().expect("processes can be listed");
    }
}

#[test]
fn exit_codes_and_signals_are_reported() {
    for demand in DEMANDS {
        let ways = [("exit:7", Exit::Code(7)), ("exit:0", Exit::Code(0)), ("signal:15", Exit::Signal(15))];
        for (step, expected) in ways {
            let Some(mut started) = start(&with_demand(demand, &[step])) else { continue };
            assert_eq!(exit(&mut started), expected, "{demand:?}");
            assert_eq!(started.agent.try_exit().expect("it can be asked again"), Some(expected));
            let killed = started.agent.sweep().expect("processes can be listed");
            assert_eq!((killed.count, killed.survivors.len()), (0, 0), "{demand:?}");
        }
    }
}

#[test]
fn an_agent_that_was_swept_has_ended_by_a_kill() {
    for demand in DEMANDS {
        let Some(mut started) = start(&with_demand(demand, &["say:ready", "hang"])) else { continue };
        assert!(readable(&started.stdout, DEADLINE));
        assert_eq!(started.agent.try_exit().expect("it can be asked"), None);
        assert_eq!(started.agent.sweep().expect("processes can be listed").count, 1, "{demand:?}");
        assert_eq!(started.agent.try_exit().expect("it can be asked"), Some(Exit::Signal(libc::SIGKILL)));
        assert_eq!(started.agent.sweep().expect("a second sweep finds nothing").count, 0);
    }
}

#[test]
fn processes_that_an_agent_leaves_are_seen_until_they_end() {
    for demand in DEMANDS {
        for (steps, followed) in [(&["setsid-child:60000", "exit:0"][..], true), (&["exit:0"], false)] {
            let Some(mut started) = start(&with_demand(demand, steps)) else { continue };
            assert_eq!(exit(&mut started), Exit::Code(0));
            assert_eq!(
                started.agent.has_live_descendants().expect("processes can be listed"),
                followed,
                "{demand:?}"
            );
            started.agent.sweep().expect("processes can be listed");
            assert!(!started.agent.has_live_descendants().expect("processes can be listed"), "{demand:?}");
        }
    }
}

#[test]
fn asking_ends_the_whole_group_also_when_it_is_stopped() {
    for demand in DEMANDS {
        let steps = ["stopped-child:60000", "say:ready", "stop-self", "hang"];
        let Some(mut started) = start(&with_demand(demand, &steps)) else { continue };
        assert!(readable(&started.stdout, DEADLINE));
        request_termination(&started.agent).expect("it is there");
        assert_eq!(exit(&mut started), Exit::Signal(libc::SIGTERM), "{demand:?}");
        assert_eq!(read_all(&started.stdout), "ready\n", "the stopped child of {demand:?} has not gone");
        started.agent.sweep().expect("processes can be listed");
        request_termination(&started.agent).expect("asking the dead is no error");
    }
}

#[test]
fn stdin_is_what_the_caller_writes() {
    for demand in DEMANDS {
        let agent_request =
            AgentRequest { stdin: Stdin::Pipe, ..with_demand(demand, &["read-stdin", "say:end"]) };
        let Some(mut started) = start(&agent_request) else { continue };
        let stdin = started.stdin.take().expect("it was asked for");
        rustix::io::write(&stdin, b"a prompt\n").expect("the pipe is empty");
        drop(stdin);
        assert_eq!(read_all(&started.stdout), "a prompt\nend\n", "{demand:?}");
        started.agent.sweep().expect("processes can be listed");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn an_agent_can_leave_as_much_unread_output_as_was_requested() {
    for (unread_bytes, output_bytes) in [(300_000, 400_000), (0, 60_000)] {
        let step = format!("say:{}", "x".repeat(output_bytes / 10));
        let steps = vec![step.as_str(); 10];
        let agent_request = AgentRequest { unread_bytes, ..request(&steps) };
        let Some(mut started) = start(&agent_request) else { continue };
        // It ends although nobody has read a byte.
        assert_eq!(exit(&mut started), Exit::Code(0));
        assert!(read_all(&started.stdout).len() >= output_bytes);
        started.agent.sweep().expect("processes can be listed");
    }
}

#[test]
fn the_reported_number_is_the_agents_own() {
    for demand in DEMANDS {
        let Some(mut started) = start(&with_demand(demand, &["say:ready", "hang"])) else { continue };
        let comm = fs::read_to_string(format!("/proc/{}/comm", started.agent.pid())).expect("it is there");
        assert_eq!(comm, "fake-agent\n", "{demand:?}");
        assert_eq!(started.agent.init_pid().is_some(), demand == ContainmentDemand::Strict);
        started.agent.sweep().expect("processes can be listed");
    }
}

#[test]
fn a_namespace_shows_only_its_own_processes_and_no_environment_of_the_worker() {
    let agent_request = AgentRequest {
        argv: ["sh", "-c", "ls /proc | grep -c '^[0-9]'; cat /proc/1/comm"].map(Into::into).into(),
        ..with_demand(ContainmentDemand::Strict, &[])
    };
    let Some(mut started) = start(&agent_request) else { return };
    let output = read_all(&started.stdout);
    let (count, comm) = output.split_once('\n').expect("two lines");
    assert!(count.parse::<u32>().is_ok_and(|count| count <= 5), "{output}");
    assert_eq!(comm, "volery-init\n");
    started.agent.sweep().expect("processes can be listed");
}

#[test]
fn dropping_an_agent_ends_its_namespace() {
    let steps = ["setsid-child:60000", "say:ready", "hang"];
    let Some(started) = start(&with_demand(ContainmentDemand::Strict, &steps)) else { return };
    let StartedAgent { agent, stdout, .. } = started;
    assert!(readable(&stdout, DEADLINE));
    let init = ProcessHandle::open(agent.init_pid().expect("it was asked for")).expect("it is ours");
    drop(agent);
    assert_eq!(read_all(&stdout), "ready\n");
    init.reap().expect("it is ours");
}

#[test]
fn an_obtained_namespace_is_not_reported_as_missing() {
    let Some(mut started) = start(&with_demand(ContainmentDemand::Strict, &["say:ready"])) else { return };
    let containment = &started.agent.containment;
    assert_eq!((containment.pid_namespace, containment.missing.as_slice()), (true, [].as_slice()));
    started.agent.sweep().expect("processes can be listed");
}

#[test]
fn a_program_that_is_not_there_is_named_with_its_path() {
    let missing = AgentRequest { argv: vec!["no-such-agent".into()], ..request(&[]) };
    assert_eq!(error(&missing), "program \"no-such-agent\" was not found in PATH (/usr/bin:/bin)");
    let pathless = AgentRequest { env: Vec::new(), ..missing };
    assert_eq!(
        error(&pathless),
        "program \"no-such-agent\" was not found: the agent's environment has no PATH"
    );
    let absolute = AgentRequest { argv: vec!["/no/such/agent".into()], ..request(&[]) };
    assert_eq!(error(&absolute), "program /no/such/agent does not exist");
    let nothing = AgentRequest { argv: Vec::new(), ..request(&[]) };
    assert_eq!(error(&nothing), "no program was named");
}

#[test]
fn a_program_is_found_by_the_agents_own_path_and_relative_to_its_directory() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("bin")).expect("a folder");
    script(&folder.path().join("bin/hello"), "#!/bin/sh\necho hello\n");
    for (name, path) in [("hello", "nowhere:bin"), ("bin/hello", "/usr/bin"), ("./bin/hello", "/usr/bin")] {
        let agent_request = AgentRequest {
            argv: vec![name.into()],
            env: vec![("PATH".into(), path.into())],
            directory: folder.path().to_owned(),
            ..request(&[])
        };
        let mut started = start(&agent_request).expect("plain is never refused");
        assert_eq!(read_all(&started.stdout), "hello\n", "{name}");
        started.agent.sweep().expect("processes can be listed");
    }
}

#[test]
fn files_that_cannot_be_executed_are_explained() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    script(&at("no-interpreter"), "#!/no/such/sh -e\n");
    script(&at("no-program"), "just text\n");
    fs::write(at("not-executable"), "#!/bin/sh\n").expect("it is written");
    fs::create_dir(at("folder")).expect("a folder");
    let message_for = |name: &str| {
        let message = error(&AgentRequest { argv: vec![at(name).into()], ..request(&[]) });
        message.replace(&folder.path().display().to_string(), "DIR")
    };
    assert_eq!(
        message_for("no-interpreter"),
        "program DIR/no-interpreter names the interpreter \"/no/such/sh\", which does not exist"
    );
    let reason = "it is neither a program for this machine nor a script with a #! line";
    assert_eq!(message_for("no-program"), format!("program DIR/no-program cannot be executed: {reason}"));
    assert_eq!(
        message_for("not-executable"),
        "program DIR/not-executable cannot be executed: permission denied"
    );
    assert_eq!(message_for("folder"), "program DIR/folder cannot be executed: it is a directory");
}

#[test]
fn a_directory_that_is_gone_is_named() {
    for demand in DEMANDS {
        let agent_request =
            AgentRequest { directory: "/no/such/directory".into(), ..with_demand(demand, &[]) };
        match spawn_agent(&agent_request).map(|_| ()).expect_err("it cannot start") {
            SpawnError::Directory { directory, source } => {
                assert_eq!(directory, Path::new("/no/such/directory"));
                assert_eq!(source.raw_os_error(), Some(libc::ENOENT));
            }
            SpawnError::ContainmentRefused { reason } => eprintln!("SKIPPED: {reason}"),
            other => panic!("{other}"),
        }
    }
}

#[test]
fn arguments_that_are_too_long_or_contain_nul_are_refused() {
    let long = "x".repeat(8 << 20);
    assert_eq!(
        error(&request(&[&long])),
        "the arguments and the environment together are longer than the system allows"
    );
    assert_eq!(error(&request(&["say:\0"])), "an argument contains a NUL byte");
}

#[test]
fn plain_is_never_in_a_namespace_and_says_what_holds_the_tree() {
    let mut started = start(&request(&["say:ready"])).expect("plain is never refused");
    let containment = &started.agent.containment;
    assert!(!containment.pid_namespace);
    assert_eq!(containment.tags, ["rlimit_locks", "environment"]);
    assert_eq!(containment.missing, Vec::<String>::new());
    started.agent.sweep().expect("processes can be listed");
}

#[test]
fn auto_takes_a_namespace_or_says_why_not() {
    let mut started =
        start(&with_demand(ContainmentDemand::Auto, &["say:ready"])).expect("auto is never refused");
    let containment = &started.agent.containment;
    let explained = containment.missing.iter().any(|missing| missing.starts_with("pid namespace: "));
    assert_ne!(containment.pid_namespace, explained, "{containment:?}");
    started.agent.sweep().expect("processes can be listed");
}

#[test]
fn a_keeper_has_its_descriptors_its_own_session_and_appends_its_errors() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("worker.log");
    fs::write(&log, "before\n").expect("it is written");
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).expect("a pipe");
    let leaky = rustix::io::dup(&reader).expect("a copy");
    let text = "ls /proc/self/fd | tr '\\n' ' ' >&5; echo $$ $(ps -o sid= -p $$ 2>/dev/null || cut -d' ' -f6 /proc/$$/stat) >&5; echo oops >&2";
    let keeper = spawn_keeper(&KeeperRequest {
        program: Path::new("/bin/sh"),
        args: &["-c".into(), text.into()],
        fds: &[(writer.as_fd(), 5)],
        stderr: Some(&log),
        directory: folder.path(),
    })
    .expect("it starts");
    drop((writer, leaky));
    rustix::io::ioctl_fionbio(&reader, true).expect("a pipe can");
    let output = read_all(&reader);
    let fields: Vec<&str> = output.split_whitespace().collect();
    // One more is that of the listing itself.
    assert_eq!(fields.get(..5), Some(["0", "1", "2", "3", "5"].as_slice()), "{output}");
    let pid = keeper.pid().to_string();
    assert_eq!(fields.get(5..), Some([pid.as_str(), pid.as_str()].as_slice()), "{output}");
    assert!(readable(&keeper, DEADLINE));
    assert_eq!(keeper.try_reap().expect("it is ours"), Some(Exit::Code(0)));
    assert_eq!(fs::read_to_string(&log).expect("it is there"), "before\noops\n");
}

#[test]
fn a_keeper_that_is_stopped_by_a_signal_is_collected_by_its_handle() {
    let keeper = spawn_keeper(&KeeperRequest {
        program: Path::new(&fake_agent()),
        args: &["hang".into()],
        fds: &[],
        stderr: None,
        directory: Path::new("/"),
    })
    .expect("it starts");
    assert_eq!(keeper.try_reap().expect("it is ours"), None);
    keeper.signal(Signal::TERM).expect("it is there");
    assert!(readable(&keeper, DEADLINE));
    assert_eq!(keeper.try_reap().expect("it is ours"), Some(Exit::Signal(libc::SIGTERM)));
    assert!(keeper.try_reap().is_err(), "it was collected before");
}

fn script(path: &Path, text: &str) {
    fs::write(path, text).expect("it is written");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("it is ours");
}
