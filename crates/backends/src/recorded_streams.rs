//! Feeds recorded output of vendors' programs to the readers, cut and mutated: no reader panics, and
//! none reports success for a stream without its terminal event, whatever the exit code says.

mod expected_ends;

use std::path::{Path, PathBuf};

use domain::run::{AgentEnd, RunSpec, StdStream};
use serde_json::Value;

use crate::contract::{AgentReport, Conclusion, Exit, OutputReader, PermissionDecision};
use crate::{registry, stream_buffer, test_fixtures};

/// How many mutated streams are tried over all backends.
const MUTATIONS: usize = 40_000;

/// How many streams with noise are tried for each backend.
const NOISES: usize = 300;

/// Separates the two streams in the recordings of a program that writes for people.
const STREAM_SEPARATOR: u8 = 0x1e;

/// A program with recorded streams, and how it signals success.
struct RecordedProgram {
    kind: &'static str,
    folder: &'static str,
    /// Returns whether a line is the vendor's terminal event of a success; for a program that writes for people,
    /// whether the error stream has it.
    succeeds: fn(&Value) -> bool,
}

const PROGRAMS: [RecordedProgram; 19] = [
    RecordedProgram {
        kind: "claude",
        folder: "claude",
        succeeds: |line| {
            line["type"] == "result" && line["subtype"] == "success" && line["is_error"] == false
        },
    },
    RecordedProgram {
        kind: "codex",
        folder: "codex-app-server",
        succeeds: |line| {
            line["method"] == "turn/completed" && line["params"]["turn"]["status"] == "completed"
        },
    },
    RecordedProgram {
        kind: "gemini",
        folder: "gemini",
        succeeds: |line| line["type"] == "result" && line["status"] == "success",
    },
    RecordedProgram {
        kind: "copilot",
        folder: "copilot",
        succeeds: |line| line["type"] == "result" && line["exitCode"] == 0,
    },
    RecordedProgram {
        kind: "qwen",
        folder: "qwen",
        succeeds: |line| {
            line["type"] == "result" && line["subtype"] == "success" && line["is_error"] == false
        },
    },
    RecordedProgram {
        kind: "opencode",
        folder: "opencode",
        succeeds: |line| line["type"] == "step_finish" && line["part"]["reason"] == "stop",
    },
    RecordedProgram {
        kind: "kimi",
        folder: "kimi",
        succeeds: |line| line["role"] == "meta" && line["type"] == "session.resume_hint",
    },
    RecordedProgram { kind: "goose", folder: "goose", succeeds: |line| line["type"] == "complete" },
    RecordedProgram {
        kind: "cursor",
        folder: "cursor",
        succeeds: |line| {
            line["type"] == "result" && line["subtype"] == "success" && line["is_error"] == false
        },
    },
    RecordedProgram {
        kind: "grok",
        folder: "grok",
        // Older versions write it in one word.
        succeeds: |line| {
            let reason = line["stopReason"].as_str().unwrap_or_default();
            line["type"] == "end" && reason.replace('_', "").eq_ignore_ascii_case("endturn")
        },
    },
    RecordedProgram {
        kind: "kiro",
        folder: "kiro",
        succeeds: |part| {
            part.as_str().is_some_and(|text| stream_buffer::strip_ansi(text).contains("Credits:"))
        },
    },
    RecordedProgram { kind: "acp-claude", folder: "acp-claude", succeeds: ends_turn },
    RecordedProgram { kind: "acp-codex", folder: "acp-codex", succeeds: ends_turn },
    RecordedProgram { kind: "acp-copilot", folder: "acp-copilot", succeeds: ends_turn },
    RecordedProgram { kind: "acp-gemini", folder: "acp-gemini", succeeds: ends_turn },
    RecordedProgram { kind: "acp-goose", folder: "acp-goose", succeeds: ends_turn },
    RecordedProgram { kind: "acp-kimi", folder: "acp-kimi", succeeds: ends_turn },
    RecordedProgram { kind: "acp-opencode", folder: "acp-opencode", succeeds: ends_turn },
    RecordedProgram { kind: "acp-qwen", folder: "acp-qwen", succeeds: ends_turn },
];

/// How all agents that speak ACP signal success.
fn ends_turn(line: &Value) -> bool {
    line["result"]["stopReason"] == "end_turn"
}

/// One recorded run: its standard output, and also its error stream if that ends it.
struct RecordedCase {
    name: String,
    stream: Vec<u8>,
}

