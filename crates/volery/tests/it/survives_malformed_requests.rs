//! A thousand requests that are none, over each transport: every one is answered with an error, nothing hangs, and the
//! server is no larger than before. And as many clients at once as are held, and one more.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::test_env::{PATIENCE, TestEnv, WebServer, post_of, request_of, wait_for};

const MANY: usize = 1_000;
/// How much larger a server may be after a thousand requests than after a hundred: allocators keep some.
const GROWTH_MAX: u64 = 6 << 20;

/// Numbers that are the same in each run of the test.
struct SeededNumbers(u64);

impl SeededNumbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }
}

/// Returns a message that is none, or one that cannot be carried out. Never a notification or a response, which have
/// no answer.
fn malformed(numbers: &mut SeededNumbers, id: usize) -> Vec<u8> {
    let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
        "params": {"name": "run_agent", "arguments": {"agent": "greeter", "prompt": "x"}}});
    let whole = call.to_string().into_bytes();
    let with = |key: &str, value: Value| {
        let mut message = call.clone();
        message[key] = value;
        message.to_string().into_bytes()
    };
    let params = |value: Value| with("params", value);
    let odd = [json!(null), json!(7), json!("x"), json!([]), json!([{}]), json!(true), json!(1.5)];
    let oddity = odd[numbers.below(odd.len())].clone();
    match numbers.below(14) {
        // Every beginning of an object is broken.
        0 => whole[..1 + numbers.below(whole.len() - 1)].to_vec(),
        1 | 2 => {
            let mut broken = whole;
            let vendor_env = numbers.below(broken.len());
            broken[vendor_env] = if numbers.below(2) == 0 { 0x01 } else { 0xff };
            broken
        }
        3 => with("method", if oddity.is_string() { json!({}) } else { oddity }),
        4 => with("jsonrpc", oddity),
        5 => with("id", json!([{ "deep": id }])),
        6 => params(oddity),
        7 => params(json!({"name": oddity})),
        8 => params(json!({"name": "run_agent", "arguments": oddity})),
        9 => params(json!({"name": "no_such_tool", "arguments": {}})),
        10 => params(json!({"name": "run_agent", "arguments": {"agent": oddity, "prompt": {}}})),
        11 => with("method", json!(format!("no/such/{}", "method".repeat(1 + numbers.below(500))))),
        12 => format!("[{}]", "[".repeat(1 + numbers.below(5_000))).into_bytes(),
        _ => format!("[{call}]").into_bytes(),
    }
}

fn is_error(message: &Value) -> bool {
    message.get("error").is_some() || message["result"]["isError"] == json!(true)
}

fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

fn vendor_env() -> TestEnv {
    let env = TestEnv::new();
    env.rehearsal("greeter", "- say: good day, {prompt}", "");
    env
}

#[test]
fn a_thousand_lines_that_are_no_requests_are_answered_one_by_one() {
    let env = vendor_env();
    let mut client = env.serve().initialize("tester");
    let mut numbers = SeededNumbers(1);
    let mut settled = 0;
    for id in 0..MANY {
        let mut line = malformed(&mut numbers, 1_000 + id);
        line.retain(|byte| *byte != b'\n');
        line.push(b'\n');
        client.send_raw(&line);
        let answer = client.next_where(PATIENCE, |_| true);
        assert!(is_error(&answer), "{:?} was answered with {answer}", String::from_utf8_lossy(&line));
        if id == MANY / 10 {
            settled = resident(client.pid());
        }
    }
    let grown = resident(client.pid()).saturating_sub(settled);
    assert!(grown < GROWTH_MAX, "the server has grown by {grown} bytes");
    let run = client.call("run_agent", json!({"agent": "greeter", "prompt": "x"}));
    assert_eq!(run["result"], "good day, x\n");
    assert_eq!(env.runs().len(), 1, "nothing else was started");
}

