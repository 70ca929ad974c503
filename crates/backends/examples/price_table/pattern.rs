//! Translates the rules that find a model into the notation of the table (see `prices::model_rules`), and refuses those
//! that it does not have.

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

/// Regular expressions that no simple pattern expresses, with rules for the same names.
const TRANSLATED: [(&str, &str); 2] = [
    ("^(?!.*-[tT][tT][sS](?:$|-))", "!$-tts&!~-tts-"),
    (
        "^(?![^/]+/)(?:labs-)?(?:(?:mi|code|dev|magi|mini)stral|mixtral|pixtral|voxtral|open-(?:mistral|mixtral))",
        "^mistral&!~/ ^codestral&!~/ ^devstral&!~/ ^magistral&!~/ ^ministral&!~/ ^mixtral&!~/ ^pixtral&!~/ \
         ^voxtral&!~/ ^open-mistral&!~/ ^open-mixtral&!~/ ^labs-mistral&!~/ ^labs-codestral&!~/ \
         ^labs-devstral&!~/ ^labs-magistral&!~/ ^labs-ministral&!~/ ^labs-mixtral&!~/ ^labs-pixtral&!~/ \
         ^labs-voxtral&!~/ ^labs-open-mistral&!~/ ^labs-open-mixtral&!~/",
    ),
];

/// Returns alternatives separated by spaces, each of one or more terms joined by `&`.
pub(crate) fn rules(logic: &Value) -> Result<String> {
    Ok(alternatives(logic)?.join(" "))
}

fn alternatives(logic: &Value) -> Result<Vec<String>> {
    let fields = logic.as_object().context("a rule is not an object")?;
    let [(operation, argument)] = fields.iter().collect::<Vec<_>>()[..] else {
        bail!("a rule with several operations")
    };
    let nested = || -> Result<Vec<Vec<String>>> {
        argument.as_array().context("not a list of rules")?.iter().map(alternatives).collect()
    };
    match operation.as_str() {
        "or" => Ok(nested()?.concat()),
        "and" => nested()?.into_iter().reduce(combine).context("an empty list of rules"),
        "regex" => regex(argument.as_str().context("not a pattern")?),
        "equals" => literal('=', argument),
        "starts_with" => literal('^', argument),
        "ends_with" => literal('$', argument),
        "contains" => literal('~', argument),
        other => bail!("unknown operation {other}"),
    }
}

/// Returns the conjunction of two lists of alternatives.
fn combine(left: Vec<String>, right: Vec<String>) -> Vec<String> {
    left.iter().flat_map(|one| right.iter().map(move |other| format!("{one}&{other}"))).collect()
}

fn literal(operation: char, argument: &Value) -> Result<Vec<String>> {
    let text = argument.as_str().context("not a text")?.to_lowercase();
    ensure!(!text.contains(['#', '&', ' ', '\t', '\n']), "{text:?} has a character of the notation");
    Ok(vec![format!("{operation}{text}")])
}

/// Translates a pattern of literals, digits and small sets that is anchored at the beginning.
fn regex(pattern: &str) -> Result<Vec<String>> {
    if let Some((_, rules)) = TRANSLATED.iter().find(|(known, _)| *known == pattern) {
        return Ok(rules.split(' ').map(str::to_owned).collect());
    }
    let unknown = || format!("the pattern {pattern:?} is not one that the table can express");
    let body = pattern.strip_prefix('^').with_context(unknown)?;
    let (body, operation) = body.strip_suffix('$').map_or((body, '^'), |body| (body, '='));
    let mut texts = vec![operation.to_string()];
    let mut rest = body.chars();
    while let Some(next) = rest.next() {
        let choices: Vec<char> = match next {
            '\\' => match rest.next().with_context(unknown)? {
                'd' => vec!['#'],
                escaped @ ('.' | '[' | ']') => vec![escaped],
                _ => bail!(unknown()),
            },
            '[' => rest.by_ref().take_while(|character| *character != ']').collect(),
            '{' => {
                let count: String = rest.by_ref().take_while(|character| *character != '}').collect();
                let more =
                    count.parse::<usize>().with_context(unknown)?.checked_sub(1).with_context(unknown)?;
                for text in &mut texts {
                    let last = text.chars().last().with_context(unknown)?;
                    text.extend(std::iter::repeat_n(last, more));
                }
                continue;
            }
            'a'..='z' | '0'..='9' | '-' | '/' | '=' => vec![next],
            _ => bail!(unknown()),
        };
        let plain = |choice: &char| choice.is_ascii_alphanumeric() || "#.-@/=[]".contains(*choice);
        ensure!(!choices.is_empty() && choices.iter().all(plain), unknown());
        texts = texts
            .iter()
            .flat_map(|text| choices.iter().map(move |choice| format!("{text}{choice}")))
            .collect();
    }
    Ok(texts)
}
