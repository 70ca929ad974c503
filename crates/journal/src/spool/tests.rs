//! A spool stores beginning and end within its limit, and offsets stay correct.

use std::fs;
use std::os::unix::fs::MetadataExt;

use domain::run::StdStream;
use proptest::prelude::*;

use super::{SpoolReader, SpoolWrite, SpoolWriter};
use crate::durable::Faults;
use crate::fixtures::{TestHome, spec};
use crate::run_dir::RunDir;
use crate::store_error::StoreError;

const MAX: u64 = 4096;

fn disk_bytes(dir: &RunDir) -> u64 {
    let sizes = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap());
    let spools = sizes.filter(|entry| entry.file_name().to_str().unwrap().starts_with("stdout"));
    spools.map(|entry| entry.metadata().unwrap().len()).sum()
}

/// The byte of the stream at an offset.
fn byte(offset: u64) -> u8 {
    b'a' + u8::try_from(offset % 23).unwrap()
}

fn stream(from: u64, length: u64) -> Vec<u8> {
    (from..from + length).map(byte).collect()
}

/// Reads all stored bytes, page by page, and checks each byte against its offset.
fn read_all(reader: &SpoolReader, page_bytes: usize) -> (u64, u64) {
    let (mut offset, mut retained, mut omitted) = (0, 0, 0);
    loop {
        let page = reader.read(offset, page_bytes).unwrap();
        assert_eq!(page.start, offset + page.omitted);
        assert_eq!(page.bytes, stream(page.start, page.bytes.len() as u64));
        assert_eq!(page.marker.is_some(), page.omitted > 0);
        if page.bytes.is_empty() {
            assert_eq!(page.next_offset, offset);
            return (retained, omitted);
        }
        retained += page.bytes.len() as u64;
        omitted += page.omitted;
        offset = page.next_offset;
    }
}

#[test]
fn a_small_stream_is_one_private_file() {
    let test = TestHome::new();
    let run = test.run();
    let reader = SpoolReader::new(&run.dir, StdStream::Stdout);
    assert_eq!(reader.total_bytes().unwrap(), 0);
    assert_eq!(reader.tail(10).unwrap(), b"");
    let mut spool = SpoolWriter::create(&run.dir, StdStream::Stdout, MAX).unwrap();
    assert_eq!(spool.write(b"hello\nworld\n").unwrap(), SpoolWrite::Stored);
    assert_eq!(fs::read(run.dir.path().join("stdout")).unwrap(), b"hello\nworld\n");
    assert_eq!(fs::metadata(run.dir.path().join("stdout")).unwrap().mode() & 0o777, 0o600);
    assert_eq!(reader.total_bytes().unwrap(), 12);
    assert_eq!(reader.tail(6).unwrap(), b"world\n");
    assert_eq!(reader.read(6, 3).unwrap().bytes, b"wor");
    assert_eq!(reader.read(99, 3).unwrap().next_offset, 12);
    assert_eq!(SpoolReader::new(&run.dir, StdStream::Stderr).total_bytes().unwrap(), 0);
}

#[test]
fn exactly_the_bound_is_stored_whole_and_one_more_begins_truncation_once() {
    let test = TestHome::new();
    let run = test.run();
    let mut spool = SpoolWriter::create(&run.dir, StdStream::Stdout, MAX).unwrap();
    let reader = SpoolReader::new(&run.dir, StdStream::Stdout);
    assert_eq!(spool.write(&stream(0, MAX)).unwrap(), SpoolWrite::Stored);
    assert_eq!(read_all(&reader, 1000), (MAX, 0));
    assert_eq!(spool.write(&stream(MAX, 1)).unwrap(), SpoolWrite::TruncationBegan { retained_bytes: MAX });
    assert_eq!(read_all(&reader, 1000), (MAX * 3 / 4 + 1, MAX / 4));
    for step in 0..20 {
        assert_eq!(spool.write(&stream(MAX + 1 + step * 700, 700)).unwrap(), SpoolWrite::Stored);
        assert!(disk_bytes(&run.dir) <= MAX + 100);
    }
    assert_eq!(spool.total_bytes(), reader.total_bytes().unwrap());
}

