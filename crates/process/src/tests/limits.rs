//! Limits are in force, their enforcers are recorded, and an exceeded one is named.

use serde_json::{Value, json};

use super::scenario::{DEADLINE, read_all, readable, request, start_scenario};
use crate::{AgentRequest, ResourceLimits, spawn_agent};
use domain::run::Exit;
use domain::run::{Enforcer, LimitName};

const MIB: u64 = 1 << 20;

fn run(demand: &str, steps: &[&str], details: &Value) -> Option<Value> {
    let report = start_scenario("run", demand, steps, details).next();
    if report.get("refused").is_some() {
        eprintln!("SKIPPED: {report}");
        return None;
    }
    assert_eq!((&report["alive"], &report["childless"]), (&json!([]), &json!(true)), "{report}");
    Some(report)
}

#[test]
fn a_memory_runaway_is_stopped_and_named() {
    for without_cgroup in [false, true] {
        let details = json!({ "memory_bytes": 64 * MIB, "without_cgroup": without_cgroup });
        let steps = ["memory:33554432", "memory:33554432", "memory:67108864", "hang"];
        let report = run("plain", &steps, &details).expect("plain is never refused");
        assert_eq!(report["passed"][0], "memory", "{report}");
        if without_cgroup {
            assert_eq!(report["containment"]["limits"]["memory"], "watch", "{report}");
        }
    }
}

#[test]
fn memory_below_its_limit_is_not_stopped() {
    for without_cgroup in [false, true] {
        let details = json!({ "memory_bytes": 256 * MIB, "without_cgroup": without_cgroup });
        let report = run("plain", &["memory:33554432", "sleep:100", "exit:3"], &details).expect("plain");
        assert_eq!((&report["passed"], &report["code"]), (&Value::Null, &json!(3)), "{report}");
    }
}

#[test]
fn memory_that_many_share_counts_once() {
    // Each child shares what its parent has touched: the sum of what is resident is above the limit, the need is not.
    let details = json!({ "memory_bytes": 96 * MIB, "without_cgroup": true });
    let steps = ["memory:50331648", "setsid-child:60000", "setsid-child:60000", "sleep:300", "exit:0"];
    let report = run("plain", &steps, &details).expect("plain is never refused");
    assert_eq!((&report["passed"], &report["code"]), (&Value::Null, &json!(0)), "{report}");
    let most = report["most_memory_bytes"].as_u64().expect("a number");
    assert!((48 * MIB..96 * MIB).contains(&most), "{most}");
}

#[test]
fn too_many_processes_are_stopped_and_named() {
    let crowd: Vec<&str> = std::iter::repeat_n("setsid-child:60000", 12).chain(["hang"]).collect();
    for demand in ["plain", "strict"] {
        for without_cgroup in [false, true] {
            let details = json!({ "processes": 8, "without_cgroup": without_cgroup });
            let Some(report) = run(demand, &crowd, &details) else { continue };
            assert_eq!(report["passed"][0], "processes", "{report}");
        }
    }
}

#[test]
fn as_many_processes_as_allowed_are_not_stopped() {
    // The agent and two children; the first process of a namespace is not the agent's.
    let steps = ["setsid-child:60000", "setsid-child:60000", "sleep:200", "exit:0"];
    for demand in ["plain", "strict"] {
        for without_cgroup in [false, true] {
            let details = json!({ "processes": 3, "without_cgroup": without_cgroup });
            let Some(report) = run(demand, &steps, &details) else { continue };
            assert_eq!((&report["passed"], &report["code"]), (&Value::Null, &json!(0)), "{report}");
        }
    }
}

#[test]
fn cpu_time_is_summed_over_the_tree_and_named() {
    for demand in ["plain", "strict"] {
        for without_cgroup in [false, true] {
            let details = json!({ "cpu_ms": 200, "without_cgroup": without_cgroup });
            let Some(report) = run(demand, &["spin:10000"], &details) else { continue };
            assert_eq!(report["passed"][0], "cpu", "{report}");
            assert!(report["cpu_ms"].as_u64().is_some_and(|used| used >= 200), "{report}");
            assert_eq!(report["containment"]["limits"]["cpu"], "watch");
        }
    }
}

#[test]
fn limits_per_process_are_in_force() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("big");
    let limits = ResourceLimits {
        open_files: Some(32),
        file_bytes: Some(4096),
        cpu_ms: Some(90_000),
        ..ResourceLimits::default()
    };
    let big = format!("big-file:{}:8192", file.display());
    let agent_request = AgentRequest { limits, ..request(&["limits", "open-files:20", &big]) };
    let mut started = spawn_agent(&agent_request).expect("it starts");
    let output = read_all(&started.stdout);
    let row = |name: &str| {
        let row = output.lines().find_map(|line| line.strip_prefix(name)).expect("the kernel has the limit");
        row.split_whitespace().take(2).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(row("Max open files"), ["32", "32"]);
    assert_eq!(row("Max file size"), ["4096", "4096"]);
    assert_eq!(row("Max cpu time"), ["90", "92"]);
    assert_eq!(row("Max core file size"), ["0", "0"]);
    assert!(output.ends_with("opened 20\n"), "{output}");
    assert!(readable(&started.agent.exit_fd(), DEADLINE));
    let exit = started.agent.try_exit().expect("it can be asked");
    assert_eq!(exit, Some(Exit::Signal(libc::SIGXFSZ)));
    let (limit, detail) = started.agent.exceeded_limit().expect("processes can be listed").expect("it has");
    assert_eq!(
        (limit, detail.as_str()),
        (LimitName::FileSize, "the agent wrote a file of more than 4096 bytes")
    );
    let recorded: Vec<(&str, Enforcer)> =
        started.agent.containment.limits.iter().map(|(name, enforcer)| (name.as_str(), *enforcer)).collect();
    let expected =
        [("cpu", Enforcer::Watch), ("file_size", Enforcer::Rlimit), ("open_files", Enforcer::Rlimit)];
    assert_eq!(recorded, expected);
    started.agent.sweep().expect("processes can be listed");
}

#[test]
fn no_more_files_are_open_than_allowed() {
    let limits = ResourceLimits { open_files: Some(32), ..ResourceLimits::default() };
    let mut started =
        spawn_agent(&AgentRequest { limits, ..request(&["open-files:100"]) }).expect("it starts");
    assert_eq!(read_all(&started.stdout), "opened 29\n");
    started.agent.sweep().expect("processes can be listed");
}

#[test]
fn one_process_that_uses_too_much_cpu_ends_even_unwatched() {
    let limits = ResourceLimits { cpu_ms: Some(1000), ..ResourceLimits::default() };
    let mut started = spawn_agent(&AgentRequest { limits, ..request(&["spin:60000"]) }).expect("it starts");
    assert!(readable(&started.agent.exit_fd(), DEADLINE), "it spins on");
    assert_eq!(started.agent.try_exit().expect("it can be asked"), Some(Exit::Signal(libc::SIGXCPU)));
    let passed = started.agent.exceeded_limit().expect("processes can be listed").map(|(limit, _)| limit);
    assert_eq!(passed, Some(LimitName::Cpu));
    started.agent.sweep().expect("processes can be listed");
}
