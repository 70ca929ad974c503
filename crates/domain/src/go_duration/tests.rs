//! Durations in the syntax of Go: parsing and formatting.

use proptest::prelude::*;

use super::{MAX, display, display_ms, parse, parse_ms};

#[test]
fn durations_are_written_as_go_writes_them() {
    for (ms, text) in [
        (0, "0s"),
        (1, "1ms"),
        (1_500, "1.5s"),
        (15_300, "15.3s"),
        (60_000, "1m0s"),
        (600_000, "10m0s"),
        (3_600_000, "1h0m0s"),
        (5_400_250, "1h30m0.25s"),
    ] {
        assert_eq!(display_ms(ms), text);
    }
    assert_eq!(
        (display(1), display(1_100), display(2_200_000)),
        ("1ns".into(), "1.1\u{b5}s".into(), "2.2ms".into())
    );
}

#[test]
fn durations_that_go_reads_are_read() {
    for (text, ms) in [
        ("0", 0),
        ("5m", 300_000),
        ("10m0s", 600_000),
        ("1h30m", 5_400_000),
        ("1.5h", 5_400_000),
        (".5s", 500),
        ("5.s", 5_000),
        ("+90s", 90_000),
        ("250ms", 250),
        ("2000us", 2),
        ("2000\u{b5}s", 2),
        ("2000\u{3bc}s", 2),
        ("1m1m", 120_000),
        ("0.100000000000000000000s", 100),
    ] {
        assert_eq!(parse_ms(text), Ok(ms), "{text}");
    }
}

#[test]
fn durations_that_go_refuses_are_refused_with_an_example() {
    for text in [
        "",
        "5",
        "m",
        "-5m",
        "5 m",
        "5x",
        "1d",
        ".s",
        "+",
        "1.2.3s",
        "3000000h",
        "99999999999999999999s",
        "\u{b5}",
    ] {
        let error = parse(text).unwrap_err();
        assert!(error.contains("is not a duration; write for example 30s"), "{text}: {error}");
    }
}

proptest! {
    #[test]
    fn a_written_duration_reads_back(nanoseconds in 0..=MAX) {
        prop_assert_eq!(parse(&display(nanoseconds)), Ok(nanoseconds));
    }

    #[test]
    fn a_short_written_duration_reads_back(nanoseconds in 0..10_000_000_000_u64) {
        prop_assert_eq!(parse(&display(nanoseconds)), Ok(nanoseconds));
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,24}") {
        let _ = parse(&text);
    }
}
