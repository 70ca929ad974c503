//! Responses of services, complete, cut and wrong: from the scripted model server, and from a listener that sends
//! what no server should.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::thread::JoinHandle;

use domain::run::{AgentEnd, Failure, LimitName, ModelError, RunSpec, StdStream as Pipe, Usage};
use fake_llm::{AnswerEnd, ScriptedReply, ScriptedServer};
use proptest::prelude::*;
use serde_json::json;

use super::model_client::{ClientInput, ModelClientEvent};
use super::reader::ApiStream;
use super::*;
use crate::contract::{AgentAnswer, AgentReport, Conclusion, EnvValue, Exit, OutputReader};
use crate::test_fixtures;
use client_fixtures::SharedOutput;

mod client;
mod client_failures;
mod client_fixtures;
mod messages_answers;
mod messages_requests;

const KEY: &str = "sk-0123456789abcdef";

/// Every service, and the path after its address.
const SERVICES: [(&str, &str); 5] = [
    ("api-anthropic", ""),
    ("api-openai", "/v1"),
    ("api-grok", "/v1"),
    ("api-gemini", ""),
    ("api-mistral", "/v1"),
];

fn spec(backend: &str) -> RunSpec {
    let mut spec = test_fixtures::spec(backend);
    spec.model = Some("big-1".to_owned());
    spec.limits.timeout_ms = 60_000;
    spec
}

fn backend(kind: &str) -> &'static dyn Backend {
    crate::registry::by_kind(kind).unwrap()
}

fn launch(spec: &RunSpec) -> ProcessLaunch {
    let context = test_fixtures::launch_context(None);
    match backend(&spec.backend.kind).prepare(spec, &context).unwrap() {
        LaunchPlan::Process(launch) => launch,
        LaunchPlan::Loop(_) | LaunchPlan::AgentLoop(_) => panic!("a process was expected"),
    }
}

/// Returns what the process gets to read.
fn job(launch: &ProcessLaunch) -> (ServiceConfig, ModelRequest) {
    let StdinFeed::Whole(input) = &launch.feed else { panic!("a job was expected") };
    let mut lines = input.split(|byte| *byte == b'\n');
    let config: model_client::ClientConfig = serde_json::from_slice(lines.next().unwrap()).unwrap();
    match serde_json::from_slice(lines.next().unwrap()).unwrap() {
        ClientInput::Request(request) => (config.service, request.request),
        ClientInput::Cancel(_) => panic!("a request was expected"),
    }
}

/// Calls a service as the process would, and reads its output as the worker would.
fn call_service(
    spec: &RunSpec,
    address: &str,
    key: Option<&str>,
) -> (Vec<ModelClientEvent>, Vec<AgentReport>, Conclusion) {
    let mut launch = launch(spec);
    let (service, _) = job(&launch);
    let StdinFeed::Whole(input) = &launch.feed else { panic!("a job was expected") };
    let value = |name: &str| match name {
        _ if service.keys.last().is_some_and(|last| last == name) => key.map(ToOwned::to_owned),
        _ if service.address_variable.as_deref() == Some(name) => Some(address.to_owned()),
        _ => None,
    };
    let out = SharedOutput::default();
    client_process::serve(&mut &input[..], Box::new(out.clone()), &value).unwrap();
    let out = out.bytes();
    let output = String::from_utf8(out.clone()).unwrap();
    assert!(!output.contains(KEY), "the output contains the key: {output}");
    let events = output.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut reports = Vec::new();
    for piece in out.chunks(37) {
        reports.extend(launch.reader.feed(Pipe::Stdout, piece));
    }
    let mut conclusion = launch.reader.conclude(Exit::Code(0));
    reports.append(&mut conclusion.reports);
    (events, reports, conclusion)
}

fn call_scripted(
    kind: &str,
    script: Vec<ScriptedReply>,
) -> (Vec<ModelClientEvent>, Vec<AgentReport>, Conclusion, ScriptedServer) {
    let server = ScriptedServer::start(script).unwrap();
    let (_, path) = SERVICES.iter().find(|(name, _)| *name == kind).unwrap();
    let (events, reports, conclusion) =
        call_service(&spec(kind), &format!("{}{path}", server.url()), Some(KEY));
    (events, reports, conclusion, server)
}

