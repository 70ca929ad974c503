//! Names the section of a configuration that changes one agent, for advice in messages.

/// Returns the section of a configuration for an agent, in TOML syntax.
pub fn config_section(name: &str) -> String {
    let is_bare = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
    match name.chars().all(is_bare) {
        true => format!("[agents.{name}]"),
        false => format!("[agents.\"{name}\"]"),
    }
}

/// Returns a warning about an agent with `NAME` in place of the agent's name in the configuration section. Equal warnings
/// about several agents then have the same text.
pub fn without_agent_name(text: &str, name: &str) -> String {
    text.replace(&config_section(name), "[agents.NAME]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_can_be_copied_into_a_configuration() {
        assert_eq!(config_section("code-reviewer_2"), "[agents.code-reviewer_2]");
        assert_eq!(config_section("team/lead"), "[agents.\"team/lead\"]");
        assert_eq!(config_section("plugin:agent"), "[agents.\"plugin:agent\"]");
    }
}
