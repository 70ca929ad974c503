//! The agents of other vendors, for real: each program in its pinned version, driven by its backend, in a place where
//! only the scripted model can be reached. Every cell of the table backend × case is a test; what a vendor's program
//! cannot do is a cell with the reason.

mod acp_wishes;
mod as_budgie;
mod as_codex;
mod as_jarvis;
mod as_powerspawn;
mod as_sub_agents;
mod attempts;
mod cases;
mod delegates;
mod failures;
mod formats;
mod gemini_home;
mod glm_keys;
mod killed;
mod kiro_acp;
mod kiro_agents;
mod leftovers;
mod listings;
mod logged_out;
mod loose_settings;
mod own_words;
mod place;
mod questions;
mod rules_hold;
mod seat;
mod set_up;
mod stand_ins;
mod temperature;
mod untrusted_project;
mod within_the_tree;
mod without_a_file;

macro_rules! vendors {
    ($($vendor:ident: $name:literal),+ $(,)?) => {
        $(mod $vendor {
            use super::cases;
            use super::place::Vendor;

            const VENDOR: Vendor = Vendor::named($name);

            #[test]
            fn says_reads_instructions_and_reports_usage() {
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
            fn tells_an_error_of_its_model() {
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
    // Stood in for: see `stand_ins`.
    acp_kiro: "acp-kiro",
    cursor: "cursor",
    kiro: "kiro",
    grok: "grok",
);
