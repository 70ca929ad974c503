//! Sessions: they outlive the server, they are the agent's own, and no word of a caller becomes a path.

use std::fs;

use serde_json::json;

use super::place::{Place, answered, call, refused};

const TOOL: &str = "kiro-subagents.test-agent";

fn directory_of(call: &str) -> &str {
    call.lines().next().unwrap().strip_prefix("cwd=").unwrap()
}

/// Differs from budgie: sessions when the server ends | deleted | kept for 90 days after their last use
#[test]
fn a_session_goes_on_in_its_directory_after_the_server_was_replaced() {
    let place = Place::new();
    let first = answered(&mut place.serve(&[]), place.ask("the word is heron"));
    let session = first["sessionId"].as_str().unwrap().to_owned();
    let folder = place.home(".kiro/sub-agents/sessions").join(&session);
    assert!(folder.is_dir(), "it is not removed when the server leaves");
    let mut client = place.serve(&[]);
    let second = answered(&mut client, place.in_session("which word?", &session));
    assert_eq!(second["sessionId"], json!(session));
    let elsewhere =
        json!({"prompt": "and there?", "directory": place.stage.path("home"), "sessionId": session});
    answered(&mut client, elsewhere);
    let calls = place.calls();
    assert!(!calls[0].contains("--resume"), "{calls:?}");
    for later in &calls[1..] {
        assert_eq!(directory_of(later), folder.display().to_string());
        assert!(later.contains("\narg=--resume\n"), "{later}");
    }
    assert!(calls[2].ends_with(&format!("In directory {}, and there?", place.stage.path("home").display())));
}

/// Differs from budgie: one `sessionId` with two agents | one conversation | a conversation for each agent
#[test]
fn a_caller_may_choose_an_id_which_is_the_agents_own() {
    let place = Place::new();
    let mut client = place.serve(&[]);
    for prompt in ["one", "two"] {
        assert_eq!(answered(&mut client, place.in_session(prompt, "mine"))["sessionId"], json!("mine"));
    }
    call(&mut client, "kiro-subagents.code-writer", place.in_session("three", "mine"));
    let calls = place.calls();
    let resumed: Vec<bool> = calls.iter().map(|call| call.contains("arg=--resume")).collect();
    assert_eq!(resumed, [false, true, false], "another agent knows nothing of it");
    assert_eq!(directory_of(&calls[0]), directory_of(&calls[1]));
    assert_ne!(directory_of(&calls[0]), directory_of(&calls[2]));
    assert!(!calls.concat().contains("/mine"), "what a caller chose is in no path");
}

/// Differs from budgie: `sessionId` | becomes a path, and is deleted with all below it | 1 to 100 letters, digits,
///    `_` and `-`; never part of a path
#[test]
fn an_id_that_would_be_a_path_is_refused_and_nothing_is_touched() {
    let place = Place::new();
    let precious = place.home(".kiro/precious");
    fs::create_dir_all(&precious).unwrap();
    let mut client = place.serve(&[]);
    for id in ["../../precious", "/etc", "a/b", "..", ".", "a b", "x\u{0}", &"x".repeat(101)] {
        let result = call(&mut client, TOOL, place.in_session("x", id));
        assert!(refused(&result).contains("session id"), "{result}");
    }
    client.close();
    assert_eq!(client.exit(crate::stage::PATIENCE), Some(0));
    assert!(precious.is_dir() && place.home(".kiro/agents").is_dir());
    assert_eq!((place.calls(), place.stage.runs()), (Vec::<String>::new(), Vec::<String>::new()));
}

/// Differs from budgie: a session whose directory is gone | begins anew | the agent is told what was said
#[test]
fn a_session_whose_directory_is_gone_is_told_what_was_said() {
    let place = Place::new();
    let mut client = place.serve(&[]);
    let first = answered(&mut client, place.ask("the word is heron"));
    let session = first["sessionId"].as_str().unwrap();
    fs::remove_dir_all(place.home(".kiro/sub-agents/sessions")).unwrap();
    for prompt in ["which word?", "and now?"] {
        answered(&mut client, place.in_session(prompt, session));
    }
    let calls = place.calls();
    assert!(!calls[1].contains("--resume") && calls[1].contains("the word is heron"), "{}", calls[1]);
    assert!(calls[2].contains("arg=--resume") && !calls[2].contains("heron"), "{}", calls[2]);
    assert_eq!(directory_of(&calls[1]), directory_of(&calls[2]));
}

#[test]
fn sessions_are_where_the_flag_says_and_chats_are_written_there() {
    let place = Place::new();
    let folder = place.stage.path("kept here");
    let mut client = place.serve(&["--sessions-dir", folder.to_str().unwrap(), "--verbose"]);
    let said = answered(&mut client, place.ask("sing"));
    let session = folder.join(said["sessionId"].as_str().unwrap());
    assert_eq!(directory_of(&place.calls()[0]), session.display().to_string());
    let chats: Vec<_> = fs::read_dir(&session).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(chats.len(), 1, "{chats:?}");
    let name = chats[0].file_name().unwrap().to_str().unwrap();
    assert!(name.starts_with("chat-") && name.ends_with(".txt"), "{name}");
    let text = fs::read_to_string(&chats[0]).unwrap();
    for part in ["sing", "done: In directory", "Credits"] {
        assert!(text.contains(part), "{text}");
    }
}
