//! The stored form of a permission. Rules are stored as plain texts, and their origins apart from them: a version that
//! knows nothing of origins reads the rules all the same.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{Level, Permission, Rule};

/// Where a rule comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleOrigin {
    File {
        file: String,
        line: u32,
    },
    /// Volery adds it to every agent.
    BuiltIn,
}

const BUILT_IN: &str = "built-in";

impl fmt::Display for RuleOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { file, line } => write!(f, "{file}:{line}"),
            Self::BuiltIn => f.write_str(BUILT_IN),
        }
    }
}

impl FromStr for RuleOrigin {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        if text == BUILT_IN {
            return Ok(Self::BuiltIn);
        }
        let (file, line) = text.rsplit_once(':').ok_or(())?;
        Ok(Self::File { file: file.to_owned(), line: line.parse().map_err(|_| ())? })
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct StoredPermission {
    #[serde(skip_serializing_if = "Option::is_none")]
    level: Option<Level>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    allow: Vec<Rule>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ask: Vec<Rule>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    deny: Vec<Rule>,
    /// The origins of rules, by `LIST RULE`. One that cannot be read is left out: it decides nothing.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    origins: BTreeMap<String, String>,
}

fn key(list: &str, rule: &Rule) -> String {
    format!("{list} {rule}")
}

impl From<StoredPermission> for Permission {
    fn from(stored: StoredPermission) -> Self {
        let StoredPermission { level, allow, ask, deny, origins } = stored;
        let with_origins = |list: &str, rules: Vec<Rule>| -> Vec<Rule> {
            let origin = |rule: &Rule| origins.get(&key(list, rule)).and_then(|text| text.parse().ok());
            rules
                .into_iter()
                .map(|rule| {
                    let origin = origin(&rule);
                    rule.with_origin(origin)
                })
                .collect()
        };
        Self {
            level,
            allow: with_origins("allow", allow),
            ask: with_origins("ask", ask),
            deny: with_origins("deny", deny),
        }
    }
}

impl From<Permission> for StoredPermission {
    fn from(permission: Permission) -> Self {
        let Permission { level, allow, ask, deny } = permission;
        let lists = [("allow", &allow), ("ask", &ask), ("deny", &deny)];
        let origins = lists.into_iter().flat_map(|(list, rules)| {
            rules.iter().filter_map(move |rule| Some((key(list, rule), rule.origin()?.to_string())))
        });
        let origins = origins.collect();
        Self { level, allow, ask, deny, origins }
    }
}

impl Permission {
    /// Returns the permission without the origins of its rules, for one that somebody sends who could invent them.
    #[must_use]
    pub fn without_origins(&self) -> Self {
        let plain = |rules: &[Rule]| rules.iter().map(|rule| rule.clone().with_origin(None)).collect();
        Self { level: self.level, allow: plain(&self.allow), ask: plain(&self.ask), deny: plain(&self.deny) }
    }
}
