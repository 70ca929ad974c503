//! What programs say about their model in words, where they have no field for it.

use domain::run::ModelError;

/// Words that mean one thing, in lower case. The codes in brackets are those of Connect, which Cursor speaks.
const WORDS: [(&str, ModelError); 20] = [
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
/// What stands before the number of a status, so that no other number is taken for one.
const BEFORE_STATUS: [&str; 4] = ["status code ", "status ", "status: ", "http "];

/// Returns what a message says about the model; nothing if it speaks of something else.
pub(crate) fn model_error(message: &str) -> Option<ModelError> {
    let text = message.to_lowercase();
    let status = BEFORE_STATUS.iter().find_map(|before| {
        let digits: String = text.split_once(before)?.1.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok().filter(|status| (400..600).contains(status))
    });
    let worded = || WORDS.iter().find(|(words, _)| text.contains(words)).map(|(_, error)| *error);
    status.map(ModelError::of_status).or_else(worded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_statuses_and_words_are_understood_and_other_messages_are_not() {
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
            assert_eq!(model_error(message), expected, "{message}");
        }
    }
}
