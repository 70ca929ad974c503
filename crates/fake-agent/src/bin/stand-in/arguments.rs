//! Reads arguments as strictly as the vendors document them: an option that is not in the list is an error.

use std::collections::BTreeMap;

/// One documented option.
pub(crate) struct Known {
    /// All its spellings; the first is its name here.
    pub(crate) names: &'static [&'static str],
    pub(crate) takes: Takes,
}

/// Whether an option has a value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Takes {
    Nothing,
    /// In the next word, or behind `=`.
    Value,
    /// Only behind `=`, where it may be empty.
    Attached,
}

pub(crate) const fn flag(names: &'static [&'static str]) -> Known {
    Known { names, takes: Takes::Nothing }
}

pub(crate) const fn value(names: &'static [&'static str]) -> Known {
    Known { names, takes: Takes::Value }
}

pub(crate) const fn attached(names: &'static [&'static str]) -> Known {
    Known { names, takes: Takes::Attached }
}

/// What was given.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Given {
    options: BTreeMap<&'static str, Vec<String>>,
    pub(crate) words: Vec<String>,
}

impl Given {
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

/// Reads the arguments of a program; the error is what is wrong with the first wrong one.
pub(crate) fn read(known: &[Known], arguments: &[String]) -> Result<Given, String> {
    let mut given = Given::default();
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        if !word.starts_with('-') || word == "-" {
            given.words.push(word.clone());
            continue;
        }
        let (option, behind) = match word.split_once('=') {
            Some((option, behind)) => (option, Some(behind.to_owned())),
            None => (word.as_str(), None),
        };
        let Some(known) = known.iter().find(|known| known.names.contains(&option)) else {
            return Err(format!("unknown option '{option}'"));
        };
        let missing = || format!("option '{option}' argument missing");
        let value = match (known.takes, behind) {
            (Takes::Nothing, None) => String::new(),
            (Takes::Nothing, Some(_)) => return Err(format!("option '{option}' takes no argument")),
            (Takes::Value | Takes::Attached, Some(value)) => value,
            (Takes::Value, None) => rest.next().cloned().ok_or_else(missing)?,
            (Takes::Attached, None) => return Err(missing()),
        };
        given.options.entry(known.names[0]).or_default().push(value);
    }
    Ok(given)
}