/// Returns a request whose head is wrong.
fn wrong_head(numbers: &mut SeededNumbers, token: &str) -> Vec<u8> {
    let whole = String::from_utf8(request_of(token, "tools/list", json!({}))).unwrap();
    let swapped = |from: &str, to: &str| whole.replacen(from, to, 1).into_bytes();
    match numbers.below(12) {
        0 => swapped("POST /mcp HTTP/1.1", "POST  HTTP"),
        1 => swapped("HTTP/1.1", "HTTP/9.9"),
        2 => swapped("host: localhost", "host localhost"),
        3 => swapped("host: localhost\r\n", ""),
        4 => swapped("content-length: ", "content-length: -"),
        5 => swapped("content-length: ", "content-length: 99999999999999999999"),
        6 => swapped("accept: application/json", "accept: text/html"),
        7 => swapped("content-type: application/json", "content-type: text/plain"),
        8 => swapped("mcp-protocol-version: 2026-07-28", "mcp-protocol-version: 1999-01-01"),
        9 => swapped("mcp-method: tools/list", "mcp-method: tools/call"),
        10 => swapped("POST /mcp", "\u{1}\u{2}\u{3}"),
        _ => swapped("authorization: Bearer ", "authorization: Bearer x"),
    }
}

#[test]
fn a_thousand_http_requests_that_are_none_are_answered_one_by_one() {
    let env = vendor_env();
    let server = WebServer::start(&env);
    let token = server.printed_token().unwrap();
    let mut numbers = SeededNumbers(2);
    let mut settled = 0;
    for id in 0..MANY {
        let version = "mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\n";
        let bytes = match numbers.below(3) {
            0 => wrong_head(&mut numbers, &token),
            kind => {
                let body = malformed(&mut numbers, id);
                let mut request =
                    post_of(&token, if kind == 1 { version } else { "" }, &"x".repeat(body.len()));
                let head = request.len() - body.len();
                request.truncate(head);
                request.extend(body);
                request
            }
        };
        let answer = server.exchange(&bytes);
        let refused =
            (400..500).contains(&answer.status) || (answer.status == 200 && is_error(&answer.message()));
        assert!(refused, "{:?} was answered with {answer:?}", String::from_utf8_lossy(&bytes));
        if id == MANY / 10 {
            settled = resident(server.child.id());
        }
    }
    let grown = resident(server.child.id()).saturating_sub(settled);
    assert!(grown < GROWTH_MAX, "the server has grown by {grown} bytes");
    assert_eq!(
        server.call(&token, "run_agent", json!({"agent": "greeter", "prompt": "x"}))["result"],
        "good day, x\n"
    );
    assert_eq!(env.runs().len(), 1, "nothing else was started");
}

#[test]
fn five_hundred_clients_at_once_are_held_and_beyond_the_bound_one_is_refused() {
    const BOUND: usize = 512;
    let env = vendor_env();
    let server = WebServer::start(&env);
    let token = server.printed_token().unwrap();
    let request = String::from_utf8(request_of(&token, "tools/list", json!({}))).unwrap();
    let held = request.replacen("connection: close\r\n", "", 1);
    let mut clients: Vec<TcpStream> = (0..BOUND).map(|_| server.connect()).collect();
    // All of them have sent their request before the first reads, and none of them leaves.
    for client in &mut clients {
        client.write_all(held.as_bytes()).unwrap();
    }
    for client in &mut clients {
        let mut first = [0; 12];
        client.read_exact(&mut first).unwrap();
        assert_eq!(&first, b"HTTP/1.1 200");
    }
    let refused = server.exchange(request.as_bytes());
    assert_eq!(refused.status, 503, "{refused:?}");
    drop(clients);
    wait_for(PATIENCE, "room for a client", || {
        (server.exchange(request.as_bytes()).status == 200).then_some(())
    });
}

#[test]
fn bodies_tokens_and_origins_that_are_refused_have_their_status() {
    let env = vendor_env();
    let server = WebServer::start(&env);
    let token = server.printed_token().unwrap();
    let status = |bytes: &[u8]| server.exchange(bytes).status;
    let request = String::from_utf8(request_of(&token, "tools/list", json!({}))).unwrap();
    let with = |from: &str, to: &str| status(request.replacen(from, to, 1).as_bytes());
    assert_eq!(with("", ""), 200);
    assert_eq!(with(&format!("authorization: Bearer {token}\r\n"), ""), 401);
    assert_eq!(with("authorization: Bearer ", "authorization: Bearer y"), 401);
    assert_eq!(with("host: localhost", "host: evil.example"), 403);
    assert_eq!(with("accept:", "origin: https://evil.example\r\naccept:"), 403);
    assert_eq!(status(&post_of(&token, "", &"x".repeat((4 << 20) + 1))), 413);
    // A stranger's body is not read.
    assert_eq!(status(&post_of("volery_default_0", "", &"x".repeat((4 << 20) + 1))), 401);
}
