//! Facts in, findings out.

use std::path::{Path, PathBuf};

use domain::run::Containment;

use super::examine::examine;
use crate::report::{Check, ColorMode, Grade, TextStyle, doctor};
use engine::{
    ConfigFileView, EngineError, IndexView, LoginStatus, MachineReport, ProbeResult, ProcessSurroundings,
    Sandboxes, ServiceKey, SlotsView, StateDirectory, StateReport, TrustState, TrustView, VendorProgram,
    filesystem_type, service_from_cgroup,
};

fn machine() -> MachineReport {
    MachineReport {
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
        process: ProcessSurroundings::default(),
        vendors: Vec::new(),
        services: Vec::new(),
        sandboxes: Sandboxes { landlock: Some(4), programs: vec!["bwrap"] },
    }
}

#[test]
fn programs_of_vendors_are_named_with_their_versions_and_doubts() {
    let vendor = |backend, version: &str, doubt: Option<&str>| VendorProgram {
        backend,
        same_program_as: None,
        found: Some((format!("/bin/{backend}"), Some(version.to_owned()))),
        version_warning: doubt.map(ToOwned::to_owned),
        login: None,
        probe: None,
    };
    let absent = |backend| VendorProgram {
        backend,
        same_program_as: None,
        found: None,
        version_warning: None,
        login: None,
        probe: None,
    };
    let vendors = vec![
        vendor("claude", "2.1.325", None),
        absent("goose"),
        vendor("codex", "9.0.0", Some("too new")),
        absent("kiro"),
        absent("acp-codex"),
        // The program of goose.
        absent("acp-goose"),
    ];
    let checks = examine(&MachineReport { vendors, ..machine() }, Ok(&report()));
    let found = |name: &str| checks.iter().find(|check| check.name == name).unwrap();
    assert_eq!(
        (found("claude").grade, found("claude").found.as_str()),
        (Grade::Ok, "2.1.325 as /bin/claude")
    );
    assert_eq!((found("codex").grade, found("codex").advice.as_deref()), (Grade::Weak, Some("too new")));
    let absent = found("not installed");
    assert_eq!((absent.grade, absent.found.as_str()), (Grade::Absent, "goose, kiro, acp-codex, acp-goose"));
    let advice = "to use one, install it: goose: npm install -g @aaif/goose; kiro: the download at kiro.dev/cli; \
                  acp-codex: npm install -g @agentclientprotocol/codex-acp";
    assert_eq!(absent.advice.as_deref(), Some(advice));
}

#[test]
fn logins_and_probe_results_are_reported() {
    let vendor = |backend, login, contract| VendorProgram {
        backend,
        same_program_as: None,
        found: Some((format!("/bin/{backend}"), None)),
        version_warning: None,
        login: Some(login),
        probe: contract,
    };
    let vendors = vec![
        vendor(
            "claude",
            LoginStatus::Found("ANTHROPIC_API_KEY".into()),
            Some(ProbeResult::Passed { took_ms: 1_234 }),
        ),
        vendor(
            "codex",
            LoginStatus::Keyring("log in"),
            Some(ProbeResult::Failed("no terminal event".into())),
        ),
        vendor("kiro", LoginStatus::Missing("kiro-cli login"), Some(ProbeResult::Skipped("closed"))),
    ];
    let checks = examine(&MachineReport { vendors, ..machine() }, Ok(&report()));
    let found = |name: &str| checks.iter().find(|check| check.name == name).unwrap();
    assert!(found("claude").found.ends_with("; a login in ANTHROPIC_API_KEY; contract ok (1.2 s)"));
    assert_eq!(found("claude").grade, Grade::Ok);
    assert_eq!(found("codex").grade, Grade::Broken);
    assert!(found("codex").found.ends_with("contract broken: no terminal event"), "{:?}", found("codex"));
    assert_eq!((found("kiro").grade, found("kiro").advice.as_deref()), (Grade::Weak, Some("kiro-cli login")));
}

