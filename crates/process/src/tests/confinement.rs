//! Confined programs: ordinary ones work, the record says what held, and what cannot be confined does not start.

use std::path::{Path, PathBuf};

use domain::run::{ContainmentDemand, Exit, NetworkRestriction};

use super::scenario::{DEADLINE, read_all, readable, request};
use crate::{
    AgentRequest, Confinement, IfMissing, NetworkAccess, SpawnError, landlock_version, spawn_agent,
    system_read_paths,
};

fn confinement(project: &Path) -> Confinement {
    Confinement {
        read_only: system_read_paths(),
        read_write: vec![project.to_owned()],
        network: NetworkAccess::Denied,
        hidden: Vec::new(),
        if_missing: IfMissing::Refuse,
    }
}

fn command(argv: &[&str], project: &Path) -> AgentRequest {
    AgentRequest {
        argv: argv.iter().map(Into::into).collect(),
        env: vec![
            ("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into()),
            ("HOME".into(), project.into()),
            ("TMPDIR".into(), project.into()),
        ],
        directory: project.to_owned(),
        confinement: Some(confinement(project)),
        ..request(&[])
    }
}

/// Returns the exit and both outputs, or `None` if the program is not installed.
fn run(agent_request: &AgentRequest) -> Option<(Exit, String)> {
    let mut started = match spawn_agent(agent_request) {
        Ok(started) => started,
        Err(SpawnError::NotInPath { program, .. }) => {
            eprintln!("SKIPPED: {} is not installed", program.display());
            return None;
        }
        Err(SpawnError::ContainmentRefused { reason }) => {
            eprintln!("SKIPPED: {reason}");
            return None;
        }
        Err(error) => panic!("{error}: {:?}", std::error::Error::source(&error)),
    };
    let output = read_all(&started.stdout) + &read_all(&started.stderr);
    assert!(readable(&started.agent.exit_fd(), DEADLINE), "it does not end");
    let exit = started.agent.try_exit().expect("it can be asked").expect("it has ended");
    started.agent.sweep().expect("processes can be listed");
    Some((exit, output))
}

/// Commands that a project runs every day, each with a part of its output.
const ORDINARY: [(&[&str], &str); 9] = [
    (
        &[
            "sh",
            "-c",
            "git init -q . && git config user.email a@b.c && git config user.name n && echo a > a && git add a \
             && git commit -qm first && git gc -q && git log --oneline",
        ],
        "first",
    ),
    (&["grep", "-rn", "needle", "."], "./found:1:needle"),
    (&["ls", "-la"], "found"),
    (&["find", ".", "-name", "found", "-exec", "cat", "{}", ";"], "needle"),
    (
        &[
            "python3",
            "-c",
            "import asyncio, subprocess, tempfile; asyncio.run(asyncio.sleep(0)); tempfile.mkdtemp(); \
             print(subprocess.check_output(['cat', 'found']))",
        ],
        "needle",
    ),
    (
        &[
            "node",
            "-e",
            "console.log(process.memoryUsage().rss > 0, require('child_process').execSync('cat found').toString())",
        ],
        "true needle",
    ),
    (
        &["bash", "-c", "diff <(echo one) <(echo two); cat < /dev/null; head -c 1 /dev/urandom | wc -c"],
        "> two\n1",
    ),
    (
        &[
            "sh",
            "-c",
            "echo 'int main(){return 0;}' > p.c && cc p.c -o p && ./p && mkdir d && mv p d/q && d/q && echo built",
        ],
        "built",
    ),
    (
        &["sh", "-c", "tar cf t.tar found && chmod 600 found && rm found && tar xf t.tar && cat found"],
        "needle",
    ),
];

#[test]
fn ordinary_programs_work() {
    for demand in [ContainmentDemand::Plain, ContainmentDemand::Auto, ContainmentDemand::Strict] {
        for (argv, expected) in ORDINARY {
            let project = tempfile::tempdir().expect("a folder");
            std::fs::write(project.path().join("found"), "needle\n").expect("it is writable");
            let agent_request = AgentRequest { demand, ..command(argv, project.path()) };
            let Some((exit, output)) = run(&agent_request) else { continue };
            if output.contains("not found") {
                eprintln!("SKIPPED: {output}");
                continue;
            }
            assert!(output.contains(expected), "{demand:?} {argv:?}: {exit:?} {output}");
        }
    }
}

#[test]
fn the_record_says_what_held() {
    let project = tempfile::tempdir().expect("a folder");
    let version = landlock_version().expect("the tests need landlock");
    for (network, expected) in [
        (NetworkAccess::Denied, NetworkRestriction::Closed),
        (NetworkAccess::Unrestricted, NetworkRestriction::HostsOnly),
    ] {
        let mut agent_request = command(&["true"], project.path());
        agent_request.confinement = Some(Confinement { network, ..confinement(project.path()) });
        let mut started = spawn_agent(&agent_request).expect("it starts");
        let containment = started.agent.containment.clone();
        assert_eq!((containment.landlock, containment.network), (Some(version), Some(expected)));
        started.agent.sweep().expect("processes can be listed");
    }
    let unconfined = AgentRequest { confinement: None, ..command(&["true"], project.path()) };
    let mut started = spawn_agent(&unconfined).expect("it starts");
    assert_eq!((started.agent.containment.landlock, started.agent.containment.network), (None, None));
    started.agent.sweep().expect("processes can be listed");
}

#[test]
fn root_gives_up_its_rights_over_the_system() {
    let project = tempfile::tempdir().expect("a folder");
    let names = "grep -E 'CapEff|NoNewPrivs|Seccomp:' /proc/self/status";
    let (_, output) =
        run(&command(&["sh", "-c", &format!("exec {names}")], project.path())).expect("it starts");
    let field = |name: &str| {
        let line = output.lines().find(|line| line.starts_with(name)).expect("the kernel has the field");
        u64::from_str_radix(line.split_whitespace().nth(1).expect("a value"), 16).expect("a number")
    };
    // Owner, modes and set-id bits of files, and access to those of other users.
    assert_eq!(field("CapEff:") & !0b1_1011, 0, "{output}");
    assert_eq!((field("NoNewPrivs:"), field("Seccomp:")), (1, 2), "{output}");
}

#[test]
fn what_cannot_be_confined_does_not_start() {
    let base = tempfile::tempdir().expect("a folder");
    let base = base.path().canonicalize().expect("it exists");
    let (project, other) = (base.join("project"), base.join("other"));
    for folder in [&project, &other] {
        std::fs::create_dir(folder).expect("a folder");
    }
    for (path, text) in [
        (other.join("tool"), "#!/bin/sh\necho started\n".to_owned()),
        (project.join("script"), format!("#!{}/tool\n", other.display())),
    ] {
        std::fs::write(&path, text).expect("it is writable");
        rustix::fs::chmod(&path, rustix::fs::Mode::from_raw_mode(0o755)).expect("it is ours");
    }
    let with = |change: &dyn Fn(&mut AgentRequest, &mut Confinement)| {
        let mut agent_request = command(&["true"], &project);
        let mut confinement = confinement(&project);
        change(&mut agent_request, &mut confinement);
        agent_request.confinement = Some(confinement);
        spawn_agent(&agent_request).map(|_| ()).expect_err("it cannot start").to_string()
    };
    let outside = |program: &Path| {
        format!("program {} is outside the directories that a confined program may read", program.display())
    };
    let tool = other.join("tool");
    assert_eq!(with(&|agent, _| agent.argv = vec![tool.clone().into()]), outside(&tool));
    let found_there = with(&|agent, _| {
        agent.argv = vec!["tool".into()];
        agent.env = vec![("PATH".into(), other.clone().into())];
    });
    assert_eq!(found_there, outside(&tool));
    assert_eq!(with(&|agent, _| agent.argv = vec!["./script".into()]), outside(&tool), "the interpreter");
    let exposed = with(&|_, confinement| confinement.hidden = vec![project.join("state")]);
    let (directory, hidden) = (project.display(), project.join("state"));
    assert_eq!(
        exposed,
        format!("a program cannot be confined to {directory}: {} is in it", hidden.display())
    );
    let absent = with(&|_, confinement| confinement.read_write.push(PathBuf::from("/no/such/directory")));
    assert_eq!(absent, "a program cannot be confined to /no/such/directory: it cannot be opened");
    let mut allowed = command(&["./script"], &project);
    allowed.confinement = Some(Confinement { hidden: vec![base], ..confinement(&project) });
    allowed.confinement.as_mut().expect("it was just set").read_only.push(other);
    assert_eq!(
        run(&allowed).map(|(_, output)| output).as_deref(),
        Some("started\n"),
        "within a hidden directory"
    );
}
