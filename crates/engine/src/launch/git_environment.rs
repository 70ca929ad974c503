//! Protects an agent's git from a repository that the agent could write itself.
//!
//! Git uses a directory as a repository if it contains `HEAD`, `objects`, `refs` and `config`, even without a `.git`
//! above them. `config` can name programs that `git status` starts. An agent that may edit files in its directory, and
//! execute only commands that read, could so execute anything. Files below `.git` need no such protection, because no
//! level allows edits there.

use std::ffi::{OsStr, OsString};

use domain::permission::Level;
use domain::run::RunSpec;

const COUNT: &str = "GIT_CONFIG_COUNT";
const SETTING: (&str, &str) = ("safe.bareRepository", "explicit");

/// Adds a git setting to the environment of an agent, unless the agent may execute everything anyway.
pub(crate) fn protect(spec: &RunSpec, env: &mut Vec<(OsString, OsString)>) {
    if spec.setup.permission.level != Some(Level::Yolo) {
        add_setting(env);
    }
}

/// Appends the setting to those that the environment has: the last one counts.
fn add_setting(env: &mut Vec<(OsString, OsString)>) {
    let count = env.iter().find(|(name, _)| name == OsStr::new(COUNT));
    // Git refuses to start with a count that is not a number.
    let index: usize = count.and_then(|(_, count)| count.to_str()?.trim().parse().ok()).unwrap_or(0);
    let (name, value) = SETTING;
    let variables = [
        (COUNT.to_owned(), (index + 1).to_string()),
        (format!("GIT_CONFIG_KEY_{index}"), name.to_owned()),
        (format!("GIT_CONFIG_VALUE_{index}"), value.to_owned()),
    ];
    env.retain(|(name, _)| variables.iter().all(|(own, _)| name != OsStr::new(own)));
    env.extend(variables.map(|(name, value)| (name.into(), value.into())));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_setting(env: &[(&str, &str)]) -> Vec<(String, String)> {
        let mut env: Vec<(OsString, OsString)> =
            env.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect();
        add_setting(&mut env);
        let text = |text: OsString| text.into_string().unwrap();
        env.into_iter().map(|(name, value)| (text(name), text(value))).collect()
    }

    #[test]
    fn the_setting_follows_those_of_the_user() {
        let own = |index: usize| {
            [
                (COUNT.to_owned(), (index + 1).to_string()),
                (format!("GIT_CONFIG_KEY_{index}"), "safe.bareRepository".to_owned()),
                (format!("GIT_CONFIG_VALUE_{index}"), "explicit".to_owned()),
            ]
        };
        assert_eq!(with_setting(&[]), own(0));
        assert_eq!(with_setting(&[(COUNT, "many")]), own(0));
        let env = [(COUNT, "1"), ("GIT_CONFIG_KEY_0", "a.b"), ("GIT_CONFIG_VALUE_0", "c")];
        let kept = env[1..].iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        assert_eq!(with_setting(&env), kept.chain(own(1)).collect::<Vec<_>>());
    }
}
