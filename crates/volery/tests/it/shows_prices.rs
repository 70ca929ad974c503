//! `volery prices` shows the prices by which costs are computed, and where each is from.

use serde_json::json;

use crate::test_env::TestEnv;

#[test]
fn a_price_of_the_user_comes_first_and_replaces_a_published_one() {
    let env = TestEnv::new();
    env.configure("[prices.\"gpt-5\"]\ninput = 1.5\noutput = 11\n[prices.local]\ninput = 0.05\noutput = 0\ncache_read = 0.01\n");
    // Nothing of this needs the state.
    std::fs::remove_dir(env.path("state")).unwrap();
    let file = env.path("config").join("config.toml");
    let shown = env.json(["prices"]);
    assert_eq!(
        shown["prices"][0],
        json!({
            "model": "gpt-5", "input": 1.5, "output": 11.0, "cache_read": 1.5, "cache_write": 1.5, "layer": "user", "file": file,
        })
    );
    assert_eq!(shown["prices"][1]["cache_read"], json!(0.01));
    let prices = shown["prices"].as_array().unwrap();
    assert_eq!(prices.iter().filter(|price| price["model"] == "gpt-5").count(), 1);
    let sonnet = prices.iter().find(|price| price["model"] == "claude-sonnet-4-5").unwrap();
    assert_eq!(
        *sonnet,
        json!({
            "model": "claude-sonnet-4-5", "provider": "anthropic", "input": 3.0, "output": 15.0,
            "cache_read": 0.3, "cache_write": 3.75, "layer": "default",
        })
    );
    assert!(prices.len() > 400, "{}", prices.len());
    let date = shown["date"].as_str().unwrap();
    assert!(date.parse::<jiff::civil::Date>().is_ok(), "{date}");
    assert!(!env.path("state").exists());
}

#[test]
fn a_model_is_shown_with_all_that_prices_it() {
    let env = TestEnv::new();
    env.configure("[prices.\"my-sonnet-4-5\"]\ninput = 1\noutput = 2\n");
    let sonnet = env.volery(["prices", "sonnet-4-5"]).ok();
    insta::assert_snapshot!(env.masked(&sonnet.stdout), @"
    MODEL              INPUT  OUTPUT  CACHE READ  CACHE WRITE  PRICED BY
    my-sonnet-4-5       1.00    2.00        1.00         1.00  [stage]/config/config.toml
    claude-sonnet-4-5   3.00   15.00        0.30         3.75  anthropic
    claude-sonnet-4-5   3.00   15.00        0.30         3.75  google
    ");
    let shown = env.json(["prices"]);
    let (source, date) = (shown["source"].as_str().unwrap(), shown["date"].as_str().unwrap());
    let origin = format!("US dollars per million tokens; published prices from {source} of {date}\n");
    assert_eq!(sonnet.stderr, origin);
    // A dated name has no entry of its own.
    let dated = env.json(["prices", "claude-sonnet-4-5-20250929"]);
    assert_eq!(dated["prices"][0]["model"], "claude-sonnet-4-5");
    let unknown = env.volery(["prices", "gpt-5-nanoo"]).exits(5);
    insta::assert_snapshot!(unknown.stderr, @r#"
    error: no price of a model "gpt-5-nanoo" is known
    hint: did you mean gpt-5-nano? a [prices."gpt-5-nanoo"] in your configuration sets one
    "#);
}
