//! Every vendor's program for a user who has just installed it: no settings, no login, no key, and no network. The run ends
//! soon, and the explanation has the program's own message and advice.

use fake_llm::ScriptedReply;

use super::test_facts::LoggedOut;
use super::vendor_env::{Vendor, VendorEnv};

/// Runs a program and checks how the run ends.
fn check(backend: &'static str) {
    let vendor = Vendor::new(backend);
    let facts = vendor.test_facts();
    let over_acp = facts.acp.logged_out.filter(|_| backend.starts_with("acp-"));
    let LoggedOut { error, message, advice } = over_acp.unwrap_or(facts.logged_out);
    let script = vec![ScriptedReply::say("It is done.").always()];
    let Some(mut vendor_env) = VendorEnv::make(&vendor, "logged_out", script) else { return };
    vendor_env.forget_user();
    // A run that waits for its time-out ends as timed out, and fails the test.
    vendor_env.agent(&vendor, "timeout: 100s");
    let run = vendor_env.run("Do it.", &[]);
    let explanation = run["explanation"].as_str().unwrap_or_default();
    assert_eq!(
        (&run["status"], &run["outcome"]["error"]),
        (&"failed".into(), &error.as_str().into()),
        "{run}"
    );
    assert!(explanation.contains(&message), "{explanation}");
    assert!(explanation.contains(&advice), "{explanation}");
}

/// One test for each program, so that they run in parallel.
macro_rules! logged_out {
    ($($test:ident: $backend:literal,)*) => {
        $(#[test]
        fn $test() {
            check($backend);
        })*
    };
}

logged_out! {
    claude: "claude",
    codex: "codex",
    gemini: "gemini",
    copilot: "copilot",
    qwen: "qwen",
    opencode: "opencode",
    goose: "goose",
    kimi: "kimi",
    cursor: "cursor",
    kiro: "kiro",
    grok: "grok",
    acp_claude: "acp-claude",
    acp_codex: "acp-codex",
    acp_gemini: "acp-gemini",
    acp_copilot: "acp-copilot",
    acp_qwen: "acp-qwen",
    acp_opencode: "acp-opencode",
    acp_goose: "acp-goose",
    acp_kimi: "acp-kimi",
}
