//! The temperature in an agent's file reaches the model with every backend that supports it; the others warn.

use fake_llm::ScriptedReply;
use serde_json::{Value, json};

use super::vendor_env::VendorEnv;
use crate::test_env::TestEnv;

/// Runs an agent with a temperature and returns the temperatures in the requests to the model.
fn requested_temperatures(vendor: &str) -> Option<Vec<Value>> {
    let script = vec![ScriptedReply::say("Three herons.").always()];
    let vendor_env = VendorEnv::make_for(&[vendor], "temperature", script)?;
    vendor_env.agent_named("worker", vendor, "temperature: 0.35\ntimeout: 100s");
    let run = vendor_env.run("How many herons are there?", &[]);
    assert_eq!(run["status"], json!("succeeded"), "{run}");
    assert!(!run["warnings"].to_string().contains("temperature"), "{run}");
    let seen = vendor_env.offline.server().requests();
    let about_herons =
        seen.iter().filter(|seen| seen.body.to_string().contains("How many herons are there?"));
    Some(about_herons.map(|seen| temperature(&seen.body)).collect())
}

fn temperature(body: &Value) -> Value {
    let gemini_temperature = &body["generationConfig"]["temperature"];
    if gemini_temperature.is_null() { body["temperature"].clone() } else { gemini_temperature.clone() }
}

#[track_caller]
fn reaches_the_model(vendor: &str) {
    let Some(temperatures) = requested_temperatures(vendor) else { return };
    // Some programs also ask for a title, with a temperature of their own.
    let reached = temperatures.iter().filter_map(Value::as_f64).any(|value| (value - 0.35).abs() < 1e-6);
    assert!(reached, "{vendor}: {temperatures:?}");
}

#[test]
fn qwen_sends_it() {
    reaches_the_model("qwen");
}

#[test]
fn gemini_sends_it() {
    reaches_the_model("gemini");
}

#[test]
fn opencode_sends_it() {
    reaches_the_model("opencode");
}

#[test]
fn goose_sends_it() {
    reaches_the_model("goose");
}

/// Every backend is either tested here or in `asks_a_model`, or warns.
#[test]
fn every_backend_that_cannot_send_it_warns() {
    const HONOURED: [&str; 4] = ["gemini", "goose", "opencode", "qwen"];
    let env = TestEnv::new();
    for vendor in backends::registry::program_backends() {
        env.agent(
            &format!("on-{}", vendor.backend),
            &format!("backend: {}\ntemperature: 0.35", vendor.backend),
        );
    }
    let checked = env.volery(["agents", "check", "--json"]).json();
    let found = checked["diagnostics"].as_array().unwrap();
    for vendor in backends::registry::program_backends() {
        let sentence = format!("temperature is not honoured by {}", vendor.backend);
        let warned = found.iter().any(|found| found["message"].as_str().unwrap().contains(&sentence));
        assert_eq!(warned, !HONOURED.contains(&vendor.backend), "{}: {checked}", vendor.backend);
    }
}
