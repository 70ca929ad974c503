//! Facts in, findings out.

use std::path::{Path, PathBuf};

use domain::run::Containment;

use super::examine::examine;
use crate::app::{
    AppError, ConfigFileView, Contract, IndexView, LoginFound, Machine, Sandboxes, ServiceKey, SlotsView,
    StateDirectory, StateReport, Surroundings, TrustState, TrustView, VendorProgram, filesystem_of,
    service_of,
};
use crate::report::{Check, Grade, Look, Paint, doctor};

fn machine() -> Machine {
    Machine {
        state: Ok(StateDirectory {
            path: PathBuf::from("/home/a/.local/state/volery"),
            exists: true,
            filesystem: Some("ext4".into()),
            free_bytes: Some(5 << 30),
            owned: true,
            writable: true,
        }),
        ordinary: Ok(Containment {
            pid_namespace: true,
            cgroup: Some("v2".into()),
            ..Containment::default()
        }),
        strict: Ok(()),
        pidfd: Ok(()),
        surroundings: Surroundings::default(),
        vendors: Vec::new(),
        services: Vec::new(),
        sandboxes: Sandboxes { landlock: Some(4), programs: vec!["bwrap"] },
    }
}

#[test]
fn programs_of_vendors_are_named_with_their_versions_and_doubts() {
    let vendor = |backend, version: &str, doubt: Option<&str>| VendorProgram {
        backend,
        shares: None,
        found: Some((format!("/bin/{backend}"), Some(version.to_owned()))),
        doubt: doubt.map(ToOwned::to_owned),
        login: None,
        contract: None,
    };
    let absent = |backend| VendorProgram {
        backend,
        shares: None,
        found: None,
        doubt: None,
        login: None,
        contract: None,
    };
    let vendors = vec![
        vendor("claude", "2.1.325", None),
        absent("goose"),
        vendor("codex", "9.0.0", Some("too new")),
        absent("kiro"),
    ];
    let checks = examine(&Machine { vendors, ..machine() }, Ok(&report()));
    let found = |name: &str| checks.iter().find(|check| check.name == name).unwrap();
    assert_eq!(
        (found("claude").grade, found("claude").found.as_str()),
        (Grade::Ok, "2.1.325 as /bin/claude")
    );
    assert_eq!((found("codex").grade, found("codex").advice.as_deref()), (Grade::Weak, Some("too new")));
    let absent = found("not installed");
    assert_eq!((absent.grade, absent.found.as_str()), (Grade::Absent, "goose, kiro"));
    let advice =
        "to use one, install it: goose: npm install -g @aaif/goose; kiro: the download at kiro.dev/cli";
    assert_eq!(absent.advice.as_deref(), Some(advice));
}

#[test]
fn logins_and_tries_are_told_and_what_is_broken_is_called_so() {
    let vendor = |backend, login, contract| VendorProgram {
        backend,
        shares: None,
        found: Some((format!("/bin/{backend}"), None)),
        doubt: None,
        login: Some(login),
        contract,
    };
    let vendors = vec![
        vendor("claude", LoginFound::At("ANTHROPIC_API_KEY".into()), Some(Contract::Kept { took_ms: 1_234 })),
        vendor("codex", LoginFound::Keyring("log in"), Some(Contract::Broken("no terminal event".into()))),
        vendor("kiro", LoginFound::Nowhere("kiro-cli login"), Some(Contract::Untried("closed"))),
    ];
    let checks = examine(&Machine { vendors, ..machine() }, Ok(&report()));
    let found = |name: &str| checks.iter().find(|check| check.name == name).unwrap();
    assert!(found("claude").found.ends_with("; a login in ANTHROPIC_API_KEY; contract ok (1.2 s)"));
    assert_eq!(found("claude").grade, Grade::Ok);
    assert_eq!(found("codex").grade, Grade::Broken);
    assert!(found("codex").found.ends_with("contract broken: no terminal event"), "{:?}", found("codex"));
    assert_eq!((found("kiro").grade, found("kiro").advice.as_deref()), (Grade::Weak, Some("kiro-cli login")));
}

#[test]
fn whoever_has_no_login_is_told_what_to_do_whatever_else_is_to_be_said() {
    let vendor = |backend, doubt: Option<&str>, login| VendorProgram {
        backend,
        shares: None,
        found: Some((format!("/bin/{backend}"), None)),
        doubt: doubt.map(ToOwned::to_owned),
        login: Some(login),
        contract: None,
    };
    let vendors = vec![
        vendor("codex", None, LoginFound::Keyring("codex login")),
        vendor("cursor", Some("it was not tried"), LoginFound::Nowhere("cursor-agent login")),
        vendor("goose", Some("it is too new"), LoginFound::Keyring("goose configure")),
    ];
    let checks = examine(&Machine { vendors, ..machine() }, Ok(&report()));
    let told = |name: &str| {
        let check = checks.iter().find(|check| check.name == name).unwrap();
        (check.grade, check.advice.clone().unwrap_or_default())
    };
    assert_eq!(told("codex"), (Grade::Unknown, "if you are not logged in, codex login".to_owned()));
    assert_eq!(told("cursor"), (Grade::Weak, "it was not tried; cursor-agent login".to_owned()));
    assert_eq!(
        told("goose"),
        (Grade::Weak, "it is too new; if you are not logged in, goose configure".to_owned())
    );
}

