//! An isolated program can reach the server and nothing else.

use std::path::Path;
use std::time::Duration;

use fake_llm::{AgentDirs, RequestPurpose, ScriptedReply, ScriptedServer};
use testkit::{CliLaunch, NetworkIsolation, OfflineSandbox, run_cli};

pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) fn offline(script: Vec<ScriptedReply>) -> OfflineSandbox {
    OfflineSandbox::start(Path::new(env!("CARGO_BIN_EXE_fake-llm")), script).expect("a server can be started")
}

/// Reports that a test could not run here, in the file that counts skipped tests.
#[expect(clippy::disallowed_methods, reason = "the test command says by a variable where skips are counted")]
pub(crate) fn skip(what: &str, reason: &str) {
    use std::io::Write as _;
    // Without standard error the message is lost.
    let _ = writeln!(std::io::stderr(), "SKIPPED {what}: {reason}");
    let Some(path) = std::env::var_os("VOLERY_TESTS_SKIPPED") else { return };
    let mut file =
        std::fs::OpenOptions::new().append(true).create(true).open(path).expect("the list is there");
    writeln!(file, "{what}: {reason}").expect("the list can be written");
}

fn shell(offline: &OfflineSandbox, line: &str) -> testkit::CliOutput {
    let root = tempfile::tempdir().expect("a folder can be made");
    let folders = AgentDirs::create(root.path()).expect("folders can be made");
    let argv = ["bash", "-c", line].map(str::to_owned).to_vec();
    let launch = CliLaunch { argv, ..CliLaunch::default() };
    run_cli(offline, &folders, &launch, PATIENCE).expect("bash runs")
}

#[test]
fn only_clients_in_the_environment_reach_the_server() {
    let offline = offline(vec![ScriptedReply::say("work")]);
    if offline.isolation() != NetworkIsolation::Namespace {
        skip("only_clients_in_the_environment_reach_the_server", "no network namespace can be made");
        return;
    }
    let port = offline.server().address().port();
    let ask = "printf 'GET /v1/models HTTP/1.1\\r\\nConnection: close\\r\\n\\r\\n' >&3; head -n 1 <&3";
    let output = shell(&offline, &format!("exec 3<>/dev/tcp/127.0.0.1/{port} && {{ {ask}; }}"));
    assert_eq!(output.stdout, "HTTP/1.1 200 OK\r\n", "{output:?}");
    assert_eq!(offline.server().requests()[0].purpose, RequestPurpose::Side);
    // The loopback of the machine is not that of the namespace.
    let other = ScriptedServer::start(Vec::new()).expect("a server can be started");
    let port = other.address().port();
    assert_ne!(shell(&offline, &format!("exec 3<>/dev/tcp/127.0.0.1/{port}")).exit, 0);
    let interfaces = shell(&offline, "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '");
    assert_eq!(interfaces.stdout, "lo\n");
}

#[test]
fn the_environment_holds_only_the_listed_variables() {
    let offline = offline(Vec::new());
    let output = shell(&offline, "env | cut -d= -f1 | sort | tr '\\n' ' '");
    let mut expected = vec!["HOME", "LANG", "PATH", "PWD", "SHLVL", "TMPDIR", "_"];
    if offline.isolation() == NetworkIsolation::RefusingProxy {
        expected.extend(["ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"]);
        expected.extend(["all_proxy", "http_proxy", "https_proxy", "no_proxy"]);
    }
    let mut found: Vec<&str> = output.stdout.split_whitespace().collect();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
}

#[test]
fn without_a_holder_a_proxy_refuses() {
    let offline =
        OfflineSandbox::start(Path::new("/nonexistent"), Vec::new()).expect("a server can be started");
    assert_eq!(offline.isolation(), NetworkIsolation::RefusingProxy);
    let port = offline.server().address().port();
    let ask = "printf 'CONNECT example.com:443 HTTP/1.1\\r\\n\\r\\n' >&3; head -n 1 <&3";
    let line = format!(
        "[ \"$HTTPS_PROXY\" = http://127.0.0.1:{port} ] && exec 3<>/dev/tcp/127.0.0.1/{port} && {{ {ask}; }}"
    );
    let output = shell(&offline, &line);
    assert_eq!(output.stdout, "HTTP/1.1 403 Forbidden\r\n", "{output:?}");
    assert_eq!(offline.server().requests()[0].purpose, RequestPurpose::Outside);
}

#[test]
fn a_program_that_does_not_end_in_time_is_killed() {
    let offline = offline(Vec::new());
    let root = tempfile::tempdir().expect("a folder can be made");
    let folders = AgentDirs::create(root.path()).expect("folders can be made");
    let argv = ["bash", "-c", "echo begun; exec sleep 1000"].map(str::to_owned).to_vec();
    let launch = CliLaunch { argv, ..CliLaunch::default() };
    let output = run_cli(&offline, &folders, &launch, Duration::from_secs(1)).expect("bash runs");
    assert_eq!((output.exit, output.timed_out, output.stdout.as_str()), (-9, true, "begun\n"));
}
