//! The document that Grok is said to write, whole, cut and wrong.

use std::path::Path;

use domain::run::{AgentEnd, Failure, LimitName, ModelError, Stream as Pipe};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::reader::Document;
use super::*;
use crate::contract::{Answer, Conclusion, Exit, Reader};
use crate::program::Found;
use crate::sample;

fn read(document: &Value, exit: Exit) -> Conclusion {
    let mut reader = Document::new(false);
    reader.feed(Pipe::Stdout, format!("{document}\n").as_bytes());
    reader.conclude(exit)
}

#[test]
fn the_text_of_a_turn_that_ended_is_the_answer() {
    let document = json!({"text": "Done.", "stopReason": "EndTurn", "sessionId": "g-1", "requestId": "r"});
    let conclusion = read(&document, Exit::Code(0));
    assert_eq!((conclusion.end, conclusion.answer), (AgentEnd::Done, Answer::Text("Done.".to_owned())));
    assert_eq!(conclusion.session.as_deref(), Some("g-1"));
    let killed = read(&document, Exit::Signal(9));
    assert_eq!(killed.end, AgentEnd::Failed(Failure::Signal { signal: 9 }));
}

#[test]
fn another_end_is_no_success_and_its_text_is_kept() {
    let end = |document: Value, code| read(&document, Exit::Code(code)).end;
    let stopped = |reason: &str| json!({"text": "so far", "stopReason": reason});
    assert_eq!(end(stopped("EndTurn"), 1), AgentEnd::Failed(Failure::Exit { code: 1 }));
    assert_eq!(end(stopped("MaxTurnRequests"), 0), AgentEnd::OverBudget(LimitName::Turns));
    assert!(matches!(end(stopped("MaxTokens"), 0), AgentEnd::Failed(Failure::Output { .. })));
    let refused = end(stopped("Refusal"), 0);
    assert!(
        matches!(refused, AgentEnd::Failed(Failure::Model { error: ModelError::Refusal, .. })),
        "{refused:?}"
    );
    assert!(matches!(end(json!({"text": "x"}), 0), AgentEnd::Failed(Failure::Output { .. })));
    let message = "no key".to_owned();
    let told = AgentEnd::Failed(Failure::Agent { message });
    assert_eq!(end(json!({"type": "error", "error": {"message": "no key"}}), 1), told);
    assert_eq!(read(&stopped("Cancelled"), Exit::Code(0)).answer, Answer::Text("so far".to_owned()));
}

#[test]
fn without_a_document_the_error_stream_tells() {
    let ended = |stdout: &str, stderr: &str, exit| {
        let mut reader = Document::new(false);
        reader.feed(Pipe::Stdout, stdout.as_bytes());
        reader.feed(Pipe::Stderr, stderr.as_bytes());
        reader.conclude(exit).end
    };
    let message = "it broke".to_owned();
    assert_eq!(ended("", "it broke\n", Exit::Code(1)), AgentEnd::Failed(Failure::Agent { message }));
    let lost = ended("", "Error: Session not found: x\n", Exit::Code(1));
    assert!(matches!(lost, AgentEnd::Failed(Failure::Session { .. })), "{lost:?}");
    assert!(matches!(ended("hello", "", Exit::Code(0)), AgentEnd::Failed(Failure::Output { .. })));
    assert_eq!(ended("", "", Exit::Code(2)), AgentEnd::Failed(Failure::Exit { code: 2 }));
}

#[test]
fn the_prompt_goes_by_a_file_and_the_level_by_the_sandbox() {
    let mut spec = sample::spec("grok");
    spec.model = Some("grok-4".to_owned());
    spec.session = Some("g-1".parse().unwrap());
    spec.setup.effort = Some("high".to_owned());
    let found = Found { argv: vec!["/bin/grok".to_owned()], version: None };
    let place = Place {
        work: Path::new("/w"),
        own_program: Path::new("/bin/volery"),
        found: Some(&found),
        session_used: None,
    };
    let Drive::Process(drive) = Grok.prepare(&spec, &place).unwrap() else {
        panic!("a process was expected")
    };
    let expected = "/bin/grok --permission-mode bypassPermissions --sandbox workspace --model grok-4 \
                    --reasoning-effort high --resume g-1 --cwd /p --output-format json --prompt-file /w/prompt.md \
                    --verbatim";
    assert_eq!(drive.argv.join(" "), expected);
    assert!(drive.files[0].content.ends_with(b"[User Prompt]\ndo it"));
    assert_eq!(sandbox(Some(Level::ReadOnly)), "read-only");
    assert_eq!(sandbox(Some(Level::Yolo)), "off");
    let rules = serde_json::from_str(r#"{"level": "read-only", "allow": ["Bash"]}"#).unwrap();
    assert_eq!(Grok.unenforceable(&rules, &Value::Null), ["the rule allow Bash"]);
}

proptest! {
    #[test]
    fn no_part_of_a_document_succeeds_and_no_bytes_make_it_panic(
        cut in 0_usize..44,
        bytes in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let whole = json!({"stopReason": "EndTurn", "text": "hello there"}).to_string();
        for part in [&whole.as_bytes()[..cut.min(whole.len() - 1)], &bytes[..]] {
            let mut reader = Document::new(true);
            reader.feed(Pipe::Stdout, part);
            prop_assert!(matches!(reader.conclude(Exit::Code(0)).end, AgentEnd::Failed(_)));
        }
    }
}
