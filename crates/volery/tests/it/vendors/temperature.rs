//! The temperature of an agent's file reaches the model with every backend that says so; with the others, a warning names
//! it.

use model_server::Reply;
use serde_json::{Value, json};

use super::place::Place;
use crate::stage::Stage;

/// Runs an agent with a temperature and returns what the model was asked for: a temperature stands in the body itself, or in
/// Gemini's settings there.
fn asked(vendor: &str) -> Option<Vec<Value>> {
    let script = vec![Reply::say("Three herons.").always()];
    let place = Place::make_for(&[vendor], "temperature", script)?;
    place.agent_named("worker", vendor, "temperature: 0.35\ntimeout: 100s");
    let run = place.run("How many herons are there?", &[]);
    assert_eq!(run["status"], json!("succeeded"), "{run}");
    assert!(!run["warnings"].to_string().contains("temperature"), "{run}");
    let seen = place.offline.server().seen();
    let about_herons =
        seen.iter().filter(|seen| seen.body.to_string().contains("How many herons are there?"));
    Some(about_herons.map(|seen| temperature(&seen.body)).collect())
}

fn temperature(body: &Value) -> Value {
    let of_gemini = &body["generationConfig"]["temperature"];
    if of_gemini.is_null() { body["temperature"].clone() } else { of_gemini.clone() }
}

#[track_caller]
fn reaches_the_model(vendor: &str) {
    let Some(asked) = asked(vendor) else { return };
    // Some programs also ask for a title, with a temperature of their own.
    let told = asked.iter().filter_map(Value::as_f64).any(|value| (value - 0.35).abs() < 1e-6);
    assert!(told, "{vendor}: {asked:?}");
}

#[test]
fn of_qwen() {
    reaches_the_model("qwen");
}

#[test]
fn of_gemini() {
    reaches_the_model("gemini");
}

#[test]
fn of_opencode() {
    reaches_the_model("opencode");
}

#[test]
fn of_goose() {
    reaches_the_model("goose");
}

/// Every backend is either tested here or in `asks_a_model`, or warns.
#[test]
fn is_named_by_every_backend_that_cannot_pass_it_on() {
    const HONOURED: [&str; 4] = ["gemini", "goose", "opencode", "qwen"];
    let stage = Stage::new();
    for vendor in backend::registry::vendors() {
        stage.agent(
            &format!("on-{}", vendor.backend),
            &format!("backend: {}\ntemperature: 0.35", vendor.backend),
        );
    }
    let checked = stage.volery(["agents", "check", "--json"]).json();
    let found = checked["diagnostics"].as_array().unwrap();
    for vendor in backend::registry::vendors() {
        let sentence = format!("temperature is not honoured by {}", vendor.backend);
        let warned = found.iter().any(|found| found["message"].as_str().unwrap().contains(&sentence));
        assert_eq!(warned, !HONOURED.contains(&vendor.backend), "{}: {checked}", vendor.backend);
    }
}
