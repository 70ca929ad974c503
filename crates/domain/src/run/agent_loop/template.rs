//! Fills the texts that are sent to models. A filled value is never searched for further names, so that no text of a
//! directive can pull another one in.

/// Returns the template with each `{{name}}` replaced. A name without a value is a defect of the template.
pub(super) fn fill_template(template: &str, values: &[(&str, &str)]) -> String {
    let mut filled = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        filled.push_str(before);
        let Some((name, after)) = after.split_once("}}") else {
            filled.push_str("{{");
            rest = after;
            continue;
        };
        let value = values.iter().find(|(known, _)| *known == name);
        filled.push_str(value.expect("every name in a template has a value").1);
        rest = after;
    }
    filled.push_str(rest);
    filled
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_filled_value_is_not_filled_again() {
        let filled = super::fill_template("{{a}} and {{b}} {", &[("a", "{{b}}"), ("b", "2")]);
        assert_eq!(filled, "{{b}} and 2 {");
    }
}