fn failure(conclusion: &Conclusion) -> ModelError {
    match &conclusion.end {
        AgentEnd::Failed(Failure::Model { error, .. }) => *error,
        other => panic!("a failure of the model was expected: {other:?}"),
    }
}

/// Answers one connection after the other with these bytes, and returns the requests.
fn serve(answers: Vec<String>) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let serving = std::thread::spawn(move || {
        let mut requests = Vec::new();
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut head, mut length) = (String::new(), 0);
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                head.push_str(&line);
                if line.trim().is_empty() {
                    break;
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            requests.push(head + &String::from_utf8(body).unwrap());
            // The client may have closed the connection.
            let _ = stream.write_all(answer.as_bytes());
        }
        requests
    });
    (address, serving)
}

fn plain(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
}

#[test]
fn every_service_answers_with_its_text_model_and_tokens() {
    for (kind, _) in SERVICES {
        let usage = fake_llm::ScriptedUsage { input: 1200, output: 34, cached: 1000 };
        let reply =
            ScriptedReply::say("Thirty herons.\nAnd no crane.").thinking("Let me count.").using(usage);
        let (_, reports, conclusion, server) = call_scripted(kind, vec![reply]);
        assert_eq!(conclusion.end, AgentEnd::Done, "{kind}");
        assert_eq!(
            conclusion.answer,
            AgentAnswer::Text("Thirty herons.\nAnd no crane.".to_owned()),
            "{kind}"
        );
        let used =
            Usage { input_tokens: 1200, output_tokens: 34, cache_read_tokens: 1000, ..Usage::default() };
        assert!(reports.contains(&AgentReport::Used(used)), "{kind}: {reports:?}");
        assert!(reports.contains(&AgentReport::Model("big-1".to_owned())), "{kind}: {reports:?}");
        let text: String = reports
            .iter()
            .filter_map(|report| match report {
                AgentReport::Text(text) => Some(text.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(
            text, "Thirty herons.\nAnd no crane.",
            "{kind}: what was said is in the journal, all of it"
        );
        let requests = server.requests();
        let request = requests[0].model_request.as_ref().unwrap();
        assert_eq!(
            (request.model.as_str(), request.system.as_str()),
            ("big-1", "You are careful."),
            "{kind}"
        );
        assert_eq!((request.last_user_text(), request.stream), ("do it", true), "{kind}");
        assert!(!requests[0].path.contains(KEY), "{kind}: {}", requests[0].path);
        let holders: Vec<&str> = requests[0]
            .headers
            .iter()
            .filter(|(_, value)| value.contains(KEY))
            .map(|(name, _)| name.as_str())
            .collect();
        let expected = match kind {
            "api-anthropic" => "x-api-key",
            "api-gemini" => "x-goog-api-key",
            _ => "authorization",
        };
        assert_eq!(holders, [expected], "{kind}");
    }
}

#[test]
fn refusals_of_a_service_are_classified() {
    let cases: [(u16, &str, Option<&str>, ModelError); 10] = [
        (401, "no such key", None, ModelError::Denied),
        (403, "not for you", None, ModelError::Denied),
        (404, "no such model", None, ModelError::Unknown),
        (400, "it is wrong", None, ModelError::BadRequest),
        (400, "prompt is too long: 300000 tokens", None, ModelError::TooLong),
        (400, "API key not valid. Please pass a valid API key.", None, ModelError::Denied),
        (400, "Your credit balance is too low", None, ModelError::RateLimit),
        (413, "too much", None, ModelError::TooLong),
        (429, "You exceeded your current quota", Some("insufficient_quota"), ModelError::RateLimit),
        (422, "extra inputs are not permitted", None, ModelError::BadRequest),
    ];
    for (kind, _) in SERVICES {
        for (status, message, word, expected) in cases {
            let mut reply = ScriptedReply::error(status, message);
            if let Some(word) = word {
                reply = reply.kind(word);
            }
            let (_, _, conclusion, server) = call_scripted(kind, vec![reply.always()]);
            assert_eq!(failure(&conclusion), expected, "{kind} {status} {message}");
            assert_eq!(conclusion.answer, AgentAnswer::Nothing);
            assert_eq!(server.requests().len(), 1, "{kind} {status}: nothing is gained by asking again");
        }
    }
}

#[test]
fn a_service_that_has_no_room_is_asked_again_when_it_says_so() {
    for (kind, _) in SERVICES {
        let (events, _, conclusion, _) = call_scripted(
            kind,
            vec![ScriptedReply::error(429, "slow down").retry_after_s(0), ScriptedReply::say("now")],
        );
        assert_eq!(conclusion.answer, AgentAnswer::Text("now".to_owned()), "{kind}");
        assert!(
            matches!(&events[0], ModelClientEvent::Retrying { message, .. } if message.contains("has no room")),
            "{events:?}"
        );
        let (_, _, conclusion, _) =
            call_scripted(kind, vec![ScriptedReply::error(529, "busy").times(1), ScriptedReply::say("now")]);
        assert_eq!(conclusion.end, AgentEnd::Done, "{kind}");
    }
    // Not beyond the time-out, and not if there is a fallback.
    let (_, _, conclusion, server) =
        call_scripted("api-grok", vec![ScriptedReply::error(429, "slow down").retry_after_s(90).always()]);
    assert_eq!((failure(&conclusion), server.requests().len()), (ModelError::RateLimit, 1));
    let server = ScriptedServer::start(vec![ScriptedReply::error(503, "busy").always()]).unwrap();
    let mut spec = spec("api-grok");
    spec.fallbacks =
        vec![domain::run::ResolvedFallback { backend: spec.backend.clone(), model: None, settings: None }];
    let (_, _, conclusion) = call_service(&spec, &server.url(), Some(KEY));
    assert_eq!((failure(&conclusion), server.requests().len()), (ModelError::Overloaded, 1));
}

#[test]
fn a_stream_that_is_cut_fails_and_its_text_is_stored() {
    for (kind, _) in SERVICES {
        let (_, _, conclusion, server) =
            call_scripted(kind, vec![ScriptedReply::cut("Half of this is lost"), ScriptedReply::say("no")]);
        assert_eq!(failure(&conclusion), ModelError::Other, "{kind}");
        let AgentAnswer::Text(text) = &conclusion.answer else { panic!("{kind}: {conclusion:?}") };
        assert!("Half of this is lost".starts_with(text.as_str()) && !text.is_empty(), "{kind}: {text}");
        assert_eq!(server.requests().len(), 1, "{kind}: what was begun is not asked again");
    }
}

#[test]
fn an_answer_that_ran_out_of_tokens_is_over_budget() {
    for (kind, _) in SERVICES {
        let (_, _, conclusion, _) =
            call_scripted(kind, vec![ScriptedReply::say("As far as").ending(AnswerEnd::Length)]);
        assert_eq!(conclusion.end, AgentEnd::OverBudget(LimitName::Tokens), "{kind}");
        assert_eq!(conclusion.answer, AgentAnswer::Text("As far as".to_owned()));
    }
}

#[test]
fn odd_answers_of_services_are_interpreted() {
    let conclude = |body: &str| {
        let (address, serving) = serve(vec![plain(body)]);
        let (_, _, conclusion) = call_service(&spec("api-openai"), &address, Some(KEY));
        serving.join().unwrap();
        conclusion
    };
    let chunk = |delta: &str, finish: &str| {
        format!("data: {{\"choices\":[{{\"delta\":{delta},\"finish_reason\":{finish}}}]}}\n\n")
    };
    let text = |text: &str| AgentAnswer::Text(text.to_owned());
    // An error with a successful status is still an error.
    let conclusion = conclude(r#"{"error": {"message": "no such model", "code": "model_not_found"}}"#);
    assert_eq!((failure(&conclusion), conclusion.answer), (ModelError::Unknown, AgentAnswer::Nothing));
    let conclusion = conclude(r#"{"code": "The service is full", "error": "try later"}"#);
    assert_eq!(failure(&conclusion), ModelError::Other);
    let mid = chunk(r#"{"content":"so far"}"#, "null")
        + "data: {\"error\":{\"message\":\"broke\",\"code\":503}}\n\n";
    let conclusion = conclude(&mid);
    assert_eq!((failure(&conclusion), conclusion.answer), (ModelError::Overloaded, text("so far")));
    // No [DONE], no finish reason, neither.
    let whole = chunk(r#"{"content":"all"}"#, "null") + &chunk("{}", "\"stop\"");
    assert_eq!((conclude(&whole).end, conclude(&whole).answer), (AgentEnd::Done, text("all")));
    let done = chunk(r#"{"content":"all"}"#, "null") + "data: [DONE]\n\n";
    assert_eq!(conclude(&done).end, AgentEnd::Done);
    let neither = conclude(&chunk(r#"{"content":"so far"}"#, "null"));
    assert_eq!((failure(&neither), neither.answer), (ModelError::Other, text("so far")));
    // Not a stream at all, other line ends, comments, blocks, no space, a last event without its blank line.
    let document = r#"{"model":"m","choices":[{"message":{"content":"all"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#;
    assert_eq!((conclude(document).end, conclude(document).answer), (AgentEnd::Done, text("all")));
    let odd = ": keep\r\n\r\ndata:{\"choices\":[{\"delta\":{\"content\":[{\"type\":\"thinking\",\"thinking\":[]},{\"type\":\"text\",\"text\":\"all\"}]}}]}\r\n\r\ndata: [DONE]";
    assert_eq!((conclude(odd).end, conclude(odd).answer), (AgentEnd::Done, text("all")));
    let html = conclude("<html>Bad gateway</html>");
    assert_eq!(failure(&html), ModelError::Other);
    // Refusals.
    let filtered = conclude(&(chunk(r#"{"content":"so"}"#, "null") + &chunk("{}", "\"content_filter\"")));
    assert_eq!(failure(&filtered), ModelError::Refusal);
    let refused =
        conclude(&(chunk(r#"{"refusal":"I will "}"#, "null") + &chunk(r#"{"refusal":"not."}"#, "\"stop\"")));
    let AgentEnd::Failed(Failure::Model { error: ModelError::Refusal, message }) = refused.end else {
        panic!()
    };
    assert_eq!(message, "I will not.");
    let called = conclude(&chunk("{}", "\"tool_calls\""));
    assert!(matches!(called.end, AgentEnd::Failed(Failure::Output { .. })), "{called:?}");
}

#[test]
fn refusals_of_the_other_protocols_are_understood() {
    let conclude = |kind: &str, event: &str| {
        let (address, serving) = serve(vec![plain(&format!("data: {event}\n\n"))]);
        let (_, _, conclusion) = call_service(&spec(kind), &address, Some(KEY));
        serving.join().unwrap();
        conclusion
    };
    let blocked = conclude("api-gemini", r#"{"promptFeedback":{"blockReason":"SAFETY"}}"#);
    assert_eq!(failure(&blocked), ModelError::Refusal);
    let stopped = conclude("api-gemini", r#"{"candidates":[{"finishReason":"RECITATION"}]}"#);
    assert_eq!(failure(&stopped), ModelError::Refusal);
    let declined = conclude("api-anthropic", r#"{"type":"message_delta","delta":{"stop_reason":"refusal"}}"#);
    assert_eq!(failure(&declined), ModelError::Refusal);
    let event = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    let overloaded = call_once("api-anthropic", event);
    assert_eq!(failure(&overloaded), ModelError::Overloaded);
}

fn call_once(kind: &str, event: &str) -> Conclusion {
    let (address, serving) = serve(vec![plain(&format!("data: {event}\n\n"))]);
    let mut spec = spec(kind);
    // Without retries.
    spec.fallbacks =
        vec![domain::run::ResolvedFallback { backend: spec.backend.clone(), model: None, settings: None }];
    let (_, _, conclusion) = call_service(&spec, &address, Some(KEY));
    serving.join().unwrap();
    conclusion
}

#[test]
fn no_redirect_is_followed_and_an_echoed_key_is_redacted() {
    let (elsewhere, came) = serve(vec![plain("{}")]);
    let redirect = format!("HTTP/1.1 302 Found\r\nlocation: {elsewhere}/v1\r\ncontent-length: 0\r\n\r\n");
    let (address, serving) = serve(vec![redirect]);
    let (_, _, conclusion) = call_service(&spec("api-openai"), &address, Some(KEY));
    serving.join().unwrap();
    assert_eq!(failure(&conclusion), ModelError::Unreachable);
    assert!(!came.is_finished(), "nobody went there");
    // `call_service` itself searches all output for the key.
    let echo = plain(&format!(r#"{{"error": "the key {KEY} is not known"}}"#));
    let (address, serving) = serve(vec![echo]);
    let (events, _, _) = call_service(&spec("api-openai"), &address, Some(KEY));
    serving.join().unwrap();
    assert!(
        matches!(&events[0], ModelClientEvent::Failed(failure) if failure.message.contains("[redacted]")),
        "{events:?}"
    );
}

#[test]
fn a_missing_key_or_service_is_reported() {
    let (_, _, conclusion) = call_service(&spec("api-grok"), "http://127.0.0.1:9", None);
    let AgentEnd::Failed(Failure::Model { error: ModelError::Denied, message }) = &conclusion.end else {
        panic!()
    };
    assert_eq!(message, "there is no key for api-grok: set XAI_API_KEY or GROK_API_KEY or X_API_KEY");
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (_, _, conclusion) = call_service(&spec("api-grok"), &format!("http://{nobody}"), Some(KEY));
    assert_eq!(failure(&conclusion), ModelError::Unreachable);
}

#[test]
fn a_key_leaves_the_machine_only_encrypted_and_an_address_holds_no_secrets() {
    let url = |text: &str, with_key: bool| {
        super::address::parse(text, with_key).map(|address| address.with("/v1/x"))
    };
    assert_eq!(url("https://api.example.org/", true), Ok("https://api.example.org/v1/x".to_owned()));
    assert_eq!(url("https://api.example.org/v1", true), Ok("https://api.example.org/v1/x".to_owned()));
    assert_eq!(url("http://[::1]:80", true), Ok("http://[::1]:80/v1/x".to_owned()));
    assert_eq!(url("http://192.168.1.2:11434", false), Ok("http://192.168.1.2:11434/v1/x".to_owned()));
    assert!(url("http://192.168.1.2:11434", true).unwrap_err().contains("not encrypted"));
    assert!(url("http://localhost.evil.org", true).unwrap_err().contains("not encrypted"));
    for wrong in ["https://me:secret@x.org", "https://x.org/?key=secret", "file:///etc", "x.org", ""] {
        let message = url(wrong, true).unwrap_err();
        assert!(!message.contains("secret"), "{message}");
    }
}

#[test]
fn a_model_name_cannot_lead_to_another_path_of_the_service() {
    let path = |model: &str| {
        let mut spec = spec("api-gemini");
        spec.model = Some(model.to_owned());
        let (service, request) = job(&launch(&spec));
        service.wire.post(&request, service.quirks).unwrap().path
    };
    let path_for = |model: &str| format!("/v1beta/models/{model}:streamGenerateContent?alt=sse");
    assert_eq!(path("models/gemini-2.5-pro"), path_for("gemini-2.5-pro"));
    assert_eq!(path("../files?x=y#z"), path_for("%2E%2E%2Ffiles%3Fx%3Dy%23z").replace("%2E%2E", ".."));
    assert_eq!(path(".."), path_for("%2E%2E"));
}

#[test]
fn a_configured_service_gets_only_the_key_that_is_named_for_it() {
    let job = |options: serde_json::Value| {
        let mut spec = spec("api");
        spec.backend.options = options;
        spec.setup.temperature = Some(domain::setup::Temperature(700));
        let launch = launch(&spec);
        let (service, request) = job(&launch);
        (service, request, launch.optional_env)
    };
    let (own, request, known) = job(json!({"api": "openai", "base_url": "http://127.0.0.1:1/v1"}));
    assert_eq!((own.keys.len(), own.address_variable, known.len()), (0, None, 0));
    assert_eq!(request.temperature, Some(0.7));
    let (with_key, request, known) =
        job(json!({"api": "mistral", "base_url": "https://x.org", "key_env": "MY_KEY", "max_tokens": 5}));
    assert_eq!(
        (with_key.keys, known, request.max_output_tokens),
        (vec!["MY_KEY".to_owned()], vec!["MY_KEY".to_owned()], Some(5))
    );
    let (plain, ..) = job(json!({"api": "gemini"}));
    assert_eq!(plain.keys, ["GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_AI_KEY"]);
    let mut none = spec("api-openai");
    none.model = None;
    let context = test_fixtures::launch_context(None);
    assert!(
        backend("api-openai")
            .prepare(&none, &context)
            .is_err_and(|error| error.reason.contains("needs a model"))
    );
}

#[test]
fn neither_the_key_nor_the_prompt_are_in_the_arguments() {
    let mut spec = spec("api-grok");
    spec.setup.key_file = Some("/p/api_keys.json".to_owned());
    let launch = launch(&spec);
    assert_eq!(launch.argv, ["/bin/volery", "__api"]);
    let keys = ["XAI_API_KEY", "GROK_API_KEY", "X_API_KEY"].map(ToOwned::to_owned).to_vec();
    let expected = EnvValue::FromFile { file: "/p/api_keys.json".into(), keys };
    assert_eq!(launch.env_overrides, [("XAI_API_KEY".to_owned(), expected)]);
}

#[test]
fn a_structured_answer_is_read_as_a_value() {
    let server = ScriptedServer::start(vec![ScriptedReply::say("```json\n{\"count\": 3}\n```")]).unwrap();
    let mut spec = spec("api-anthropic");
    spec.setup.output_schema = Some(json!({"type": "object"}));
    let (_, _, conclusion) = call_service(&spec, &server.url(), Some(KEY));
    assert_eq!(conclusion.structured, Some(json!({"count": 3})));
}

proptest! {
    #[test]
    fn no_prefix_of_a_stream_succeeds(cut in 0_usize..400) {
        let answer = Box::new(client_fixtures::text_answer("hello"));
        let events = [
            ModelClientEvent::Text { id: 0, text: "hello".to_owned() },
            ModelClientEvent::Answered { id: 0, answer },
        ];
        let whole: String = events.iter().map(|event| serde_json::to_string(event).unwrap() + "\n").collect();
        let mut stream = ApiStream::new(false);
        stream.feed(Pipe::Stdout, &whole.as_bytes()[..cut.min(whole.len() - 1)]);
        prop_assert!(matches!(stream.conclude(Exit::Code(0)).end, AgentEnd::Failed(_)));
    }

    #[test]
    fn no_event_of_a_service_makes_it_panic(event in "[{}\\[\\]\":,a-z0-9]{0,80}", wire in 0_usize..3) {
        use super::answer::AnswerBuilder;
        use super::wire::Wire;
        let wire = [Wire::Messages, Wire::Chat, Wire::Google][wire];
        let value = serde_json::from_str(&event).unwrap_or(serde_json::Value::Null);
        let _ = wire.handle_event(&value, &mut AnswerBuilder::default());
        let _ = wire.handle_document(&value, &mut AnswerBuilder::default());
        let _ = super::failure::refused(500, Some(&event), event.as_bytes());
    }

    #[test]
    fn a_body_is_the_same_in_pieces_of_any_size(size in 1_usize..40) {
        let text = ": c\n\nevent: x\ndata: {\"a\":1}\n\ndata: b\ndata: c\r\n\r\ndata: [DONE]\n";
        let read = |size: usize| {
            let mut body = super::sse::SseBody::default();
            let mut parts: Vec<_> = text.as_bytes().chunks(size).flat_map(|piece| body.feed(piece)).collect();
            parts.extend(body.finish().0);
            parts
        };
        prop_assert_eq!(read(size), read(1_000));
        prop_assert_eq!(read(size).len(), 3);
    }
}
