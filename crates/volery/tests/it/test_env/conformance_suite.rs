//! The conformance suite of the protocol against a server: installed by `scripts/setup-clis`, offline, on loopback. It
//! cannot send a token, so it speaks to a relay that adds one to each request; the server is as it always is.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long the whole suite may take; it takes seconds.
const SUITE_MAX: Duration = Duration::from_secs(240);

/// What the suite found.
#[derive(Debug)]
pub(crate) struct Findings {
    pub(crate) code: i32,
    /// Checks that failed, as `scenario:check`.
    pub(crate) failed: BTreeSet<String>,
    pub(crate) passed: usize,
    pub(crate) text: String,
}

/// Runs what a revision of the protocol requires; `None` if it is not installed, which is recorded as a skipped test.
pub(crate) fn conformance(
    server: SocketAddr,
    token: &str,
    revision: &str,
    baseline: Option<&Path>,
) -> Option<Findings> {
    let program = match testkit::InstalledCli::find("conformance") {
        Ok(program) => program,
        Err(error) => {
            if let Some(list) = std::env::var_os("VOLERY_TESTS_SKIPPED") {
                let mut list = std::fs::OpenOptions::new().append(true).open(list).unwrap();
                list.write_all(format!("conformance {revision}: {error}\n").as_bytes()).unwrap();
            }
            return None;
        }
    };
    let relay = relay(server, token.to_owned());
    let vendor_env = tempfile::tempdir().unwrap();
    let output = std::fs::File::create(vendor_env.path().join("output")).unwrap();
    let mut command = Command::new(&program.argv[0]);
    command.args(&program.argv[1..]).args(["server", "--url"]).arg(format!("http://{relay}/mcp"));
    command.args(["--requirements", revision, "-o"]).arg(vendor_env.path().join("results"));
    if let Some(baseline) = baseline {
        command.arg("--expected-failures").arg(baseline);
    }
    command.env_clear().env("HOME", vendor_env.path()).current_dir(vendor_env.path());
    command.stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output);
    let mut child = command.spawn().unwrap();
    let deadline = Instant::now() + SUITE_MAX;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > deadline {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("the suite took longer than {SUITE_MAX:?}");
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let text = std::fs::read_to_string(vendor_env.path().join("output")).unwrap();
    let (failed, passed) = checks(&vendor_env.path().join("results"));
    Some(Findings { code: status.code().unwrap_or(-1), failed, passed, text })
}

/// Reads what was checked: one folder for each scenario, named `server-SCENARIO-TIME`.
fn checks(results: &Path) -> (BTreeSet<String>, usize) {
    let (mut failed, mut passed) = (BTreeSet::new(), 0);
    for folder in std::fs::read_dir(results).unwrap() {
        let path = folder.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let scenario = name.strip_prefix("server-").unwrap();
        // The time is 2026-11-16T08-13-18-475Z.
        let scenario = &scenario[..scenario.len() - "-2026-11-16T08-13-18-475Z".len()];
        let checks: serde_json::Value =
            serde_json::from_slice(&std::fs::read(path.join("checks.json")).unwrap()).unwrap();
        for check in checks.as_array().unwrap() {
            match check["status"].as_str() {
                Some("FAILURE") => {
                    failed.insert(format!("{scenario}:{}", check["id"].as_str().unwrap()));
                }
                Some("SUCCESS") => passed += 1,
                _ => {}
            }
        }
    }
    (failed, passed)
}

/// Adds a token to each request. For as long as the process lives.
fn relay(server: SocketAddr, token: String) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let token = token.clone();
            // Whoever closes its end early has had enough.
            std::thread::spawn(move || drop(pass_on(client, server, &token)));
        }
    });
    address
}

/// One request for each connection, so that only the first head has to be found.
fn pass_on(mut client: TcpStream, server: SocketAddr, token: &str) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    let mut piece = [0; 16 << 10];
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        match client.read(&mut piece)? {
            0 => return Ok(()),
            count => bytes.extend_from_slice(&piece[..count]),
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let lines = head.split("\r\n").filter(|line| !line.to_ascii_lowercase().starts_with("connection:"));
    let mut request: String = lines.map(|line| format!("{line}\r\n")).collect();
    request.push_str(&format!("connection: close\r\nauthorization: Bearer {token}\r\n\r\n"));
    let mut upstream = TcpStream::connect(server)?;
    upstream.write_all(request.as_bytes())?;
    upstream.write_all(&bytes[end + 4..])?;
    let (mut from, mut to) = (client.try_clone()?, upstream.try_clone()?);
    std::thread::spawn(move || {
        // The end of what the client sends is the end of the call: it is closed on both sides.
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Both);
    });
    // The answer is passed on as it comes.
    loop {
        match upstream.read(&mut piece)? {
            0 => break,
            count => client.write_all(&piece[..count])?,
        }
    }
    client.shutdown(Shutdown::Both)
}
