//! Joins the system prompt and the prompt into one text, for programs that accept only one.

use domain::run::RunSpec;

use crate::schema_prompt;

/// The format that agents of sub-agents-mcp expect.
const TEMPLATE: &str = include_str!("prompt_with_system.md");
/// The longest prompt that is passed as an argument. Linux accepts 128 KiB in one argument.
pub const ARGUMENT_BYTES_MAX: usize = 120 << 10;

/// Returns the prompt of a run, preceded by the agent's system prompt.
pub fn prompt_with_system(spec: &RunSpec) -> String {
    let prompt = schema_prompt::prompt_with_schema(spec);
    match spec.system_prompt.trim() {
        "" => prompt,
        system => TEMPLATE.replacen("{{PROMPT}}", &prompt, 1).replacen("{{SYSTEM}}", system, 1),
    }
}

/// Returns a prompt as an argument that cannot be mistaken for an option.
pub fn to_argument(prompt: &str) -> String {
    if prompt.starts_with('-') { format!("\n{prompt}") } else { prompt.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_prompts_fill_the_known_template_and_are_not_templates_themselves() {
        let mut spec = crate::test_fixtures::spec("cursor");
        spec.prompt = "do {{SYSTEM}}".to_owned();
        spec.system_prompt = "Be {{PROMPT}}.".to_owned();
        let text = prompt_with_system(&spec);
        assert_eq!(text, "[System Context]\nBe {{PROMPT}}.\n\n[User Prompt]\ndo {{SYSTEM}}");
        spec.system_prompt = String::new();
        assert_eq!(prompt_with_system(&spec), "do {{SYSTEM}}");
        assert_eq!(to_argument("--force"), "\n--force");
    }
}
