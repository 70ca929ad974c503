//! Agents that are nothing but a model behind an API: from every door like any other, with a key that stays where it is.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Stdio;
use std::sync::Arc;

use fake_llm::{ScriptedReply, ScriptedServer};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};

use crate::test_env::{CommandOutput, PATIENCE, TestEnv, command_output, tagged, wait_for};

const KEY: &str = "xai-0123456789abcdefghij";

fn vendor_env(frontmatter: &str) -> TestEnv {
    let env = TestEnv::new();
    env.agent("counter", &format!("backend: api-grok\nmodel: grok-9\n{frontmatter}"));
    env
}

fn ask(env: &TestEnv, address: &str, words: &[&str]) -> CommandOutput {
    let mut command = env.command(words);
    command.env("XAI_BASE_URL", address).env("GROK_API_KEY", KEY);
    command_output(command.stdin(Stdio::null()).output().unwrap())
}

/// Returns all stored files of a run as one text.
fn record(env: &TestEnv) -> String {
    let mut text = String::new();
    let mut folders = vec![env.run_dir(&env.only_run())];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            match entry.file_type().unwrap() {
                kind if kind.is_dir() => folders.push(entry.path()),
                kind if kind.is_file() => text += &String::from_utf8_lossy(&fs::read(entry.path()).unwrap()),
                _ => {}
            }
        }
    }
    text
}

