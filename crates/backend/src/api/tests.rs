//! What services answer, whole, cut and wrong: by the scripted model server, and by a listener that says what no server
//! should.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::thread::JoinHandle;

use domain::run::{AgentEnd, Failure, LimitName, ModelError, RunSpec, Stream as Pipe, Usage};
use model_server::{End, Reply, Server};
use proptest::prelude::*;
use serde_json::json;

use super::job::Job;
use super::reader::Stream;
use super::word::Word;
use super::*;
use crate::contract::{Answer, Conclusion, Exit, Reader, Report};
use crate::sample;

const KEY: &str = "sk-0123456789abcdef";

/// Every service, and the path that stands behind its address.
const SERVICES: [(&str, &str); 5] = [
    ("api-anthropic", ""),
    ("api-openai", "/v1"),
    ("api-grok", "/v1"),
    ("api-gemini", ""),
    ("api-mistral", "/v1"),
];

fn spec(backend: &str) -> RunSpec {
    let mut spec = sample::spec(backend);
    spec.model = Some("big-1".to_owned());
    spec.limits.timeout_ms = 60_000;
    spec
}

fn backend(kind: &str) -> &'static dyn Backend {
    crate::registry::by_kind(kind).unwrap()
}

fn drive(spec: &RunSpec) -> ProcessDrive {
    let place = sample::place(None);
    match backend(&spec.backend.kind).prepare(spec, &place).unwrap() {
        Drive::Process(drive) => drive,
        Drive::Loop(_) => panic!("a process was expected"),
    }
}

/// Asks as the process would, and reads what it says as the worker would.
fn ask(spec: &RunSpec, address: &str, key: Option<&str>) -> (Vec<Word>, Vec<Report>, Conclusion) {
    let mut drive = drive(spec);
    let Feed::Whole(told) = &drive.feed else { panic!("a job was expected") };
    let job: Job = serde_json::from_slice(told).unwrap();
    let value = |name: &str| match name {
        _ if job.keys.last().is_some_and(|last| last == name) => key.map(ToOwned::to_owned),
        _ if job.address_variable.as_deref() == Some(name) => Some(address.to_owned()),
        _ => None,
    };
    let mut out = Vec::new();
    call::carry_out(&job, &value, &mut out).unwrap();
    let said = String::from_utf8(out.clone()).unwrap();
    assert!(!said.contains(KEY), "a key was told: {said}");
    let words = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut reports = Vec::new();
    for piece in out.chunks(37) {
        reports.extend(drive.reader.feed(Pipe::Stdout, piece));
    }
    let mut conclusion = drive.reader.conclude(Exit::Code(0));
    reports.append(&mut conclusion.reports);
    (words, reports, conclusion)
}

fn ask_server(kind: &str, script: Vec<Reply>) -> (Vec<Word>, Vec<Report>, Conclusion, Server) {
    let server = Server::start(script).unwrap();
    let (_, path) = SERVICES.iter().find(|(name, _)| *name == kind).unwrap();
    let (words, reports, conclusion) = ask(&spec(kind), &format!("{}{path}", server.url()), Some(KEY));
    (words, reports, conclusion, server)
}

fn failure(conclusion: &Conclusion) -> ModelError {
    match &conclusion.end {
        AgentEnd::Failed(Failure::Model { error, .. }) => *error,
        other => panic!("a failure of the model was expected: {other:?}"),
    }
}