impl RecordedProgram {
    fn for_kind(kind: &str) -> &'static Self {
        PROGRAMS.iter().find(|recorded| recorded.kind == kind).expect("a recorded program")
    }

    fn folder(&self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/streams").join(self.folder)
    }

    fn file(&self, case: &str) -> PathBuf {
        self.folder().join(format!("{case}.{}", if self.kind == "kiro" { "txt" } else { "jsonl" }))
    }

    /// Returns the names of all recorded runs.
    fn names(&self) -> Vec<String> {
        let files = std::fs::read_dir(self.folder()).expect("a folder of recordings");
        let paths = files.map(|file| file.unwrap().path());
        let names = paths.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()));
        let mut names: Vec<String> = names.filter(|name| self.file(name).exists()).collect();
        names.sort();
        names
    }

    /// Returns the recorded runs that wrote something.
    fn cases(&self) -> Vec<RecordedCase> {
        let read = |name: String| RecordedCase { stream: std::fs::read(self.file(&name)).unwrap(), name };
        self.names().into_iter().map(read).filter(|case| !case.stream.is_empty()).collect()
    }

    fn reader(&self, case: &str, schema: Option<Value>) -> Box<dyn OutputReader> {
        let mut spec: RunSpec = test_fixtures::spec(self.kind);
        spec.setup.output_schema = schema;
        let resumes = case.contains("resume") || case.contains("unknown-session");
        // Only these use the id to tell which messages belong to a conversation.
        if resumes && (self.kind == "codex" || self.kind.starts_with("acp-")) {
            spec.session = Some("00000000-0000-4000-8000-000000000001".parse().unwrap());
        }
        let backend = registry::by_kind(self.kind).expect("a backend");
        let found = test_fixtures::located_program(&[self.kind]);
        let launch =
            test_fixtures::process_launch_in(backend, &test_fixtures::launch_context(Some(&found)), &spec);
        launch.expect("a run that can be prepared").reader
    }

    /// Returns whether the program writes for people, on two streams that are recorded one after the other.
    fn is_for_people(&self) -> bool {
        self.kind == "kiro"
    }

    /// Splits a recording into its streams.
    fn parts<'a>(&self, stream: &'a [u8]) -> Vec<(StdStream, &'a [u8])> {
        match stream.iter().position(|byte| *byte == STREAM_SEPARATOR).filter(|_| self.is_for_people()) {
            Some(end) => vec![(StdStream::Stdout, &stream[..end]), (StdStream::Stderr, &stream[end + 1..])],
            None => vec![(StdStream::Stdout, stream)],
        }
    }

    /// Reads a stream in chunks of this size, and returns whether it counts as a success.
    fn is_success(&self, case: &str, stream: &[u8], piece: usize) -> bool {
        let mut reader = self.reader(case, None);
        self.feed(&mut *reader, case, stream, piece);
        reader.conclude(Exit::Code(0)).end == AgentEnd::Done
    }

    /// Feeds a stream to a reader in chunks, and denies every permission request.
    fn feed(&self, reader: &mut dyn OutputReader, case: &str, stream: &[u8], piece: usize) {
        let parts = self.parts(stream).into_iter();
        let pieces = parts.flat_map(|(pipe, part)| part.chunks(piece.max(1)).map(move |bytes| (pipe, bytes)));
        for (pipe, bytes) in pieces {
            let stored = reader.redact(pipe, bytes).into_owned();
            assert!(stored.len() <= stream.len() + 4096, "{case}: more is kept than was written");
            for report in reader.feed(pipe, bytes) {
                if let AgentReport::PermissionRequested(ask) = report {
                    reader.decide(&ask.id, &PermissionDecision::Deny("no".to_owned()));
                }
            }
        }
    }

    /// Returns whether a stream has the terminal event of a success.
    fn has_success(&self, stream: &[u8]) -> bool {
        if self.is_for_people() {
            let text = |part: &[u8]| Value::from(String::from_utf8_lossy(part));
            return self.parts(stream).iter().any(|(_, part)| (self.succeeds)(&text(part)));
        }
        let lines = stream.split(|byte| *byte == b'\n');
        lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok()).any(|line| (self.succeeds)(&line))
    }

    #[track_caller]
    fn check(&self, case: &str, stream: &[u8], piece: usize) {
        if self.is_success(case, stream, piece) && !self.has_success(stream) {
            panic!("{} {case} succeeded without its end: {}", self.kind, String::from_utf8_lossy(stream));
        }
    }
}

