//! Recognises errors of the model in messages of programs that have no field for them.

use domain::run::ModelError;

/// Phrases with one meaning, in lower case. The codes in brackets are those of Connect, which Cursor uses.
const PHRASES: [(&str, ModelError); 20] = [
    ("[unauthenticated]", ModelError::Denied),
    ("[permission_denied]", ModelError::Denied),
    ("[resource_exhausted]", ModelError::RateLimit),
    ("[unavailable]", ModelError::Overloaded),
    ("[aborted]", ModelError::Unreachable),
    ("[deadline_exceeded]", ModelError::Unreachable),
    ("[invalid_argument]", ModelError::BadRequest),
    ("[internal]", ModelError::Other),
    ("[unknown]", ModelError::Other),
    ("authentication required", ModelError::Denied),
    ("authentication failed", ModelError::Denied),
    ("not authenticated", ModelError::Denied),
    ("not logged in", ModelError::Denied),
    ("api key is invalid", ModelError::Denied),
    ("invalid api key", ModelError::Denied),
    ("rate limit", ModelError::RateLimit),
    ("usage limit", ModelError::RateLimit),
    ("quota", ModelError::RateLimit),
    ("network error", ModelError::Unreachable),
    ("dispatch failure", ModelError::Unreachable),
];
/// The words before a status code, so that no other number is taken for one.
const BEFORE_STATUS: [&str; 4] = ["status code ", "status ", "status: ", "http "];

/// Returns the model error that a message describes; `None` if it is about something else.
pub(crate) fn classify(message: &str) -> Option<ModelError> {
    let text = message.to_lowercase();
    let status = BEFORE_STATUS.iter().find_map(|before| {
        let digits: String = text.split_once(before)?.1.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok().filter(|status| (400..600).contains(status))
    });
    let by_phrase = || PHRASES.iter().find(|(words, _)| text.contains(words)).map(|(_, error)| *error);
    status.map(ModelError::from_http_status).or_else(by_phrase)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_statuses_and_phrases_are_recognised_and_other_messages_are_not() {
        let cases = [
            ("ConnectError: [unauthenticated] Error", Some(ModelError::Denied)),
            ("ConnectError: [resource_exhausted] Error", Some(ModelError::RateLimit)),
            ("API error (status 429): slow down", Some(ModelError::RateLimit)),
            ("HTTP 401 Unauthorized", Some(ModelError::Denied)),
            ("Error: Authentication required. Please run 'agent login' first", Some(ModelError::Denied)),
            ("dispatch failure: the connection was lost", Some(ModelError::Unreachable)),
            ("error: unknown option '--frce'", None),
            ("exited with status 1", None),
            ("I counted 429 herons", None),
        ];
        for (message, expected) in cases {
            assert_eq!(classify(message), expected, "{message}");
        }
    }
}
