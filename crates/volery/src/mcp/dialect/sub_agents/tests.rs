//! The limits and messages of sub-agents-mcp, and invalid session files.

use domain::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::arguments::Arguments;
use super::session_files;

fn read(arguments: Value) -> Result<Arguments, String> {
    let Value::Object(arguments) = arguments else { panic!("an object was expected") };
    Arguments::read(arguments)
}

#[test]
fn errors_have_the_messages_of_that_system() {
    let ok = || json!({"agent": "a", "prompt": "p"});
    let with = |key: &str, value: Value| {
        let mut arguments = ok();
        arguments[key] = value;
        arguments
    };
    let word = "contains invalid characters (only alphanumeric, underscore, and dash allowed)";
    let wrong = [
        (json!({"prompt": "p"}), "Agent parameter is required and must be a string".to_owned()),
        (with("agent", json!(7)), "Agent parameter is required and must be a string".to_owned()),
        (with("agent", json!("")), "Agent parameter is required and must be a string".to_owned()),
        (with("agent", json!("  ")), "Invalid agent parameter: cannot be empty".to_owned()),
        (with("agent", json!("a".repeat(101))), "Agent name too long (max 100 characters)".to_owned()),
        (with("agent", json!("../a")), format!("Agent name {word}")),
        (json!({"agent": "a"}), "Prompt parameter is required and must be a string".to_owned()),
        (with("prompt", json!(" \n")), "Invalid prompt parameter: cannot be empty".to_owned()),
        (with("prompt", json!("p".repeat(50_001))), "Prompt too long (max 50,000 characters)".to_owned()),
        (with("cwd", json!(1)), "CWD parameter must be a string if provided".to_owned()),
        (with("cwd", json!("")), "CWD parameter cannot be empty".to_owned()),
        (
            with("cwd", json!("/".repeat(1_001))),
            "Working directory path too long (max 1000 characters)".to_owned(),
        ),
        (with("cwd", json!("/a/../b")), "Invalid working directory path".to_owned()),
        (with("cwd", json!("/a\0")), "Invalid working directory path".to_owned()),
        (with("extra_args", json!("-v")), "Extra args parameter must be an array if provided".to_owned()),
        (with("extra_args", json!(vec!["x"; 21])), "Too many extra arguments (max 20 allowed)".to_owned()),
        (with("extra_args", json!(["a", 1])), "Extra argument at index 1 must be a string".to_owned()),
        (
            with("extra_args", json!(["a".repeat(1_001)])),
            "Extra argument at index 0 too long (max 1000 characters)".to_owned(),
        ),
        (with("session_id", json!(1)), "Session ID parameter must be a string if provided".to_owned()),
        (with("session_id", json!(" ")), "Invalid session ID parameter: cannot be empty".to_owned()),
        (with("session_id", json!("s".repeat(101))), "Session ID too long (max 100 characters)".to_owned()),
        (with("session_id", json!("a/b")), format!("Session ID {word}")),
    ];
    for (arguments, message) in wrong {
        assert_eq!(read(arguments.clone()), Err(message), "{arguments}");
    }
}

#[test]
fn arguments_just_within_the_limits_are_accepted() {
    let arguments = json!({
        "agent": format!(" {} ", "a".repeat(100)), "prompt": "é".repeat(50_000), "cwd": "/".repeat(1_000),
        "extra_args": vec!["x".repeat(1_000); 20], "session_id": "s".repeat(100),
    });
    let accepted = read(arguments).unwrap();
    assert_eq!((accepted.agent.len(), accepted.extra_args.len()), (100, 20));
    let left_out = json!({"agent": "a", "prompt": "p", "cwd": null, "extra_args": null, "session_id": null});
    assert_eq!(read(left_out).unwrap().cwd, None, "null is how many clients leave out");
}

proptest! {
    #[test]
    fn no_file_makes_it_panic(text in "[{}\\[\\]\":,a-z0-9\\\\]{0,80}") {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("s_a.json"), &text).unwrap();
        let history = session_files::read(folder.path(), "s", "a", Timestamp::MIN);
        prop_assert!(history.is_err() || history.is_ok_and(|history| history.is_empty()));
    }
}

#[test]
fn a_session_file_of_somebody_else_or_by_a_link_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let file = json!({"sessionId": "other", "agentType": "a", "history": []});
    std::fs::write(folder.path().join("s_a.json"), file.to_string()).unwrap();
    assert!(session_files::read(folder.path(), "s", "a", Timestamp::MIN).is_err());
    std::os::unix::fs::symlink("/etc/passwd", folder.path().join("l_a.json")).unwrap();
    assert!(session_files::read(folder.path(), "l", "a", Timestamp::MIN).is_err());
    assert_eq!(session_files::read(folder.path(), "none", "a", Timestamp::MIN).unwrap(), Vec::new());
}
