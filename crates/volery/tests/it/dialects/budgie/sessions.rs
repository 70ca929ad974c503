//! Sessions: they outlive the server, each agent has its own, and an id from a caller never becomes a path.

use std::fs;

use serde_json::json;

use super::budgie_env::{BudgieEnv, answered, call, refused};

const TOOL: &str = "kiro-subagents.test-agent";

fn directory_of(call: &str) -> &str {
    call.lines().next().unwrap().strip_prefix("cwd=").unwrap()
}

/// Differs from budgie: sessions when the server ends | deleted | kept for 90 days after their last use
#[test]
fn a_session_continues_in_its_directory_after_the_server_was_replaced() {
    let budgie = BudgieEnv::new();
    let first = answered(&mut budgie.serve(&[]), budgie.ask("the word is heron"));
    let session = first["sessionId"].as_str().unwrap().to_owned();
    let folder = budgie.home(".kiro/sub-agents/sessions").join(&session);
    assert!(folder.is_dir(), "it is not removed when the server leaves");
    let mut client = budgie.serve(&[]);
    let second = answered(&mut client, budgie.in_session("which word?", &session));
    assert_eq!(second["sessionId"], json!(session));
    let elsewhere =
        json!({"prompt": "and there?", "directory": budgie.env.path("home"), "sessionId": session});
    answered(&mut client, elsewhere);
    let calls = budgie.calls();
    assert!(!calls[0].contains("--resume"), "{calls:?}");
    for later in &calls[1..] {
        assert_eq!(directory_of(later), folder.display().to_string());
        assert!(later.contains("\narg=--resume\n"), "{later}");
    }
    assert!(calls[2].ends_with(&format!("In directory {}, and there?", budgie.env.path("home").display())));
}

/// Differs from budgie: one `sessionId` with two agents | one conversation | a conversation for each agent
#[test]
fn a_caller_may_choose_an_id_which_is_the_agents_own() {
    let budgie = BudgieEnv::new();
    let mut client = budgie.serve(&[]);
    for prompt in ["one", "two"] {
        assert_eq!(answered(&mut client, budgie.in_session(prompt, "mine"))["sessionId"], json!("mine"));
    }
    call(&mut client, "kiro-subagents.code-writer", budgie.in_session("three", "mine"));
    let calls = budgie.calls();
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
    let budgie = BudgieEnv::new();
    let precious = budgie.home(".kiro/precious");
    fs::create_dir_all(&precious).unwrap();
    let mut client = budgie.serve(&[]);
    let mut refusals = String::new();
    for id in ["../../precious", "/etc", "a/b", "..", ".", "a b", "x\u{0}", &"x".repeat(101)] {
        let result = call(&mut client, TOOL, budgie.in_session("x", id));
        refusals += &format!("{}\n", refused(&result));
    }
    insta::assert_snapshot!(budgie.env.masked(&refusals), @r#"
    session id "../../precious" is not valid: 1 to 100 letters, digits, '_' or '-'
    session id "/etc" is not valid: 1 to 100 letters, digits, '_' or '-'
    session id "a/b" is not valid: 1 to 100 letters, digits, '_' or '-'
    session id ".." is not valid: 1 to 100 letters, digits, '_' or '-'
    session id "." is not valid: 1 to 100 letters, digits, '_' or '-'
    session id "a b" is not valid: 1 to 100 letters, digits, '_' or '-'
    session id "x\0" is not valid: 1 to 100 letters, digits, '_' or '-'
    session id "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" is not valid: 1 to 100 letters, digits, '_' or '-'
    "#);
    client.close();
    assert_eq!(client.exit(crate::test_env::PATIENCE), Some(0));
    assert!(precious.is_dir() && budgie.home(".kiro/agents").is_dir());
    assert_eq!((budgie.calls(), budgie.env.runs()), (Vec::<String>::new(), Vec::<String>::new()));
}

/// Differs from budgie: a session whose directory is gone | begins anew | the agent is told what was said
#[test]
fn a_session_whose_directory_is_gone_is_replayed() {
    let budgie = BudgieEnv::new();
    let mut client = budgie.serve(&[]);
    let first = answered(&mut client, budgie.ask("the word is heron"));
    let session = first["sessionId"].as_str().unwrap();
    fs::remove_dir_all(budgie.home(".kiro/sub-agents/sessions")).unwrap();
    for prompt in ["which word?", "and now?"] {
        answered(&mut client, budgie.in_session(prompt, session));
    }
    let calls = budgie.calls();
    assert!(!calls[1].contains("--resume") && calls[1].contains("the word is heron"), "{}", calls[1]);
    assert!(calls[2].contains("arg=--resume") && !calls[2].contains("heron"), "{}", calls[2]);
    assert_eq!(directory_of(&calls[1]), directory_of(&calls[2]));
}

#[test]
fn sessions_and_chats_are_written_to_the_directory_of_the_flag() {
    let budgie = BudgieEnv::new();
    let folder = budgie.env.path("kept here");
    let mut client = budgie.serve(&["--sessions-dir", folder.to_str().unwrap(), "--verbose"]);
    let answer = answered(&mut client, budgie.ask("sing"));
    let session = folder.join(answer["sessionId"].as_str().unwrap());
    assert_eq!(directory_of(&budgie.calls()[0]), session.display().to_string());
    let chats: Vec<_> = fs::read_dir(&session).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(chats.len(), 1, "{chats:?}");
    let name = chats[0].file_name().unwrap().to_str().unwrap();
    assert!(name.starts_with("chat-") && name.ends_with(".txt"), "{name}");
    let text = fs::read_to_string(&chats[0]).unwrap();
    for part in ["sing", "done: In directory", "Credits"] {
        assert!(text.contains(part), "{text}");
    }
}
