//! Host, Origin and token are checked, in this order.

use serde_json::json;

use super::super::origin_check::OriginCheck;
use super::test_server::{ANN, TestServer, bearer_header, modern, post_request, test_limits};

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

#[tokio::test]
async fn a_request_without_a_known_token_is_not_answered() {
    let server = TestServer::open(test_limits()).await;
    for headers in [
        String::new(),
        bearer_header("volery_ann_2"),
        bearer_header(""),
        format!("authorization: Basic {ANN}\r\n"),
        format!("authorization: {ANN}\r\n"),
        bearer_header(ANN).repeat(2),
        format!("authorization: Bearer {ANN}\u{e9}\r\n"),
    ] {
        let answer = server.post(&headers, PING).await;
        assert_eq!(answer.status, 401, "{headers:?}: {answer:?}");
        assert_eq!(answer.header("www-authenticate"), Some("Bearer realm=\"volery\""));
    }
    let metrics =
        server.exchange(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await;
    assert_eq!(metrics.status, 401);
    assert!(server.ann.log().is_empty());
}

#[tokio::test]
async fn the_scheme_of_a_token_is_case_insensitive() {
    let server = TestServer::open(test_limits()).await;
    let request = modern(ANN, "tools/list", json!({})).replace("Bearer", "bEARER");
    assert_eq!(server.exchange(request.as_bytes()).await.status, 200);
}

#[tokio::test]
async fn other_hosts_and_origins_are_refused_before_their_token_is_checked() {
    let server = TestServer::open(test_limits()).await;
    let to = |host: &str| {
        post_request(&bearer_header(ANN), PING).replace("host: localhost\r\n", &format!("host: {host}\r\n"))
    };
    for host in
        ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", "localhost@evil.example", ""]
    {
        assert_eq!(server.exchange(to(host).as_bytes()).await.status, 403, "{host:?}");
    }
    let two = post_request(&format!("{}host: evil.example\r\n", bearer_header(ANN)), PING);
    assert_eq!(server.exchange(two.as_bytes()).await.status, 403);
    for origin in ["http://evil.example", "null", "http://localhost.evil.example", "file://", "localhost"] {
        let answer = server.post(&format!("origin: {origin}\r\n"), PING).await;
        assert_eq!(answer.status, 403, "{origin:?}");
    }
    for fine in ["localhost:1", "127.0.0.1:7337", "[::1]:7337", "LOCALHOST"] {
        let request =
            modern(ANN, "tools/list", json!({})).replace("host: localhost\r\n", &format!("host: {fine}\r\n"));
        assert_eq!(server.exchange(request.as_bytes()).await.status, 200, "{fine}");
    }
    let near =
        modern(ANN, "tools/list", json!({})).replace("\r\n\r\n", "\r\norigin: http://localhost:6274\r\n\r\n");
    assert_eq!(server.exchange(near.as_bytes()).await.status, 200);
}

#[tokio::test]
async fn the_configuration_lets_further_hosts_and_origins_in() {
    let lists =
        (&["box.example".to_owned(), "other.example:81".to_owned()], &["https://a.example:8443".to_owned()]);
    let server =
        TestServer::with_origin_check(test_limits(), OriginCheck::new(lists.0, lists.1).unwrap()).await;
    let status = async |host: &str, origin: &str| {
        let origin = if origin.is_empty() { String::new() } else { format!("origin: {origin}\r\n") };
        let request = modern(ANN, "tools/list", json!({}));
        let request = request.replace("host: localhost\r\n", &format!("host: {host}\r\n{origin}"));
        server.exchange(request.as_bytes()).await.status
    };
    assert_eq!(status("box.example:9", "").await, 200);
    assert_eq!(status("other.example:81", "").await, 200);
    assert_eq!(status("other.example:82", "").await, 403);
    assert_eq!(status("box.example", "https://a.example:8443").await, 200);
    assert_eq!(status("box.example", "https://a.example").await, 403);
    assert_eq!(status("box.example", "http://a.example:8443").await, 403);
}

#[test]
fn a_list_with_an_invalid_entry_is_refused_with_the_entry() {
    for wrong in ["", "a b", "http://a.example", "a.example:port", "a.example:99999", "a.example/x"] {
        assert_eq!(OriginCheck::new(&[wrong.to_owned()], &[]), Err(wrong.to_owned()));
    }
    for wrong in ["", "a.example", "https://a.example/path", "https://u@a.example", "null", "*"] {
        assert_eq!(OriginCheck::new(&[], &[wrong.to_owned()]), Err(wrong.to_owned()));
    }
}

#[tokio::test]
async fn other_paths_and_methods_do_not_exist() {
    let server = TestServer::open(test_limits()).await;
    let answer = async |line: &str| {
        let request =
            format!("{line} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{}\r\n", bearer_header(ANN));
        server.exchange(request.as_bytes()).await.status
    };
    assert_eq!(answer("GET /").await, 404);
    assert_eq!(answer("GET /mcp/x").await, 404);
    assert_eq!(answer("GET /.well-known/oauth-protected-resource").await, 404);
    assert_eq!(answer("POST /metrics").await, 405);
    assert_eq!(answer("PUT /mcp").await, 405);
}