#[test]
fn a_backend_that_shares_a_program_tells_only_its_own() {
    let shared = |contract| VendorProgram {
        backend: "acp-gemini",
        shares: Some("gemini"),
        found: Some(("/bin/gemini".to_owned(), Some("0.1.0".to_owned()))),
        doubt: Some("it is too old".to_owned()),
        login: None,
        contract,
    };
    let told = |contract| {
        let checks = examine(&Machine { vendors: vec![shared(contract)], ..machine() }, Ok(&report()));
        let check = checks.into_iter().find(|check| check.name == "acp-gemini").unwrap();
        (check.grade, check.found, check.advice)
    };
    assert_eq!(told(None), (Grade::Weak, "the program of gemini".to_owned(), None));
    let broken = told(Some(Contract::Broken("no answer".to_owned())));
    let found = "the program of gemini; contract broken: no answer";
    assert_eq!((broken.0, broken.1.as_str()), (Grade::Broken, found));
}

#[test]
fn a_backend_that_shares_a_program_is_ok_only_with_a_login_of_that_program() {
    let vendor = |backend, shares, login| VendorProgram {
        backend,
        shares,
        found: Some(("/bin/gemini".to_owned(), None)),
        doubt: None,
        login,
        contract: None,
    };
    for (login, grade) in [
        (LoginFound::At("GEMINI_API_KEY".into()), Grade::Ok),
        (LoginFound::Keyring("log in"), Grade::Unknown),
        (LoginFound::Nowhere("log in"), Grade::Weak),
    ] {
        let vendors = vec![vendor("gemini", None, Some(login)), vendor("acp-gemini", Some("gemini"), None)];
        let checks = examine(&Machine { vendors, ..machine() }, Ok(&report()));
        let grades = checks.iter().filter(|check| check.name.ends_with("gemini")).map(|check| check.grade);
        assert_eq!(grades.collect::<Vec<_>>(), [grade, grade]);
    }
}

#[test]
fn services_are_told_by_the_variable_of_their_key() {
    let key = |backend, variable, is_set| ServiceKey { backend, variable, is_set };
    let services =
        vec![key("api-a", "A_KEY", true), key("api-b", "B_KEY", false), key("api-c", "C_KEY", false)];
    let checks = examine(&Machine { services, ..machine() }, Ok(&report()));
    let check = checks.iter().find(|check| check.name == "services").unwrap();
    assert_eq!(check.found, "api-a by A_KEY; without a key: api-b, api-c");
    assert_eq!(check.advice.as_deref(), Some("to use one without a key, set B_KEY, C_KEY"));
    assert_eq!(check.grade, Grade::Ok);
}

#[test]
fn a_machine_without_the_parts_of_a_sandbox_is_told_what_to_install() {
    let sandboxes = Sandboxes { landlock: None, programs: vec!["docker"] };
    let checks = examine(&Machine { sandboxes, ..machine() }, Ok(&report()));
    let check = checks.iter().find(|check| check.name == "sandboxes").unwrap();
    assert_eq!((check.grade, check.found.as_str()), (Grade::Weak, "no landlock; docker"));
}

fn report() -> StateReport {
    StateReport {
        home: "/home/a/.local/state/volery".into(),
        index: IndexView { path: "index-v2.db".into(), runs: 1_234, problem: None },
        slots: SlotsView { total: 8, taken: 2, queued: 0 },
        config: vec![ConfigFileView {
            path: "/src/api/.volery/config.toml".into(),
            layer: "project".into(),
            diagnostics: Vec::new(),
        }],
        trust: TrustView {
            project: "/src/api".into(),
            state: TrustState::Trusted,
            fingerprint: String::new(),
            items: Vec::new(),
        },
        inside_run: None,
    }
}

fn grades(checks: &[Check]) -> Vec<(&'static str, Grade)> {
    let not_ok = checks.iter().filter(|check| check.grade != Grade::Ok);
    not_ok.map(|check| (check.name, check.grade)).collect()
}

fn with_state(change: impl FnOnce(&mut StateDirectory)) -> Vec<Check> {
    let mut machine = machine();
    if let Ok(state) = &mut machine.state {
        change(state);
    }
    examine(&machine, Ok(&report()))
}

#[test]
fn a_good_machine_is_ok_throughout() {
    assert_eq!(grades(&examine(&machine(), Ok(&report()))), []);
}

