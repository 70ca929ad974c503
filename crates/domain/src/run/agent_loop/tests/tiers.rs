//! Tiers: which words and which targets are accepted.

use proptest::prelude::*;

use crate::run::agent_loop::{TierTarget, TierTargetError, is_tier_name};

fn target(backend: &str, model: Option<&str>) -> TierTarget {
    TierTarget { backend: backend.to_owned(), model: model.map(ToOwned::to_owned) }
}

#[test]
fn a_target_is_a_backend_and_perhaps_a_model() {
    for (text, expected) in [
        ("local", target("local", None)),
        ("anthropic/claude-sonnet-4-5", target("anthropic", Some("claude-sonnet-4-5"))),
        ("opencode/openrouter/qwen:free", target("opencode", Some("openrouter/qwen:free"))),
        ("a.b_c-1//m", target("a.b_c-1", Some("/m"))),
    ] {
        assert_eq!(text.parse(), Ok(expected), "{text}");
    }
}

#[test]
fn other_texts_are_no_targets() {
    use TierTargetError::{Backend, Model, NoBackend, NoModel};
    let long_backend = "b".repeat(65);
    let long_model = format!("b/{}", "m".repeat(201));
    for (text, error) in [
        ("", NoBackend),
        (" ", NoBackend),
        ("/m", NoBackend),
        ("/", NoBackend),
        ("b/", NoModel),
        ("b/ ", NoModel),
        ("-b", Backend),
        ("b /m", Backend),
        ("ü", Backend),
        ("b\0", Backend),
        (&long_backend, Backend),
        ("b/-m", Model),
        ("b/ m", Model),
        ("b/a\u{a0}m", Model),
        ("b/m\n", Model),
        ("b/m\u{1b}[31m", Model),
        (&long_model, Model),
    ] {
        assert_eq!(text.parse::<TierTarget>(), Err(error), "{text:?}");
    }
}

#[test]
fn a_tier_is_one_word_of_bounded_length() {
    let longest = "a".repeat(64);
    for word in ["fast", "general", "claude-4.5_x", "-", "7", &longest] {
        assert!(is_tier_name(word), "{word}");
    }
    let too_long = "a".repeat(65);
    for word in ["", " ", "a b", "a/b", "ü", "a\n", &too_long] {
        assert!(!is_tier_name(word), "{word:?}");
    }
}

proptest! {
    #[test]
    fn every_target_is_written_as_it_was_read(text in "[a-z/ -]{0,12}|\\PC{0,12}") {
        if let Ok(target) = text.parse::<TierTarget>() {
            prop_assert_eq!(target.to_string(), text);
        }
    }
}