#[test]
fn omitted_bytes_show_as_a_line() {
    let test = TestHome::new();
    let run = test.run();
    let mut spool = SpoolWriter::create(&run.dir, StdStream::Stdout, MAX).unwrap();
    spool.write(&stream(0, MAX * 3)).unwrap();
    let reader = SpoolReader::new(&run.dir, StdStream::Stdout);
    let mut whole = Vec::new();
    let copied = reader.copy_to(&mut whole).unwrap();
    assert_eq!(copied, whole.len() as u64);
    let omitted = MAX * 3 - reader.retained_bytes().unwrap();
    let expected = [
        stream(0, MAX / 2),
        format!("\n[volery: {omitted} bytes omitted]\n").into_bytes(),
        stream(MAX / 2 + omitted, MAX * 3 - MAX / 2 - omitted),
    ];
    assert_eq!(whole, expected.concat());
    // A slow follower learns how many bytes it missed and continues after them.
    let page = reader.read(MAX, 10).unwrap();
    assert_eq!(page.omitted, MAX / 2 + omitted - MAX);
    assert_eq!(page.start, MAX / 2 + omitted);
    let marker = format!("\n[volery: {} bytes omitted]\n", page.omitted);
    assert!(page.render().starts_with(marker.as_bytes()));
    assert_eq!(reader.tail(100).unwrap(), stream(MAX * 3 - 100, 100));
}

#[test]
fn the_marker_does_not_break_a_line_that_had_ended() {
    let test = TestHome::new();
    let run = test.run();
    let mut spool = SpoolWriter::create(&run.dir, StdStream::Stdout, MAX).unwrap();
    for _ in 0..MAX {
        spool.write(b"1234567\n").unwrap();
    }
    let mut whole = Vec::new();
    SpoolReader::new(&run.dir, StdStream::Stdout).copy_to(&mut whole).unwrap();
    let whole = String::from_utf8(whole).unwrap();
    assert!(whole.contains("1234567\n[volery: "), "{whole}");
    assert!(!whole.contains("\n\n"));
}

#[test]
fn a_later_epoch_goes_on_where_the_stream_was() {
    for written in [0, 10, MAX / 2, MAX / 2 + 10, MAX, MAX * 5 + 17] {
        let test = TestHome::new();
        let run = test.run();
        let mut spool = SpoolWriter::create(&run.dir, StdStream::Stdout, MAX).unwrap();
        spool.write(&stream(0, written)).unwrap();
        drop(spool);
        let mut again = SpoolWriter::open_append(&run.dir, StdStream::Stdout, MAX).unwrap();
        assert_eq!(again.total_bytes(), written);
        let wrote = again.write(&stream(written, MAX * 2)).unwrap();
        let began_truncation = matches!(wrote, SpoolWrite::TruncationBegan { .. });
        assert_eq!(
            began_truncation,
            written <= MAX,
            "truncation is told once, also across epochs ({written})"
        );
        let reader = SpoolReader::new(&run.dir, StdStream::Stdout);
        assert_eq!(reader.total_bytes().unwrap(), written + MAX * 2);
        read_all(&reader, 333);
    }
}

#[test]
fn a_new_spool_replaces_an_old_one() {
    let test = TestHome::new();
    let run = test.run();
    SpoolWriter::create(&run.dir, StdStream::Stdout, MAX).unwrap().write(&stream(0, MAX * 2)).unwrap();
    SpoolWriter::create(&run.dir, StdStream::Stdout, MAX).unwrap();
    assert_eq!(SpoolReader::new(&run.dir, StdStream::Stdout).total_bytes().unwrap(), 0);
}

#[test]
fn a_hundred_megabytes_pass_through_a_bound_of_one() {
    let test = TestHome::new();
    let run = test.run();
    let bound = 1 << 20;
    let mut spool = SpoolWriter::create(&run.dir, StdStream::Stdout, bound).unwrap();
    let chunk = stream(0, 23 * 2850);
    let mut began = 0;
    while spool.total_bytes() < 100 << 20 {
        began += u32::from(spool.write(&chunk).unwrap() != SpoolWrite::Stored);
    }
    assert_eq!(began, 1);
    assert!(disk_bytes(&run.dir) <= bound + 100);
    let reader = SpoolReader::new(&run.dir, StdStream::Stdout);
    let (retained, omitted) = read_all(&reader, 1 << 16);
    assert_eq!(retained + omitted, spool.total_bytes());
    assert!(retained >= bound * 3 / 4, "{retained}");
}

