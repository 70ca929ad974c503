//! Every vendor's program for a user who has just installed it: no settings, no login, no key. The explanation has the
//! program's own words and says what to do.

use model_server::Reply;
use serde_json::Value;

use super::place::{Place, Vendor};

struct Case {
    vendor: &'static str,
    /// The program's own words; empty where its documentation does not have them.
    words: &'static str,
    /// The command or the variable that helps.
    advice: &'static str,
}

const CASES: [Case; 9] = [
    Case { vendor: "claude", words: "Not logged in", advice: "ANTHROPIC_API_KEY" },
    Case { vendor: "gemini", words: "Please set an Auth method", advice: "GEMINI_API_KEY" },
    Case { vendor: "copilot", words: "No authentication information found", advice: "COPILOT_GITHUB_TOKEN" },
    Case { vendor: "qwen", words: "No auth type is selected", advice: "OPENAI_API_KEY" },
    Case {
        vendor: "goose",
        words: "No provider configured. Run 'goose configure' first.",
        advice: "GOOSE_PROVIDER",
    },
    Case { vendor: "kimi", words: "No model configured", advice: "start kimi once and log in" },
    Case { vendor: "cursor", words: "", advice: "cursor-agent login, or set CURSOR_API_KEY" },
    Case { vendor: "kiro", words: "", advice: "kiro-cli login, or set KIRO_API_KEY" },
    Case { vendor: "grok", words: "", advice: "XAI_API_KEY" },
];

fn run_logged_out(case: &Case) -> Option<Value> {
    let vendor = Vendor::named(case.vendor);
    let mut place = Place::make(&vendor, "logged_out", vec![Reply::say("It is done.").always()])?;
    place.forget_user();
    place.agent(&vendor, "timeout: 100s");
    Some(place.run("Do it.", &[]))
}

#[test]
fn the_explanation_says_what_to_do() {
    for case in &CASES {
        let Some(run) = run_logged_out(case) else { continue };
        let explanation = run["explanation"].as_str().unwrap_or_default();
        assert_eq!((&run["status"], &run["outcome"]["error"]), (&"failed".into(), &"denied".into()), "{run}");
        assert!(explanation.contains(case.words), "{}: {explanation}", case.vendor);
        assert!(explanation.contains(case.advice), "{}: {explanation}", case.vendor);
    }
}
