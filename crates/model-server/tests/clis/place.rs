//! The place itself: what runs in it reaches the server, and nothing else.

use std::path::Path;
use std::time::Duration;

use model_server::{Closed, Folders, Offline, Purpose, Recipe, Reply, Server, play};

pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) fn offline(script: Vec<Reply>) -> Offline {
    Offline::start(Path::new(env!("CARGO_BIN_EXE_model-server")), script).expect("a server can be started")
}

/// Notes that a test could not run here, where the test command counts such notes.
#[expect(clippy::disallowed_methods, reason = "the test command says by a variable where skips are counted")]
pub(crate) fn skip(what: &str, reason: &str) {
    use std::io::Write as _;
    // Without standard error there is nobody to tell.
    let _ = writeln!(std::io::stderr(), "SKIPPED {what}: {reason}");
    let Some(path) = std::env::var_os("VOLERY_TESTS_SKIPPED") else { return };
    let mut file =
        std::fs::OpenOptions::new().append(true).create(true).open(path).expect("the list is there");
    writeln!(file, "{what}: {reason}").expect("the list can be written");
}

fn shell(offline: &Offline, line: &str) -> model_server::Played {
    let root = tempfile::tempdir().expect("a folder can be made");
    let folders = Folders::make(root.path()).expect("folders can be made");
    let argv = ["bash", "-c", line].map(str::to_owned).to_vec();
    let recipe = Recipe { argv, ..Recipe::default() };
    play(offline, &folders, &recipe, PATIENCE).expect("bash runs")
}

#[test]
fn whoever_is_in_the_place_reaches_the_server_and_nobody_else() {
    let offline = offline(vec![Reply::say("work")]);
    if offline.closed() != Closed::Namespace {
        skip(
            "whoever_is_in_the_place_reaches_the_server_and_nobody_else",
            "no network namespace can be made",
        );
        return;
    }
    let port = offline.server().address().port();
    let ask = "printf 'GET /v1/models HTTP/1.1\\r\\nConnection: close\\r\\n\\r\\n' >&3; head -n 1 <&3";
    let played = shell(&offline, &format!("exec 3<>/dev/tcp/127.0.0.1/{port} && {{ {ask}; }}"));
    assert_eq!(played.stdout, "HTTP/1.1 200 OK\r\n", "{played:?}");
    assert_eq!(offline.server().seen()[0].purpose, Purpose::Side);
    // Loopback of the machine is not loopback of the place.
    let other = Server::start(Vec::new()).expect("a server can be started");
    let port = other.address().port();
    assert_ne!(shell(&offline, &format!("exec 3<>/dev/tcp/127.0.0.1/{port}")).exit, 0);
    let interfaces = shell(&offline, "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '");
    assert_eq!(interfaces.stdout, "lo\n");
}

#[test]
fn a_place_has_nothing_in_its_environment_that_was_not_put_there() {
    let offline = offline(Vec::new());
    let played = shell(&offline, "env | cut -d= -f1 | sort | tr '\\n' ' '");
    let mut wanted = vec!["HOME", "LANG", "PATH", "PWD", "SHLVL", "TMPDIR", "_"];
    if offline.closed() == Closed::RefusingProxy {
        wanted.extend(["ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"]);
        wanted.extend(["all_proxy", "http_proxy", "https_proxy", "no_proxy"]);
    }
    let mut found: Vec<&str> = played.stdout.split_whitespace().collect();
    found.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(found, wanted);
}

#[test]
fn without_a_holder_a_proxy_refuses() {
    let offline = Offline::start(Path::new("/nonexistent"), Vec::new()).expect("a server can be started");
    assert_eq!(offline.closed(), Closed::RefusingProxy);
    let port = offline.server().address().port();
    let ask = "printf 'CONNECT example.com:443 HTTP/1.1\\r\\n\\r\\n' >&3; head -n 1 <&3";
    let line = format!(
        "[ \"$HTTPS_PROXY\" = http://127.0.0.1:{port} ] && exec 3<>/dev/tcp/127.0.0.1/{port} && {{ {ask}; }}"
    );
    let played = shell(&offline, &line);
    assert_eq!(played.stdout, "HTTP/1.1 403 Forbidden\r\n", "{played:?}");
    assert_eq!(offline.server().seen()[0].purpose, Purpose::Outside);
}

#[test]
fn who_does_not_end_in_time_is_killed() {
    let offline = offline(Vec::new());
    let root = tempfile::tempdir().expect("a folder can be made");
    let folders = Folders::make(root.path()).expect("folders can be made");
    let argv = ["bash", "-c", "echo begun; exec sleep 1000"].map(str::to_owned).to_vec();
    let recipe = Recipe { argv, ..Recipe::default() };
    let played = play(&offline, &folders, &recipe, Duration::from_secs(1)).expect("bash runs");
    assert_eq!((played.exit, played.late, played.stdout.as_str()), (-9, true, "begun\n"));
}