/// Returns the conclusion of a recorded run, with its error stream and exit code if they were recorded.
pub(crate) fn replay(kind: &str, case: &str) -> Conclusion {
    let recorded = RecordedProgram::for_kind(kind);
    let stream = std::fs::read(recorded.file(case)).expect("a recorded case");
    let metadata = std::fs::read_to_string(recorded.folder().join("cases.json")).unwrap_or_default();
    let metadata: Value = serde_json::from_str(&metadata).unwrap_or_default();
    let mut reader = recorded.reader(case, None);
    recorded.feed(&mut *reader, case, &stream, usize::MAX);
    if recorded.parts(&stream).len() == 1 {
        let stderr = metadata[case]["stderr"].as_str().unwrap_or_default();
        reader.feed(StdStream::Stderr, stderr.as_bytes());
    }
    let code = i32::try_from(metadata[case]["exit"].as_i64().unwrap_or(0)).expect("a small number");
    reader.conclude(if code < 0 { Exit::Signal(-code) } else { Exit::Code(code) })
}

/// A small random generator with a fixed sequence, so that a failure can be reproduced.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % (bound.max(1) as u64)).expect("below a size")
    }
}

/// Mutates a stream once: a byte, a chunk, a line, a value, or its end.
fn mutate(stream: &mut Vec<u8>, other: &[u8], numbers: &mut Numbers) {
    let at = numbers.below(stream.len());
    let until = (at + 1 + numbers.below(64)).min(stream.len());
    match numbers.below(10) {
        0 | 1 => stream.iter_mut().skip(at).take(1).for_each(|byte| *byte = numbers.next() as u8),
        2 => stream.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << numbers.below(8)),
        3 => drop(stream.drain(at..until)),
        4 => {
            let piece = stream[at..until].to_vec();
            stream.splice(at..at, piece);
        }
        5 => {
            let from = numbers.below(other.len());
            let piece = other[from..(from + 64).min(other.len())].to_vec();
            stream.splice(at..until, piece);
        }
        6 => swap_lines(stream, numbers),
        7 => drop_line(stream, numbers),
        8 => replace_value(stream, at, numbers),
        _ => stream.truncate(at),
    }
}

fn split_lines(stream: &[u8]) -> Vec<Vec<u8>> {
    stream.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
}

fn swap_lines(stream: &mut Vec<u8>, numbers: &mut Numbers) {
    let mut lines = split_lines(stream);
    if !lines.is_empty() {
        let (one, two) = (numbers.below(lines.len()), numbers.below(lines.len()));
        lines.swap(one, two);
    }
    *stream = lines.concat();
}

fn drop_line(stream: &mut Vec<u8>, numbers: &mut Numbers) {
    let mut lines = split_lines(stream);
    if !lines.is_empty() {
        lines.remove(numbers.below(lines.len()));
    }
    *stream = lines.concat();
}

/// Puts something of another type where a value begins.
fn replace_value(stream: &mut Vec<u8>, from: usize, numbers: &mut Numbers) {
    const VALUES: [&[u8]; 8] =
        [b"null", b"true", b"-1", b"1e308", b"18446744073709551616", b"[]", b"{}", b"\"\\ud83d\\ude00\""];
    let Some(colon) = stream[from..].iter().position(|byte| *byte == b':') else { return };
    let start = from + colon + 1;
    let length = stream[start..].iter().position(|byte| b",}\n".contains(byte)).unwrap_or(0);
    stream.splice(start..start + length, VALUES[numbers.below(VALUES.len())].iter().copied());
}

/// How many trailing lines of a stream are cut at every byte: they hold the terminal event.
const LINES_CUT_AT_EVERY_BYTE: usize = 2;

/// How many cuts lie within each of the other lines.
const CUTS_WITHIN_A_LINE: usize = 5;

/// Returns where a stream is cut: before each line, at a few bytes within it, and at every byte of the last lines. A reader
/// parses whole lines, so most cuts within one line are alike, and each cut costs as much as everything before it.
fn cuts(stream: &[u8]) -> Vec<usize> {
    let lines: Vec<&[u8]> = stream.split_inclusive(|byte| *byte == b'\n').collect();
    let mut cuts = Vec::new();
    let mut start = 0;
    for (number, line) in lines.iter().enumerate() {
        if number + LINES_CUT_AT_EVERY_BYTE >= lines.len() {
            cuts.extend(start..start + line.len());
        } else {
            let within =
                (1..=CUTS_WITHIN_A_LINE).map(|cut| start + line.len() * cut / (CUTS_WITHIN_A_LINE + 1));
            // The last byte of a line is its line break: without it the line is whole and still not complete.
            cuts.extend([start, start + line.len() - 1]);
            cuts.extend(within);
        }
        start += line.len();
    }
    cuts
}