#[test]
fn a_service_without_a_key_is_absent_if_its_program_has_an_owner() {
    let vendor = |backend, program: &str, login| VendorProgram {
        backend,
        same_program_as: None,
        found: Some((program.to_owned(), Some("2.1.325".to_owned()))),
        version_warning: None,
        login: Some(login),
        probe: None,
    };
    let missing = || LoginStatus::Missing("set ZAI_API_KEY");
    let reported = |vendors: Vec<VendorProgram>| {
        let checks = examine(&MachineReport { vendors, ..machine() }, Ok(&report()));
        let check = checks.into_iter().find(|check| check.name == "glm").unwrap();
        (check.grade, check.found, check.advice.unwrap_or_default())
    };
    let claude = || vendor("claude", "/bin/claude", missing());
    let without_key = reported(vec![claude(), vendor("glm", "/bin/claude", missing())]);
    let found = "no key set (optional); it uses the program of claude".to_owned();
    assert_eq!(without_key, (Grade::Absent, found, "to use it, set ZAI_API_KEY".to_owned()));
    let with_key = vendor("glm", "/bin/claude", LoginStatus::Found("ZAI_API_KEY".into()));
    assert_eq!(reported(vec![claude(), with_key]).0, Grade::Ok);
    let own_program = vendor("glm", "/bin/glm", missing());
    assert_eq!(reported(vec![claude(), own_program]).0, Grade::Weak);
}

#[test]
fn a_missing_login_has_advice_beyond_other_advice() {
    let vendor = |backend, doubt: Option<&str>, login| VendorProgram {
        backend,
        same_program_as: None,
        found: Some((format!("/bin/{backend}"), None)),
        version_warning: doubt.map(ToOwned::to_owned),
        login: Some(login),
        probe: None,
    };
    let vendors = vec![
        vendor("codex", None, LoginStatus::Keyring("codex login")),
        vendor("cursor", Some("it was not tried"), LoginStatus::Missing("cursor-agent login")),
        vendor("goose", Some("it is too new"), LoginStatus::Keyring("goose configure")),
    ];
    let checks = examine(&MachineReport { vendors, ..machine() }, Ok(&report()));
    let reported = |name: &str| {
        let check = checks.iter().find(|check| check.name == name).unwrap();
        (check.grade, check.advice.clone().unwrap_or_default())
    };
    assert_eq!(reported("codex"), (Grade::Unknown, "if you are not logged in, codex login".to_owned()));
    assert_eq!(reported("cursor"), (Grade::Weak, "it was not tried; cursor-agent login".to_owned()));
    assert_eq!(
        reported("goose"),
        (Grade::Weak, "it is too new; if you are not logged in, goose configure".to_owned())
    );
}

#[test]
fn a_backend_that_shares_a_program_reports_only_its_own_findings() {
    let shared = |contract| VendorProgram {
        backend: "acp-gemini",
        same_program_as: Some("gemini"),
        found: Some(("/bin/gemini".to_owned(), Some("0.1.0".to_owned()))),
        version_warning: Some("it is too old".to_owned()),
        login: None,
        probe: contract,
    };
    let reported = |contract| {
        let checks = examine(&MachineReport { vendors: vec![shared(contract)], ..machine() }, Ok(&report()));
        let check = checks.into_iter().find(|check| check.name == "acp-gemini").unwrap();
        (check.grade, check.found, check.advice)
    };
    assert_eq!(reported(None), (Grade::Weak, "the program of gemini".to_owned(), None));
    let broken = reported(Some(ProbeResult::Failed("no answer".to_owned())));
    let found = "the program of gemini; contract broken: no answer";
    assert_eq!((broken.0, broken.1.as_str()), (Grade::Broken, found));
}

#[test]
fn a_backend_that_shares_a_program_is_ok_only_with_a_login_of_that_program() {
    let vendor = |backend, shares, login| VendorProgram {
        backend,
        same_program_as: shares,
        found: Some(("/bin/gemini".to_owned(), None)),
        version_warning: None,
        login,
        probe: None,
    };
    for (login, grade) in [
        (LoginStatus::Found("GEMINI_API_KEY".into()), Grade::Ok),
        (LoginStatus::Keyring("log in"), Grade::Unknown),
        (LoginStatus::Missing("log in"), Grade::Weak),
    ] {
        let vendors = vec![vendor("gemini", None, Some(login)), vendor("acp-gemini", Some("gemini"), None)];
        let checks = examine(&MachineReport { vendors, ..machine() }, Ok(&report()));
        let grades = checks.iter().filter(|check| check.name.ends_with("gemini")).map(|check| check.grade);
        assert_eq!(grades.collect::<Vec<_>>(), [grade, grade]);
    }
}

