//! Real programs of other vendors, each in its pinned version, run by its backend without a network except the scripted
//! model. Every cell of the table backend × case is a test; if a program cannot do something, the cell has the reason.

mod acp_requirements;
mod agent_listings;
mod as_budgie;
mod as_codex;
mod as_jarvis;
mod as_powerspawn;
mod as_sub_agents;
mod attempts;
mod built_in_agents;
mod cases;
mod client_env;
mod client_setup;
mod delegation;
mod edits_within_work_tree;
mod fake_cli_failures;
mod fake_clis;
mod formats;
mod gemini_home;
mod glm_keys;
mod killed_run;
mod kiro_acp;
mod kiro_agents;
mod logged_out;
mod permission_overrides;
mod permission_rules;
mod questions;
mod temperature;
mod test_facts;
mod transcripts;
mod untrusted_project;
mod vendor_env;
mod vendor_file_grants;
mod workspace_cleanup;

macro_rules! vendors {
    ($($vendor:ident: $name:literal),+ $(,)?) => {
        $(mod $vendor {
            use super::cases;
            use super::vendor_env::Vendor;

            const VENDOR: Vendor = Vendor::new($name);

            #[test]
            fn answers_reads_instructions_and_reports_usage() {
                cases::say(&VENDOR);
            }

            #[test]
            fn uses_a_tool() {
                cases::tool(&VENDOR);
            }

            #[test]
            fn continues_and_copies_a_session() {
                cases::sessions(&VENDOR);
            }

            #[test]
            fn is_denied_a_tool() {
                cases::deny(&VENDOR);
            }

            #[test]
            fn reports_an_error_of_its_model() {
                cases::error(&VENDOR);
            }

            #[test]
            fn is_stopped_by_its_time_out() {
                cases::time_out(&VENDOR);
            }

            #[test]
            fn is_cancelled_and_leaves_nothing() {
                cases::cancel(&VENDOR);
            }

            #[test]
            fn answers_in_a_shape() {
                cases::schema(&VENDOR);
            }

            #[test]
            fn gets_its_own_servers_only() {
                cases::mcp(&VENDOR);
            }

            #[test]
            fn keeps_its_contract_for_the_doctor() {
                cases::doctor(&VENDOR);
            }

            #[test]
            fn is_denied_what_nobody_answers() {
                cases::ask(&VENDOR);
            }

            #[test]
            fn takes_a_long_prompt_without_instructions() {
                cases::long_prompt(&VENDOR);
            }
        })+
    };
}

vendors!(
    claude: "claude",
    codex: "codex",
    gemini: "gemini",
    copilot: "copilot",
    qwen: "qwen",
    opencode: "opencode",
    goose: "goose",
    kimi: "kimi",
    acp_claude: "acp-claude",
    acp_codex: "acp-codex",
    acp_copilot: "acp-copilot",
    acp_goose: "acp-goose",
    acp_kimi: "acp-kimi",
    acp_gemini: "acp-gemini",
    acp_qwen: "acp-qwen",
    acp_opencode: "acp-opencode",
    glm: "glm",
    // Fake CLIs, see `fake_clis`.
    acp_kiro: "acp-kiro",
    cursor: "cursor",
    kiro: "kiro",
    grok: "grok",
);