#[test]
fn what_weakens_a_promise_is_weak_and_has_advice() {
    let mut weak = machine();
    weak.ordinary = Ok(Containment::default());
    weak.strict = Err("not permitted".into());
    weak.surroundings.service = Some("editor.service".into());
    let mut state = report();
    state.trust.state = TrustState::Changed;
    state.index.problem = Some("it is damaged".into());
    let checks = examine(&weak, Ok(&state));
    let expected = ["pid namespaces", "cgroups", "surroundings", "index", "trust"];
    assert_eq!(grades(&checks), expected.map(|name| (name, Grade::Weak)));
    assert!(checks.iter().all(|check| check.grade == Grade::Ok || check.advice.is_some()), "{checks:#?}");
}

#[test]
fn a_state_directory_that_cannot_keep_a_run_is_missing() {
    let state = |checks: &[Check]| grades(checks).first().copied();
    let missing = Some(("state directory", Grade::Missing));
    assert_eq!(state(&with_state(|state| state.filesystem = Some("nfs4".into()))), missing);
    assert_eq!(state(&with_state(|state| state.owned = false)), missing);
    assert_eq!(state(&with_state(|state| state.writable = false)), missing);
    let volatile = with_state(|state| state.filesystem = Some("tmpfs".into()));
    assert_eq!(state(&volatile), Some(("state directory", Grade::Weak)));
    let full = with_state(|state| state.free_bytes = Some(1 << 20));
    assert_eq!(state(&full), Some(("free space", Grade::Missing)));
}

#[test]
fn an_engine_that_does_not_open_is_a_finding_among_others() {
    let error = AppError::denied("the state directory is read-only").hint("set VOLERY_HOME");
    let checks = examine(&machine(), Err(&error));
    assert_eq!(grades(&checks), [("engine", Grade::Missing)]);
    assert_eq!(checks.last().and_then(|check| check.advice.as_deref()), Some("set VOLERY_HOME"));
}

#[test]
fn a_machine_on_which_no_agent_starts_is_useless() {
    let mut broken = machine();
    broken.ordinary = Err("a process for the agent could not be made".into());
    assert_eq!(grades(&examine(&broken, Ok(&report()))), [("starting an agent", Grade::Missing)]);
}

#[test]
fn inside_a_run_the_engine_is_not_missing() {
    let mut inside = machine();
    inside.surroundings.inside_run = true;
    let error = AppError::denied("this is for the owner of the machine");
    assert_eq!(grades(&examine(&inside, Err(&error))), [("surroundings", Grade::Weak)]);
}

#[test]
fn findings_are_a_table_with_hints_below() {
    let mut weak = machine();
    weak.ordinary = Ok(Containment {
        missing: vec!["pid namespace: no".into(), "control group, version 2: read-only".into()],
        ..Containment::default()
    });
    let look = Look { width: Some(80), paint: Paint::Plain, now: domain::Timestamp::UNIX_EPOCH, home: None };
    insta::assert_snapshot!(doctor(&examine(&weak, Ok(&report())), &look), @r"
    state directory  ok       /home/a/.local/state/volery on ext4
    free space       ok       5.0 GiB
    pid namespaces   weak     only for agents with containment: strict; else what a
                              killed keeper leaves is found at the next look
                              hint: write containment: strict into the agents that
                              must not leave anything
    cgroups          weak     control group, version 2: read-only; limits are kept
                              by rlimits and by watching the tree
                              hint: delegate a cgroup, for example: systemd-run
                              --user --scope -p Delegate=yes volery serve
    pidfd            ok       a process is never mistaken for another with its
                              number
    surroundings     ok       runs outlive whoever asked for them
    sandboxes        ok       landlock 4; bwrap
    index            ok       1,234 ended runs
    slots            ok       2 of 8 taken, 0 waiting
    configuration    ok       /src/api/.volery/config.toml (project)
    trust            ok       /src/api is trusted
    ");
}

#[test]
fn the_deepest_mount_decides_the_filesystem() {
    let mounts = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
                  30 22 0:40 / /home/a\\040b rw shared:1 - nfs4 server:/home rw\n\
                  31 22 0:41 / /tmp rw - tmpfs tmpfs rw\n";
    let of = |path: &str| filesystem_of(mounts, Path::new(path));
    assert_eq!(of("/home/a b/state").as_deref(), Some("nfs4"));
    assert_eq!(of("/tmp/x").as_deref(), Some("tmpfs"));
    assert_eq!(of("/tmpfoo").as_deref(), Some("ext4"));
    assert_eq!(filesystem_of("nonsense", Path::new("/")), None);
}

#[test]
fn only_a_service_of_our_own_would_take_runs_with_it() {
    let terminal = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/app-terminal.scope\n";
    assert_eq!(service_of(terminal), None);
    assert_eq!(service_of("0::/system.slice/editor.service\n").as_deref(), Some("editor.service"));
    assert_eq!(service_of("1:name=systemd:/system.slice/a.service\n0::/\n").as_deref(), Some("a.service"));
    assert_eq!(service_of(""), None);
}