#[test]
fn services_are_reported_by_the_variable_of_their_key() {
    let key = |backend, variable, is_set| ServiceKey { backend, variable, is_set };
    let services =
        vec![key("api-a", "A_KEY", true), key("api-b", "B_KEY", false), key("api-c", "C_KEY", false)];
    let checks = examine(&MachineReport { services, ..machine() }, Ok(&report()));
    let check = checks.iter().find(|check| check.name == "model APIs").unwrap();
    assert_eq!(check.found, "api-a by A_KEY");
    assert_eq!(check.advice.as_deref(), Some("to use another one, set B_KEY, C_KEY"));
    assert_eq!(check.grade, Grade::Ok);
    // Without any key there is nothing to use.
    let services = vec![key("api-b", "B_KEY", false)];
    let checks = examine(&MachineReport { services, ..machine() }, Ok(&report()));
    let check = checks.iter().find(|check| check.name == "model APIs").unwrap();
    assert_eq!((check.grade, check.found.as_str()), (Grade::Absent, "no key set (optional)"));
    assert_eq!(check.advice.as_deref(), Some("to use one, set B_KEY"));
}

#[test]
fn a_machine_without_sandbox_parts_gets_install_advice() {
    let sandboxes = Sandboxes { landlock: None, programs: vec!["docker"] };
    let checks = examine(&MachineReport { sandboxes, ..machine() }, Ok(&report()));
    let check = checks.iter().find(|check| check.name == "sandboxes").unwrap();
    assert_eq!((check.grade, check.found.as_str()), (Grade::Weak, "no landlock; docker"));
}

fn report() -> StateReport {
    StateReport {
        home: "/home/a/.local/state/volery".into(),
        index: IndexView { path: "index-v3.db".into(), runs: 1_234, problem: None },
        slots: SlotsView { total: 8, used: 2, queued: 0 },
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
    weak.process.service = Some("editor.service".into());
    let mut state = report();
    state.trust.state = TrustState::Changed;
    state.index.problem = Some("it is damaged".into());
    let checks = examine(&weak, Ok(&state));
    let expected = ["pid namespaces", "cgroups", "surroundings", "index", "trust"];
    assert_eq!(grades(&checks), expected.map(|name| (name, Grade::Weak)));
    assert!(checks.iter().all(|check| check.grade == Grade::Ok || check.advice.is_some()), "{checks:#?}");
}

/// Bug: a project that only raises a limit was reported as one that names programs.
#[test]
fn an_untrusted_project_may_only_widen_grants() {
    let mut state = report();
    state.trust.state = TrustState::Untrusted;
    let checks = examine(&machine(), Ok(&state));
    let check = checks.iter().find(|check| check.name == "trust").unwrap();
    assert_eq!(check.found, "/src/api names programs or widens grants, and is not trusted");
}

#[test]
fn an_unusable_state_directory_is_missing() {
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
    let error = EngineError::denied("the state directory is read-only").hint("set VOLERY_HOME");
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
    inside.process.inside_run = true;
    let error = EngineError::denied("this is for the owner of the machine");
    assert_eq!(grades(&examine(&inside, Err(&error))), [("surroundings", Grade::Weak)]);
}

#[test]
fn findings_are_a_table_with_hints_below() {
    let mut weak = machine();
    weak.ordinary = Ok(Containment {
        missing: vec!["pid namespace: no".into(), "control group, version 2: read-only".into()],
        ..Containment::default()
    });
    let style = TextStyle {
        width: Some(80),
        color: ColorMode::Plain,
        now: domain::Timestamp::UNIX_EPOCH,
        home: None,
    };
    insta::assert_snapshot!(doctor(&examine(&weak, Ok(&report())), &style), @r"
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
    let filesystem = |path: &str| filesystem_type(mounts, Path::new(path));
    assert_eq!(filesystem("/home/a b/state").as_deref(), Some("nfs4"));
    assert_eq!(filesystem("/tmp/x").as_deref(), Some("tmpfs"));
    assert_eq!(filesystem("/tmpfoo").as_deref(), Some("ext4"));
    assert_eq!(filesystem_type("nonsense", Path::new("/")), None);
}

#[test]
fn only_the_own_service_is_reported() {
    let terminal = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/app-terminal.scope\n";
    assert_eq!(service_from_cgroup(terminal), None);
    assert_eq!(service_from_cgroup("0::/system.slice/editor.service\n").as_deref(), Some("editor.service"));
    assert_eq!(
        service_from_cgroup("1:name=systemd:/system.slice/a.service\n0::/\n").as_deref(),
        Some("a.service")
    );
    assert_eq!(service_from_cgroup(""), None);
}
