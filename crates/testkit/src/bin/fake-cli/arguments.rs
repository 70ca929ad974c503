//! Parses arguments as strictly as the vendors document them: an undocumented option is an error.

use std::collections::BTreeMap;

/// One documented option.
pub(crate) struct OptionSpec {
    /// All its spellings; this program uses the first.
    pub(crate) names: &'static [&'static str],
    pub(crate) value_syntax: ValueSyntax,
}

/// Whether an option has a value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueSyntax {
    Nothing,
    /// In the next argument, or after `=`.
    Value,
    /// Only after `=`, where it may be empty.
    Attached,
}

pub(crate) const fn flag(names: &'static [&'static str]) -> OptionSpec {
    OptionSpec { names, value_syntax: ValueSyntax::Nothing }
}

pub(crate) const fn value(names: &'static [&'static str]) -> OptionSpec {
    OptionSpec { names, value_syntax: ValueSyntax::Value }
}

pub(crate) const fn attached(names: &'static [&'static str]) -> OptionSpec {
    OptionSpec { names, value_syntax: ValueSyntax::Attached }
}

/// The parsed options and positional arguments.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ParsedArguments {
    options: BTreeMap<&'static str, Vec<String>>,
    pub(crate) positional: Vec<String>,
}

impl ParsedArguments {
    pub(crate) fn has(&self, name: &str) -> bool {
        self.options.contains_key(name)
    }

    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.options.get(name)?.last().map(String::as_str)
    }

    pub(crate) fn values(&self, name: &str) -> impl Iterator<Item = &str> {
        self.options.get(name).into_iter().flatten().map(String::as_str)
    }
}

/// Parses the arguments of a program. The error describes the first invalid one.
pub(crate) fn parse(specs: &[OptionSpec], arguments: &[String]) -> Result<ParsedArguments, String> {
    let mut parsed = ParsedArguments::default();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        if !argument.starts_with('-') || argument == "-" {
            parsed.positional.push(argument.clone());
            continue;
        }
        let (option, attached_value) = match argument.split_once('=') {
            Some((option, attached_value)) => (option, Some(attached_value.to_owned())),
            None => (argument.as_str(), None),
        };
        let Some(spec) = specs.iter().find(|spec| spec.names.contains(&option)) else {
            return Err(format!("unknown option '{option}'"));
        };
        let missing = || format!("option '{option}' argument missing");
        let value = match (spec.value_syntax, attached_value) {
            (ValueSyntax::Nothing, None) => String::new(),
            (ValueSyntax::Nothing, Some(_)) => return Err(format!("option '{option}' takes no argument")),
            (ValueSyntax::Value | ValueSyntax::Attached, Some(value)) => value,
            (ValueSyntax::Value, None) => rest.next().cloned().ok_or_else(missing)?,
            (ValueSyntax::Attached, None) => return Err(missing()),
        };
        parsed.options.entry(spec.names[0]).or_default().push(value);
    }
    Ok(parsed)
}
