//! One text of system prompt and prompt, for programs that take only one.

use domain::run::RunSpec;

use crate::worded_schema;

/// The form that agents of sub-agents-mcp know.
const FORM: &str = include_str!("combined_prompt.md");
/// The longest prompt that is passed as an argument: Linux takes 128 KiB in one.
pub const ARGUMENT_BYTES_MAX: usize = 120 << 10;

/// Returns the prompt of a run with the agent's system prompt before it.
pub fn combined(spec: &RunSpec) -> String {
    let prompt = worded_schema::prompt(spec);
    match spec.system_prompt.trim() {
        "" => prompt,
        system => FORM.replacen("{{PROMPT}}", &prompt, 1).replacen("{{SYSTEM}}", system, 1),
    }
}

/// Returns a prompt as an argument that cannot be taken for an option.
pub fn argument(prompt: &str) -> String {
    if prompt.starts_with('-') { format!("\n{prompt}") } else { prompt.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_prompts_stand_in_the_known_form_and_are_no_templates_themselves() {
        let mut spec = crate::sample::spec("cursor");
        spec.prompt = "do {{SYSTEM}}".to_owned();
        spec.system_prompt = "Be {{PROMPT}}.".to_owned();
        let text = combined(&spec);
        assert_eq!(text, "[System Context]\nBe {{PROMPT}}.\n\n[User Prompt]\ndo {{SYSTEM}}");
        spec.system_prompt = String::new();
        assert_eq!(combined(&spec), "do {{SYSTEM}}");
        assert_eq!(argument("--force"), "\n--force");
    }
}
