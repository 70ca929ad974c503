//! Adds advice to the failure of a program that has no login or no settings yet.

use domain::run::{AgentEnd, Failure, ModelError};

use crate::logins::Logins;
use crate::registry::vendor_for_backend;
use crate::user_environment::UserEnvironment;

/// Messages of programs that have no login or no settings yet, in lower case.
const UNCONFIGURED: [&str; 7] = [
    "not logged in",
    "please run /login",
    "no auth type is selected",
    "no authentication information found",
    "no model configured",
    "no provider configured",
    "missing provider",
];

/// Adds advice to the failure of a program that is not logged in or not configured. The program's own message comes
/// first.
pub fn add_login_advice(kind: &str, end: AgentEnd, user: &UserEnvironment<'_>) -> AgentEnd {
    let AgentEnd::Failed(failure) = end else { return end };
    let is_unconfigured = |message: &str| {
        let message = message.to_lowercase();
        UNCONFIGURED.iter().any(|words| message.contains(words))
    };
    let logins = vendor_for_backend(kind).map(|vendor| vendor.logins);
    AgentEnd::Failed(match (failure, logins) {
        (Failure::Model { error: ModelError::Denied, message }, Some(logins)) => denied(&message, &logins),
        (Failure::Model { error: ModelError::Other, message } | Failure::Agent { message }, Some(logins))
            if is_unconfigured(&message) =>
        {
            denied(&message, &logins)
        }
        // The cause may also be the network, so the message names both.
        (Failure::Model { error: ModelError::Unreachable, message }, Some(logins))
            if logins.are_missing(user) =>
        {
            let message = format!("{}; {kind} has no login either: {}", message.trim_end(), logins.advice);
            Failure::Model { error: ModelError::Unreachable, message }
        }
        (failure, _) => failure,
    })
}

fn denied(message: &str, logins: &Logins) -> Failure {
    let message = message.trim_end();
    let message = match message.contains(logins.advice) {
        true => message.to_owned(),
        false => format!("{message} (to fix it: {})", logins.advice),
    };
    Failure::Model { error: ModelError::Denied, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_says_how_to_log_in_where_that_may_help() {
        let home = tempfile::tempdir().unwrap();
        let none = |_: &str| None;
        let user = UserEnvironment { home: Some(home.path()), variable: &none };
        let advise =
            |kind: &str, failure: Failure| match add_login_advice(kind, AgentEnd::Failed(failure), &user) {
                AgentEnd::Failed(Failure::Model { error, message }) => (Some(error), message),
                other => (None, format!("{other:?}")),
            };
        let lost = || Failure::Model { error: ModelError::Unreachable, message: "nobody answers".to_owned() };
        assert_eq!(
            advise("opencode", lost()),
            (
                Some(ModelError::Unreachable),
                format!(
                    "nobody answers; opencode has no login either: {}",
                    crate::opencode::VENDOR.logins.advice
                )
            )
        );
        // A login of codex may be in a keyring.
        assert_eq!(advise("codex", lost()).1, "nobody answers");
        let failure =
            Failure::Agent { message: "cannot be set: Internal error: Missing provider".to_owned() };
        let (error, message) = advise("acp-goose", failure);
        assert_eq!(error, Some(ModelError::Denied));
        assert!(message.contains("Missing provider") && message.contains("goose configure"), "{message}");
        std::fs::create_dir_all(home.path().join(".local/share/opencode")).unwrap();
        std::fs::write(home.path().join(".local/share/opencode/auth.json"), "{\"x\": {}}").unwrap();
        assert_eq!(advise("acp-opencode", lost()).1, "nobody answers");
    }

    #[test]
    fn every_vendor_has_a_location_to_check() {
        for vendor in crate::registry::program_backends().filter(|vendor| vendor.same_program_as.is_none()) {
            let kind = vendor.backend;
            assert!(
                vendor_for_backend(kind).is_some_and(|vendor| !vendor.logins.locations.is_empty()),
                "{kind}"
            );
        }
    }
}