/// Serves one connection after the other with these bytes, and returns the requests.
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
            // The client may have heard enough.
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
        let usage = model_server::Usage { input: 1200, output: 34, cached: 1000 };
        let reply = Reply::say("Thirty herons.\nAnd no crane.").thinking("Let me count.").using(usage);
        let (_, reports, conclusion, server) = ask_server(kind, vec![reply]);
        assert_eq!(conclusion.end, AgentEnd::Done, "{kind}");
        assert_eq!(conclusion.answer, Answer::Text("Thirty herons.\nAnd no crane.".to_owned()), "{kind}");
        let used =
            Usage { input_tokens: 1200, output_tokens: 34, cache_read_tokens: 1000, ..Usage::default() };
        assert!(reports.contains(&Report::Used(used)), "{kind}: {reports:?}");
        assert!(reports.contains(&Report::Model("big-1".to_owned())), "{kind}: {reports:?}");
        let said: String = reports
            .iter()
            .filter_map(|report| match report {
                Report::Said(text) => Some(text.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(
            said, "Thirty herons.\nAnd no crane.",
            "{kind}: what was said is in the journal, all of it"
        );
        let seen = server.seen();
        let asked = seen[0].ask.as_ref().unwrap();
        assert_eq!((asked.model.as_str(), asked.system.as_str()), ("big-1", "You are careful."), "{kind}");
        assert_eq!((asked.last_user_text(), asked.stream), ("do it", true), "{kind}");
        assert!(!seen[0].path.contains(KEY), "{kind}: {}", seen[0].path);
        let holders: Vec<&str> = seen[0]
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
fn what_a_service_refuses_is_told_by_its_kind() {
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
            let mut reply = Reply::error(status, message);
            if let Some(word) = word {
                reply = reply.kind(word);
            }
            let (_, _, conclusion, server) = ask_server(kind, vec![reply.always()]);
            assert_eq!(failure(&conclusion), expected, "{kind} {status} {message}");
            assert_eq!(conclusion.answer, Answer::Nothing);
            assert_eq!(server.seen().len(), 1, "{kind} {status}: nothing is gained by asking again");
        }
    }
}

#[test]
fn a_service_that_has_no_room_is_asked_again_when_it_says_so() {
    for (kind, _) in SERVICES {
        let (words, _, conclusion, _) =
            ask_server(kind, vec![Reply::error(429, "slow down").retry_after_s(0), Reply::say("now")]);
        assert_eq!(conclusion.answer, Answer::Text("now".to_owned()), "{kind}");
        assert!(
            matches!(&words[0], Word::Warned { message } if message.contains("has no room")),
            "{words:?}"
        );
        let (_, _, conclusion, _) =
            ask_server(kind, vec![Reply::error(529, "busy").times(1), Reply::say("now")]);
        assert_eq!(conclusion.end, AgentEnd::Done, "{kind}");
    }
    // Not beyond the time-out, and not where somebody else can be asked.
    let (_, _, conclusion, server) =
        ask_server("api-grok", vec![Reply::error(429, "slow down").retry_after_s(90).always()]);
    assert_eq!((failure(&conclusion), server.seen().len()), (ModelError::RateLimit, 1));
    let server = Server::start(vec![Reply::error(503, "busy").always()]).unwrap();
    let mut spec = spec("api-grok");
    spec.alternatives =
        vec![domain::run::Alternative { backend: spec.backend.clone(), model: None, settings: None }];
    let (_, _, conclusion) = ask(&spec, &server.url(), Some(KEY));
    assert_eq!((failure(&conclusion), server.seen().len()), (ModelError::Overloaded, 1));
}

#[test]
fn a_stream_that_is_cut_fails_and_its_text_is_kept() {
    for (kind, _) in SERVICES {
        let (_, _, conclusion, server) =
            ask_server(kind, vec![Reply::cut("Half of this is lost"), Reply::say("no")]);
        assert_eq!(failure(&conclusion), ModelError::Other, "{kind}");
        let Answer::Text(text) = &conclusion.answer else { panic!("{kind}: {conclusion:?}") };
        assert!("Half of this is lost".starts_with(text.as_str()) && !text.is_empty(), "{kind}: {text}");
        assert_eq!(server.seen().len(), 1, "{kind}: what was begun is not asked again");
    }
}

#[test]
fn an_answer_that_ran_out_of_tokens_is_over_budget() {
    for (kind, _) in SERVICES {
        let (_, _, conclusion, _) = ask_server(kind, vec![Reply::say("As far as").ending(End::Length)]);
        assert_eq!(conclusion.end, AgentEnd::OverBudget(LimitName::Tokens), "{kind}");
        assert_eq!(conclusion.answer, Answer::Text("As far as".to_owned()));
    }
}

#[test]
fn odd_answers_of_services_mean_what_they_say() {
    let said = |body: &str| {
        let (address, serving) = serve(vec![plain(body)]);
        let (_, _, conclusion) = ask(&spec("api-openai"), &address, Some(KEY));
        serving.join().unwrap();
        conclusion
    };
    let chunk = |delta: &str, finish: &str| {
        format!("data: {{\"choices\":[{{\"delta\":{delta},\"finish_reason\":{finish}}}]}}\n\n")
    };
    let text = |text: &str| Answer::Text(text.to_owned());
    // An error with a status of success is none.
    let conclusion = said(r#"{"error": {"message": "no such model", "code": "model_not_found"}}"#);
    assert_eq!((failure(&conclusion), conclusion.answer), (ModelError::Unknown, Answer::Nothing));
    let conclusion = said(r#"{"code": "The service is full", "error": "try later"}"#);
    assert_eq!(failure(&conclusion), ModelError::Other);
    let mid = chunk(r#"{"content":"so far"}"#, "null")
        + "data: {\"error\":{\"message\":\"broke\",\"code\":503}}\n\n";
    let conclusion = said(&mid);
    assert_eq!((failure(&conclusion), conclusion.answer), (ModelError::Overloaded, text("so far")));
    // No [DONE], no finish reason, neither.
    let whole = chunk(r#"{"content":"all"}"#, "null") + &chunk("{}", "\"stop\"");
    assert_eq!((said(&whole).end, said(&whole).answer), (AgentEnd::Done, text("all")));
    let done = chunk(r#"{"content":"all"}"#, "null") + "data: [DONE]\n\n";
    assert_eq!(said(&done).end, AgentEnd::Done);
    let neither = said(&chunk(r#"{"content":"so far"}"#, "null"));
    assert_eq!((failure(&neither), neither.answer), (ModelError::Other, text("so far")));
    // Not a stream at all, other line ends, comments, blocks, no space, a last event without its blank line.
    let document = r#"{"model":"m","choices":[{"message":{"content":"all"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#;
    assert_eq!((said(document).end, said(document).answer), (AgentEnd::Done, text("all")));
    let odd = ": keep\r\n\r\ndata:{\"choices\":[{\"delta\":{\"content\":[{\"type\":\"thinking\",\"thinking\":[]},{\"type\":\"text\",\"text\":\"all\"}]}}]}\r\n\r\ndata: [DONE]";
    assert_eq!((said(odd).end, said(odd).answer), (AgentEnd::Done, text("all")));
    let html = said("<html>Bad gateway</html>");
    assert_eq!(failure(&html), ModelError::Other);
    // Refusals.
    let filtered = said(&(chunk(r#"{"content":"so"}"#, "null") + &chunk("{}", "\"content_filter\"")));
    assert_eq!(failure(&filtered), ModelError::Refusal);
    let refused =
        said(&(chunk(r#"{"refusal":"I will "}"#, "null") + &chunk(r#"{"refusal":"not."}"#, "\"stop\"")));
    let AgentEnd::Failed(Failure::Model { error: ModelError::Refusal, message }) = refused.end else {
        panic!()
    };
    assert_eq!(message, "I will not.");
    let called = said(&chunk("{}", "\"tool_calls\""));
    assert!(matches!(called.end, AgentEnd::Failed(Failure::Output { .. })), "{called:?}");
}

#[test]
fn refusals_of_the_other_protocols_are_understood() {
    let said = |kind: &str, event: &str| {
        let (address, serving) = serve(vec![plain(&format!("data: {event}\n\n"))]);
        let (_, _, conclusion) = ask(&spec(kind), &address, Some(KEY));
        serving.join().unwrap();
        conclusion
    };
    let blocked = said("api-gemini", r#"{"promptFeedback":{"blockReason":"SAFETY"}}"#);
    assert_eq!(failure(&blocked), ModelError::Refusal);
    let stopped = said("api-gemini", r#"{"candidates":[{"finishReason":"RECITATION"}]}"#);
    assert_eq!(failure(&stopped), ModelError::Refusal);
    let declined = said("api-anthropic", r#"{"type":"message_delta","delta":{"stop_reason":"refusal"}}"#);
    assert_eq!(failure(&declined), ModelError::Refusal);
    let event = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    let overloaded = ask_once("api-anthropic", event);
    assert_eq!(failure(&overloaded), ModelError::Overloaded);
}

fn ask_once(kind: &str, event: &str) -> Conclusion {
    let (address, serving) = serve(vec![plain(&format!("data: {event}\n\n"))]);
    let mut spec = spec(kind);
    spec.limits.timeout_ms = 1;
    let (_, _, conclusion) = ask(&spec, &address, Some(KEY));
    serving.join().unwrap();
    conclusion
}

#[test]
fn no_redirect_is_followed_and_a_key_that_is_echoed_is_not_told() {
    let (elsewhere, came) = serve(vec![plain("{}")]);
    let redirect = format!("HTTP/1.1 302 Found\r\nlocation: {elsewhere}/v1\r\ncontent-length: 0\r\n\r\n");
    let (address, serving) = serve(vec![redirect]);
    let (_, _, conclusion) = ask(&spec("api-openai"), &address, Some(KEY));
    serving.join().unwrap();
    assert_eq!(failure(&conclusion), ModelError::Unreachable);
    assert!(!came.is_finished(), "nobody went there");
    // `ask` itself looks for the key in everything that is said.
    let echo = plain(&format!(r#"{{"error": "the key {KEY} is not known"}}"#));
    let (address, serving) = serve(vec![echo]);
    let (words, _, _) = ask(&spec("api-openai"), &address, Some(KEY));
    serving.join().unwrap();
    assert!(matches!(&words[0], Word::Failed { message, .. } if message.contains("[redacted]")), "{words:?}");
}

#[test]
fn without_a_key_or_a_service_there_is_a_word_about_it() {
    let (_, _, conclusion) = ask(&spec("api-grok"), "http://127.0.0.1:9", None);
    let AgentEnd::Failed(Failure::Model { error: ModelError::Denied, message }) = &conclusion.end else {
        panic!()
    };
    assert_eq!(message, "there is no key for api-grok: set XAI_API_KEY or GROK_API_KEY or X_API_KEY");
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (_, _, conclusion) = ask(&spec("api-grok"), &format!("http://{nobody}"), Some(KEY));
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
fn a_model_cannot_lead_to_another_place_of_the_service() {
    let path = |model: &str| {
        let mut spec = spec("api-gemini");
        spec.model = Some(model.to_owned());
        let job: Job = match &drive(&spec).feed {
            Feed::Whole(told) => serde_json::from_slice(told).unwrap(),
            Feed::Nothing | Feed::Open(_) => panic!("a job was expected"),
        };
        job.wire.post(&job.question, job.habits).path
    };
    let of = |model: &str| format!("/v1beta/models/{model}:streamGenerateContent?alt=sse");
    assert_eq!(path("models/gemini-2.5-pro"), of("gemini-2.5-pro"));
    assert_eq!(path("../files?x=y#z"), of("%2E%2E%2Ffiles%3Fx%3Dy%23z").replace("%2E%2E", ".."));
    assert_eq!(path(".."), of("%2E%2E"));
}

#[test]
fn a_configured_service_gets_only_the_key_that_is_named_for_it() {
    let job = |options: serde_json::Value| {
        let mut spec = spec("api");
        spec.backend.options = options;
        spec.setup.temperature = Some(domain::setup::Temperature(700));
        match drive(&spec) {
            ProcessDrive { feed: Feed::Whole(told), known_env, .. } => {
                (serde_json::from_slice::<Job>(&told).unwrap(), known_env)
            }
            _ => panic!("a job was expected"),
        }
    };
    let (own, known) = job(json!({"api": "openai", "base_url": "http://127.0.0.1:1/v1"}));
    assert_eq!((own.keys.len(), own.address_variable, known.len()), (0, None, 0));
    assert_eq!(own.question.temperature, Some(0.7));
    let (named, known) =
        job(json!({"api": "mistral", "base_url": "https://x.org", "key_env": "MY_KEY", "max_tokens": 5}));
    assert_eq!(
        (named.keys, known, named.question.max_tokens),
        (vec!["MY_KEY".to_owned()], vec!["MY_KEY".to_owned()], Some(5))
    );
    let (plain, _) = job(json!({"api": "gemini"}));
    assert_eq!(plain.keys, ["GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_AI_KEY"]);
    let mut none = spec("api-openai");
    none.model = None;
    let place = sample::place(None);
    assert!(
        backend("api-openai")
            .prepare(&none, &place)
            .is_err_and(|error| error.reason.contains("needs a model"))
    );
}

#[test]
fn neither_the_key_nor_the_prompt_are_in_the_arguments() {
    let mut spec = spec("api-grok");
    spec.setup.key_file = Some("/p/api_keys.json".to_owned());
    let drive = drive(&spec);
    assert_eq!(drive.argv, ["/bin/volery", "__api"]);
    let keys = ["XAI_API_KEY", "GROK_API_KEY", "X_API_KEY"].map(ToOwned::to_owned).to_vec();
    let expected = Setting::InFile { file: "/p/api_keys.json".into(), keys };
    assert_eq!(drive.set, [("XAI_API_KEY".to_owned(), expected)]);
}

#[test]
fn an_answer_in_a_shape_is_read_as_a_value() {
    let server = Server::start(vec![Reply::say("```json\n{\"count\": 3}\n```")]).unwrap();
    let mut spec = spec("api-anthropic");
    spec.setup.output_schema = Some(json!({"type": "object"}));
    let (_, _, conclusion) = ask(&spec, &server.url(), Some(KEY));
    assert_eq!(conclusion.structured, Some(json!({"count": 3})));
}

proptest! {
    #[test]
    fn no_prefix_of_a_stream_succeeds(cut in 0_usize..400) {
        let words = [Word::Text { text: "hello".to_owned() }, Word::Ended { stop: super::word::Stop::Whole }];
        let whole: String = words.iter().map(|word| serde_json::to_string(word).unwrap() + "\n").collect();
        let mut stream = Stream::new(false);
        stream.feed(Pipe::Stdout, &whole.as_bytes()[..cut.min(whole.len() - 2)]);
        prop_assert!(matches!(stream.conclude(Exit::Code(0)).end, AgentEnd::Failed(_)));
    }

    #[test]
    fn no_event_of_a_service_makes_it_panic(event in "[{}\\[\\]\":,a-z0-9]{0,80}", wire in 0_usize..3) {
        use super::wire::{Heard, Wire};
        let wire = [Wire::Messages, Wire::Chat, Wire::Google][wire];
        let value = serde_json::from_str(&event).unwrap_or(serde_json::Value::Null);
        let _ = wire.hear(&value, &mut Heard::default());
        let _ = wire.hear_whole(&value, &mut Heard::default());
        let _ = super::failure::refused(500, Some(&event), event.as_bytes());
    }

    #[test]
    fn a_body_is_the_same_in_pieces_of_any_size(size in 1_usize..40) {
        let text = ": c\n\nevent: x\ndata: {\"a\":1}\n\ndata: b\ndata: c\r\n\r\ndata: [DONE]\n";
        let read = |size: usize| {
            let mut body = super::sse::Body::default();
            let mut parts: Vec<_> = text.as_bytes().chunks(size).flat_map(|piece| body.feed(piece)).collect();
            parts.extend(body.finish().0);
            parts
        };
        prop_assert_eq!(read(size), read(1_000));
        prop_assert_eq!(read(size).len(), 3);
    }
}
