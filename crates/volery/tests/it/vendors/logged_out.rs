//! Every vendor's program for a user who has just installed it: no settings, no login, no key, and no network. The run ends
//! soon, and the explanation has the program's own words and says what to do.

use model_server::Reply;

use super::place::{Place, Vendor};

/// Runs a program and checks how the run ends.
fn check(backend: &'static str, error: &str, words: &str, advice: &str) {
    let vendor = Vendor::named(backend);
    let script = vec![Reply::say("It is done.").always()];
    let Some(mut place) = Place::make(&vendor, "logged_out", script) else { return };
    place.forget_user();
    // A run that waits for its time-out ends as timed out, and fails the test.
    place.agent(&vendor, "timeout: 100s");
    let run = place.run("Do it.", &[]);
    let explanation = run["explanation"].as_str().unwrap_or_default();
    assert_eq!((&run["status"], &run["outcome"]["error"]), (&"failed".into(), &error.into()), "{run}");
    assert!(explanation.contains(words), "{explanation}");
    assert!(explanation.contains(advice), "{explanation}");
}

/// One test for each program, so that they start side by side. The words are empty where the program's documentation does
/// not have them.
macro_rules! logged_out {
    ($($test:ident: $backend:literal, $error:literal, $words:literal, $advice:literal;)*) => {
        $(#[test]
        fn $test() {
            check($backend, $error, $words, $advice);
        })*
    };
}

logged_out! {
    claude: "claude", "denied", "Not logged in", "set ANTHROPIC_API_KEY";
    codex: "codex", "denied", "codex is not logged in", "run `codex login`";
    gemini: "gemini", "denied", "Please set an Auth method", "set GEMINI_API_KEY";
    copilot: "copilot", "denied", "No authentication information found", "run `copilot login`";
    qwen: "qwen", "denied", "No auth type is selected", "set OPENAI_API_KEY";
    opencode: "opencode", "unreachable", "found no connection", "run `opencode auth login`";
    goose: "goose", "denied", "No provider configured. Run 'goose configure' first.", "set GOOSE_PROVIDER";
    kimi: "kimi", "denied", "No model configured", "run `kimi` once and log in";
    cursor: "cursor", "denied", "", "run `cursor-agent login`, or set CURSOR_API_KEY";
    kiro: "kiro", "denied", "", "run `kiro-cli login`, or set KIRO_API_KEY";
    grok: "grok", "denied", "", "set XAI_API_KEY";
    acp_claude: "acp-claude", "denied", "wants its user to log in first", "set ANTHROPIC_API_KEY";
    acp_codex: "acp-codex", "denied", "wants its user to log in first", "run `codex login`";
    acp_gemini: "acp-gemini", "denied", "Gemini API key is missing", "set GEMINI_API_KEY";
    acp_copilot: "acp-copilot", "denied", "wants its user to log in first", "run `copilot login`";
    acp_qwen: "acp-qwen", "denied", "wants its user to log in first", "set OPENAI_API_KEY";
    acp_opencode: "acp-opencode", "unreachable", "found no connection", "run `opencode auth login`";
    acp_goose: "acp-goose", "denied", "Missing provider", "run `goose configure`";
    acp_kimi: "acp-kimi", "denied", "wants its user to log in first", "run `kimi` once and log in";
}