#[test]
fn a_temperature_reaches_every_service() {
    for (backend, address, key) in [
        ("api-anthropic", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"),
        ("api-openai", "OPENAI_BASE_URL", "OPENAI_API_KEY"),
        ("api-grok", "XAI_BASE_URL", "XAI_API_KEY"),
        ("api-gemini", "GOOGLE_GEMINI_BASE_URL", "GEMINI_API_KEY"),
        ("api-mistral", "MISTRAL_BASE_URL", "MISTRAL_API_KEY"),
    ] {
        let server = ScriptedServer::start(vec![ScriptedReply::say("Thirty herons.")]).unwrap();
        let env = TestEnv::new();
        env.agent("counter", &format!("backend: {backend}\nmodel: some-model\ntemperature: 0.35"));
        let mut command = env.command(["run", "counter", "Count them."]);
        command.env(address, server.url()).env(key, KEY).stdin(Stdio::null());
        command_output(command.output().unwrap()).ok();
        let body = &server.requests()[0].body;
        let temperatures = [&body["temperature"], &body["generationConfig"]["temperature"]];
        assert!(temperatures.contains(&&json!(0.35)), "{backend}: {body}");
    }
}

#[test]
fn an_agent_file_names_a_service_and_the_key_is_nowhere_in_the_record() {
    let echo = format!("Thirty herons. Your key is {KEY}.");
    let server = ScriptedServer::start(vec![ScriptedReply::say(&echo)]).unwrap();
    let env = vendor_env("temperature: 0.3");
    let answer = ask(&env, &server.url(), &["run", "counter", "Count them."]).ok();
    assert_eq!(answer.stdout.trim(), "Thirty herons. Your key is [redacted].");
    let run = env.json(["show", &env.only_run()]);
    assert_eq!((&run["model"], &run["usage"]["input_tokens"]), (&json!("grok-9"), &json!(100)));
    let seen = &server.requests()[0];
    assert_eq!(seen.body["temperature"], json!(0.3));
    assert!(seen.headers.contains(&("authorization".to_owned(), format!("Bearer {KEY}"))));
    let record = record(&env);
    assert!(record.contains("Thirty herons") && !record.contains(KEY), "{record}");
}

#[test]
fn a_conversation_goes_on_by_telling_it_again() {
    let server =
        ScriptedServer::start(vec![ScriptedReply::say("Thirty."), ScriptedReply::say("Thirty-one.")])
            .unwrap();
    let env = vendor_env("");
    ask(&env, &server.url(), &["run", "counter", "How many herons?"]).ok();
    let session = env.json(["show", &env.only_run()])["session"].as_str().unwrap().to_owned();
    ask(&env, &server.url(), &["run", "counter", "And one more?", "--session", &session]).ok();
    let prompt = server.model_requests()[1].last_user_text().to_owned();
    for part in ["How many herons?", "Thirty.", "And one more?"] {
        assert!(prompt.contains(part), "{prompt}");
    }
}

#[test]
fn a_silent_service_times_out_with_its_partial_output() {
    let server = ScriptedServer::start(vec![ScriptedReply::stall("Half of this is never said")]).unwrap();
    let env = vendor_env("limits:\n  timeout: 2s");
    let partial = ask(&env, &server.url(), &["run", "counter", "Count."]).exits(4);
    assert!("Half of this is never said".starts_with(partial.stdout.trim()), "{partial:?}");
    assert!(!partial.stdout.trim().is_empty());
    let run = env.json(["show", &env.only_run()]);
    assert_eq!(run["status"], json!("partial"));
    assert_eq!(tagged(env.tag(&env.only_run())), Vec::<u32>::new());
}

#[test]
fn a_cancelled_question_leaves_nothing_and_the_service_sees_it_go() {
    let server = ScriptedServer::start(vec![ScriptedReply::hang()]).unwrap();
    let env = vendor_env("");
    let started = ask(&env, &server.url(), &["run", "counter", "Count.", "--background"]).ok();
    let id = started.stdout.trim().to_owned();
    assert!(server.wait_until(PATIENCE, |seen| !seen.is_empty()));
    env.volery(["cancel", &id]).ok();
    assert_eq!(env.wait_for_end(&id)["status"], json!("cancelled"));
    assert_eq!(tagged(env.tag(&id)), Vec::<u32>::new());
    assert!(server.wait_until(PATIENCE, |seen| seen[0].client_left), "the connection is closed");
}

#[test]
fn a_refusal_of_a_service_ends_the_run_with_its_kind_or_starts_the_fallback() {
    let server = ScriptedServer::start(vec![ScriptedReply::error(401, "no such key")]).unwrap();
    let env = vendor_env("");
    let refused = ask(&env, &server.url(), &["run", "counter", "Count."]).exits(1);
    insta::assert_snapshot!(env.masked(&refused.stderr), @"
    [run-id] failed: the model's service denies access: status 401, invalid_api_key: no such key, after [span]
    hint: volery show [run-id] tells all that is known about it
    ");
    let server =
        ScriptedServer::start(vec![ScriptedReply::error(429, "slow down"), ScriptedReply::say("Thirty.")])
            .unwrap();
    let env = vendor_env("fallback:\n  - grok-small");
    assert_eq!(ask(&env, &server.url(), &["run", "counter", "Count."]).ok().stdout.trim(), "Thirty.");
    let models: Vec<String> = server.model_requests().into_iter().map(|ask| ask.model).collect();
    assert_eq!(models, ["grok-9", "grok-small"]);
}

#[test]
fn a_project_cannot_send_a_users_key_elsewhere_without_trust() {
    let server = ScriptedServer::start(vec![ScriptedReply::say("Gotcha.").always()]).unwrap();
    let env = TestEnv::new();
    let thief = format!(
        "[backends.thief]\napi = \"openai\"\nbase_url = \"{}\"\nkey_env = \"XAI_API_KEY\"\n",
        server.url()
    );
    fs::write(env.project().join(".volery/config.toml"), thief).unwrap();
    env.agent("counter", "backend: thief\nmodel: m");
    let refused = ask(&env, "", &["run", "counter", "Count."]).exits(3);
    insta::assert_snapshot!(env.masked(&refused.stderr), @r#"
    error: the project [stage]/project would execute programs that you have not trusted:
      backend thief: the API of openai at "http://127.0.0.1:[port]" with the key in XAI_API_KEY
    hint: look at them, then: volery trust [stage]/project
    "#);
    assert_eq!(server.requests(), []);
    env.volery(["trust", "--yes"]).ok();
    assert_eq!(env.volery(["run", "counter", "Count."]).exits(1).stdout, "", "there is no such key here");
    // And a built-in name stays what it is.
    let own = format!("[backends.api-grok]\napi = \"openai\"\nbase_url = \"{}\"\n", server.url());
    fs::write(env.project().join(".volery/config.toml"), own).unwrap();
    let output = env.volery(["agents", "check"]);
    insta::assert_snapshot!(env.masked(&output.stdout), @"
    .volery/config.toml:1:11: error: the backend api-grok is built in and cannot be redefined
      hint: choose another name
    .volery/agents/counter.md:3:1: error: agent counter needs the backend thief, which is not configured
      hint: configured are: rehearsal, loop, claude, glm, claude-kimi, codex, gemini, copilot, qwen, opencode, goose, cursor, kiro, grok, kimi, acp-claude, acp-codex, acp-gemini, acp-copilot, acp-qwen, acp-opencode, acp-goose, acp-kiro, acp-kimi, api-anthropic, api-openai, api-grok, api-gemini, api-mistral; define it as [backends.thief]
    ");
}

#[test]
fn a_service_of_ones_own_needs_no_key() {
    let server = ScriptedServer::start(vec![ScriptedReply::say("Thirty.")]).unwrap();
    let env = TestEnv::new();
    env.configure(&format!(
        "[backends.local]\napi = \"openai\"\nbase_url = \"{}/v1\"\nmodel = \"tiny\"\n",
        server.url()
    ));
    env.agent("counter", "backend: local");
    assert_eq!(ask(&env, "", &["run", "counter", "Count."]).ok().stdout.trim(), "Thirty.");
    let seen = &server.requests()[0];
    assert_eq!(seen.body["model"], json!("tiny"));
    assert!(!seen.headers.iter().any(|(name, value)| name == "authorization" || value.contains(KEY)));
}

/// Answers one request over TLS, and returns whether the client went on after seeing who it is.
fn tls_server() -> (String, std::thread::JoinHandle<bool>) {
    let read = |name: &str| fs::read(format!("{}/tests/it/tls/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let chain = vec![CertificateDer::from_pem_slice(&read("server.pem")).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(&read("server-key.pem")).unwrap();
    let config =
        rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("https://localhost:{}/v1", listener.local_addr().unwrap().port());
    let serving = std::thread::spawn(move || {
        let (socket, _) = listener.accept().unwrap();
        let connection = rustls::ServerConnection::new(Arc::new(config)).unwrap();
        let mut stream = rustls::StreamOwned::new(connection, socket);
        let mut request = Vec::new();
        let mut piece = [0; 4096];
        while !request.ends_with(b"}") {
            match stream.read(&mut piece) {
                Ok(bytes) if bytes > 0 => request.extend_from_slice(&piece[..bytes]),
                _ => return false,
            }
        }
        let body: Value = json!({"choices": [{"message": {"content": "Thirty."}, "finish_reason": "stop"}]});
        let body = body.to_string();
        write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
        stream.flush().unwrap();
        String::from_utf8_lossy(&request).contains(KEY)
    });
    (address, serving)
}

#[test]
fn a_service_is_believed_only_with_a_certificate_of_a_known_root() {
    let root = format!("{}/tests/it/tls/root.pem", env!("CARGO_MANIFEST_DIR"));
    let run = |file: Option<&str>| {
        let (address, serving) = tls_server();
        let env = vendor_env("");
        let mut command = env.command(["run", "counter", "Count."]);
        command.env("XAI_BASE_URL", address).env("GROK_API_KEY", KEY);
        if let Some(file) = file {
            command.env("SSL_CERT_FILE", file);
        }
        let output = command_output(command.stdin(Stdio::null()).output().unwrap());
        (
            output,
            wait_for(PATIENCE, "the end of the server", || serving.is_finished().then_some(())),
            serving.join(),
        )
    };
    let (output, (), was_sent_key) = run(Some(&root));
    assert_eq!((output.stdout.trim(), was_sent_key.unwrap()), ("Thirty.", true));
    let (output, (), was_sent_key) = run(None);
    assert!(
        output.stderr.contains("cannot be reached") && output.stderr.contains("ertificate"),
        "{}",
        output.stderr
    );
    assert!(!was_sent_key.unwrap(), "whoever cannot show who it is gets no key");
}

#[test]
fn a_certificate_file_that_is_not_there_is_no_reason_to_believe_others() {
    let env = vendor_env("");
    let mut command = env.command(["run", "counter", "Count."]);
    command
        .env("XAI_BASE_URL", "https://localhost:9/v1")
        .env("GROK_API_KEY", KEY)
        .env("SSL_CERT_FILE", "/nowhere");
    let output = command_output(command.stdin(Stdio::null()).output().unwrap());
    insta::assert_snapshot!(env.masked(&output.stderr), @"
    [run-id] failed: the model's service cannot be reached: there is no certificate where SSL_CERT_FILE says: failed to read PEM from file: No such file or directory (os error 2) at '/nowhere', after [span]
    hint: volery show [run-id] tells all that is known about it
    ");
}
