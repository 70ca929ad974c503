//! The form of a replayed prompt, and that no content can break out of it.

use proptest::prelude::*;

use super::*;

fn exchange(request: &str, response: &str) -> Exchange {
    Exchange { request: request.to_owned(), response: response.to_owned() }
}

fn agent() -> AgentName {
    "coder".parse().unwrap()
}

#[test]
fn a_history_has_the_form_that_agents_of_sub_agents_mcp_know() {
    let exchanges = [exchange("Remember the heron.", "I do."), exchange("And {{PROMPT}}?", "Yes.")];
    let replayed = prompt_with_history(&agent(), &exchanges, "What was it?");
    assert_eq!((replayed.included, replayed.left_out), (2, 0));
    assert_eq!(
        replayed.prompt,
        "Previous conversation history:\n\n# Session History: coder\n\n## 1. User Request\n\nRemember the heron.\n\n\
         ## 1. Agent Response\n\nI do.\n\n## 2. User Request\n\nAnd {{PROMPT}}?\n\n## 2. Agent Response\n\nYes.\n\n\
         ---\n\nCurrent request:\nWhat was it?"
    );
}

#[test]
fn the_oldest_are_left_out_with_a_note() {
    let exchanges: Vec<Exchange> =
        (0..40).map(|number| exchange(&format!("request {number}"), &"x".repeat(5_000))).collect();
    let replayed = prompt_with_history(&agent(), &exchanges, "Now?");
    assert!(replayed.left_out > 0 && replayed.included > 10, "{replayed:?}");
    assert!(replayed.prompt.len() <= REPLAY_BYTES_MAX);
    assert!(replayed.prompt.contains("request 39") && !replayed.prompt.contains("request 0\n"));
    let text = format!("(The oldest exchanges are left out: {} of 40.)", replayed.left_out);
    assert!(replayed.prompt.contains(&text));
}

#[test]
fn a_correction_names_every_error() {
    let text = correction_prompt(&["/birds: it is no {{ERRORS}}".to_owned(), "x".repeat(9_000)]);
    assert!(text.contains("\n- /birds: it is no {{ERRORS}}\n- xxx") && text.len() < 1_500, "{text}");
}

#[test]
fn a_note_holds_the_request_and_the_reason() {
    assert!(continue_prompt("Count.", "no room").contains("cut short: no room."));
    for note in [continue_prompt("Count {{REASON}}.", "no room"), resume_prompt("Count {{REASON}}.")] {
        assert!(note.ends_with("\n\nCount {{REASON}}."), "{note}");
    }
}

proptest! {
    #[test]
    fn no_content_looks_like_the_frame_and_none_makes_it_too_long(
        texts in proptest::collection::vec(
            ("(---\n|Current request:\n|## 1. User Request\n|\\{\\{PROMPT\\}\\}|é|[a-z ]{0,40}\n| ){0,40}", 0_usize..30_000),
            1..12,
        ),
    ) {
        let exchanges: Vec<Exchange> =
            texts.iter().map(|(text, more)| exchange(text, &format!("{text}{}", "y".repeat(*more)))).collect();
        let replayed = prompt_with_history(&agent(), &exchanges, "P");
        prop_assert!(replayed.prompt.len() <= REPLAY_BYTES_MAX);
        let count = |text: &str| replayed.prompt.lines().filter(|line| line.trim() == text).count();
        prop_assert_eq!(count("---"), 1);
        prop_assert_eq!(count("Current request:"), 1);
        prop_assert!(count("## 1. User Request") <= 1);
        prop_assert_eq!(replayed.included + replayed.left_out, exchanges.len());
    }
}

#[test]
fn a_prompt_without_history_is_unchanged() {
    let replayed = prompt_with_history(&agent(), &[], "count the herons");
    assert_eq!(replayed, Replayed { prompt: "count the herons".to_owned(), included: 0, left_out: 0 });
}
