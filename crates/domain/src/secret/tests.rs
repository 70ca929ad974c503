//! No secret passes, however the stream is split.

use proptest::prelude::*;

use super::{Redactor, Secret, StreamRedactor};

#[test]
fn a_secret_never_prints_itself() {
    let secret = Secret::new("hunter2-hunter2");
    assert_eq!(format!("{secret} {secret:?}"), "[redacted] [redacted]");
    let redactor = Redactor::new(vec![secret, Secret::new("short")]);
    assert_eq!(redactor.redact("a hunter2-hunter2 short"), "a [redacted] short");
}

proptest! {
    #[test]
    fn a_stream_is_masked_like_the_whole_text(
        text in "(x|abcdefgh|abcdabcdefghij|abcd|\n){0,12}",
        cuts in proptest::collection::vec(0_usize..80, 0..6),
    ) {
        let secrets = vec![Secret::new("abcdefgh"), Secret::new("abcdefghij")];
        let redactor = Redactor::new(secrets);
        let mut stream = StreamRedactor::new(&redactor);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
        cuts.sort_unstable();
        let mut out = Vec::new();
        let mut from = 0;
        for cut in cuts {
            out.extend(stream.feed(&text.as_bytes()[from..cut]));
            from = cut;
        }
        out.extend(stream.feed(&text.as_bytes()[from..]));
        out.extend(stream.finish());
        let out = String::from_utf8(out).unwrap();
        prop_assert!(!out.contains("abcdefgh"), "{out}");
        prop_assert_eq!(out.replace("[redacted]", "").contains("abcdefgh"), false);
    }
}