fn survives_every_cut(kind: &str) {
    let recorded = RecordedProgram::for_kind(kind);
    let mut succeeded = 0;
    for case in recorded.cases() {
        // An incomplete line is at most its own beginning, so chunks need not be small here.
        for end in cuts(&case.stream) {
            recorded.check(&case.name, &case.stream[..end], usize::MAX);
        }
        succeeded += usize::from(recorded.is_success(&case.name, &case.stream, usize::MAX));
    }
    assert!(succeeded >= 2, "{kind}: hardly any recording succeeds, so this test proves nothing");
}

fn survives_every_change(kind: &str) {
    let recorded = RecordedProgram::for_kind(kind);
    let cases = recorded.cases();
    let mut numbers = Numbers(kind.len() as u64);
    let mut successes = 0_usize;
    for _ in 0..MUTATIONS / PROGRAMS.len() + 1 {
        let case = &cases[numbers.below(cases.len())];
        let other = &cases[numbers.below(cases.len())];
        let mut stream = case.stream.clone();
        for _ in 0..=numbers.below(3) {
            if !stream.is_empty() {
                mutate(&mut stream, &other.stream, &mut numbers);
            }
        }
        let piece = if numbers.below(4) == 0 { 1 + numbers.below(200) } else { usize::MAX };
        recorded.check(&case.name, &stream, piece);
        successes += usize::from(recorded.has_success(&stream));
    }
    assert!(
        successes > 100,
        "{kind}: hardly any stream kept its end, so this test proves little: {successes}"
    );
}

/// Nothing panics on noise before and instead of events, also if the answer must be a value.
fn survives_noise(kind: &str) {
    let recorded = RecordedProgram::for_kind(kind);
    let cases = recorded.cases();
    let mut numbers = Numbers(kind.len() as u64);
    for _ in 0..NOISES {
        let case = &cases[numbers.below(cases.len())];
        let mut stream: Vec<u8> = (0..numbers.below(200)).map(|_| numbers.next() as u8).collect();
        let mut events = case.stream.clone();
        mutate(&mut events, &case.stream, &mut numbers);
        stream.push(b'\n');
        stream.append(&mut events);
        let mut reader = recorded.reader(&case.name, Some(serde_json::json!({"type": "object"})));
        recorded.feed(&mut *reader, &case.name, &stream, 1 + numbers.below(4096));
        let ended = reader.conclude(Exit::Code(i32::from(numbers.next() as u8))).end;
        assert!(ended != AgentEnd::Done || recorded.has_success(&stream), "{kind} {}", case.name);
    }
}

macro_rules! for_each_program {
    ($($name:ident: $kind:literal,)*) => {
        mod cut { $(#[test] fn $name() { super::survives_every_cut($kind); })* }
        mod ended { $(#[test] fn $name() { super::expected_ends::check($kind); })* }
        mod noisy { $(#[test] fn $name() { super::survives_noise($kind); })* }
        mod changed { $(#[test] fn $name() { super::survives_every_change($kind); })* }
    };
}

#[test]
fn every_backend_of_a_vendors_program_takes_part() {
    // These use the reader of `claude`.
    let recorded = |kind: &str| {
        ["glm", "claude-kimi"].contains(&kind) || PROGRAMS.iter().any(|recorded| recorded.kind == kind)
    };
    // Backends that share a program also share the reader of all ACP agents.
    let own = registry::program_backends().filter(|vendor| vendor.same_program_as.is_none());
    let missing: Vec<&str> = own.map(|vendor| vendor.backend).filter(|kind| !recorded(kind)).collect();
    assert_eq!(missing, Vec::<&str>::new());
}

for_each_program! {
    claude: "claude",
    codex: "codex",
    gemini: "gemini",
    copilot: "copilot",
    qwen: "qwen",
    opencode: "opencode",
    goose: "goose",
    kimi: "kimi",
    cursor: "cursor",
    grok: "grok",
    kiro: "kiro",
    acp_claude: "acp-claude",
    acp_codex: "acp-codex",
    acp_copilot: "acp-copilot",
    acp_gemini: "acp-gemini",
    acp_goose: "acp-goose",
    acp_kimi: "acp-kimi",
    acp_opencode: "acp-opencode",
    acp_qwen: "acp-qwen",
}