#[test]
fn a_torn_tail_is_left_out() {
    let test = TestHome::new();
    let run = test.run();
    let mut spool = SpoolWriter::create(&run.dir, StdStream::Stdout, MAX).unwrap();
    spool.write(&stream(0, MAX)).unwrap();
    fs::write(run.dir.path().join("stdout.tail0"), [0; 100]).unwrap();
    let reader = SpoolReader::new(&run.dir, StdStream::Stdout);
    assert_eq!(read_all(&reader, 1000), (MAX * 3 / 4, MAX / 4));
}

#[test]
fn a_full_disk_stops_the_spool_and_keeps_what_is_there() {
    let test = TestHome::new();
    let spec_bytes = serde_json::to_vec(&spec(1)).unwrap().len() as u64 + 1;
    let home = test.broken(Faults { bytes_before_full: Some(spec_bytes + 100), ..Faults::default() });
    let run = home.create_run(&spec(1)).unwrap();
    let mut spool = SpoolWriter::create(&run.dir, StdStream::Stdout, MAX).unwrap();
    spool.write(&stream(0, 90)).unwrap();
    assert_eq!(spool.write(&stream(90, 90)).unwrap_err().unwritable(), Some(crate::Unwritable::Full));
    assert!(matches!(spool.write(b"x"), Err(StoreError::Poisoned { .. })));
    assert_eq!(read_all(&SpoolReader::new(&run.dir, StdStream::Stdout), 1000), (100, 0));
}

#[test]
fn a_concurrent_reader_sees_true_bytes_only() {
    let test = TestHome::new();
    let run = test.run();
    let mut spool = SpoolWriter::create(&run.dir, StdStream::Stdout, MAX).unwrap();
    let total = MAX * 200;
    let reader = SpoolReader::new(&run.dir, StdStream::Stdout);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while spool.total_bytes() < total {
                let chunk = stream(spool.total_bytes(), 97);
                spool.write(&chunk).unwrap();
            }
        });
        let mut offset = 0;
        while offset < total {
            let page = reader.read(offset, 500).unwrap();
            assert_eq!(page.bytes, stream(page.start, page.bytes.len() as u64));
            assert!(page.next_offset >= offset);
            offset = page.next_offset;
        }
    });
}

#[test]
fn whatever_is_written_the_spool_is_bounded_and_true() {
    let test = TestHome::new();
    let run = test.run();
    let pieces = prop::collection::vec((0_u64..9_000, any::<bool>()), 0..20);
    proptest!(ProptestConfig::with_cases(64), |(
        bound in 4096_u64..20_000,
        pieces in pieces,
        page_bytes in 100_usize..5_000,
    )| {
        let mut spool = SpoolWriter::create(&run.dir, StdStream::Stdout, bound).unwrap();
        let reader = SpoolReader::new(&run.dir, StdStream::Stdout);
        let mut began = 0;
        for (length, reopened) in pieces {
            if reopened {
                spool = SpoolWriter::open_append(&run.dir, StdStream::Stdout, bound).unwrap();
            }
            let wrote = spool.write(&stream(spool.total_bytes(), length)).unwrap();
            began += u32::from(wrote != SpoolWrite::Stored);
            prop_assert!(disk_bytes(&run.dir) <= bound + 100);
        }
        let total = spool.total_bytes();
        prop_assert_eq!(reader.total_bytes().unwrap(), total);
        let (retained, omitted) = read_all(&reader, page_bytes);
        prop_assert_eq!(retained + omitted, total);
        prop_assert_eq!(began, u32::from(total > bound / 2 + 2 * (bound / 4)));
        prop_assert_eq!(omitted > 0, began > 0);
        if omitted > 0 {
            prop_assert!(retained >= bound / 2 + bound / 4 - 1);
        }
    });
}

#[test]
fn output_of_an_earlier_attempt_is_not_part_of_the_next_stream() {
    let test = TestHome::new();
    let dir = test.run().dir;
    SpoolWriter::create(&dir, StdStream::Stdout, MAX).unwrap().write(b"first").unwrap();
    SpoolWriter::archive_attempt(&dir, StdStream::Stdout, 1).unwrap();
    SpoolWriter::archive_attempt(&dir, StdStream::Stderr, 1).unwrap();
    assert_eq!(SpoolReader::new(&dir, StdStream::Stdout).tail(99).unwrap(), b"");
    SpoolWriter::create(&dir, StdStream::Stdout, MAX).unwrap().write(b"second").unwrap();
    assert_eq!(SpoolReader::new(&dir, StdStream::Stdout).tail(99).unwrap(), b"second");
    assert_eq!(fs::read(dir.path().join("stdout.attempt1")).unwrap(), b"first");
}
