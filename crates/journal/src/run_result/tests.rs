//! An answer of any size and content is stored and read in pages.

use std::fs;
use std::os::unix::fs::MetadataExt;

use domain::run::{ResultText, StdStream};
use proptest::prelude::*;

use super::{INLINE_BYTES_MAX, ResultPage, ResultSource, read_result, store_result};
use crate::durable::Faults;
use crate::fixtures::{TestHome, spec};
use crate::run_dir::RunDir;
use crate::spool::SpoolWriter;

fn read_pages(dir: &RunDir, result: &ResultText, max: usize) -> String {
    let (mut text, mut offset) = (String::new(), 0);
    loop {
        let page = read_result(dir, result, offset, max).unwrap();
        text.push_str(&page.text);
        match page.next_offset {
            Some(next) => {
                assert!(next > offset, "each page goes on");
                offset = next;
            }
            None => return text,
        }
    }
}

fn store_spooled(dir: &RunDir, bytes: &[u8], max: u64) -> ResultText {
    SpoolWriter::create(dir, StdStream::Stdout, max).unwrap().write(bytes).unwrap();
    store_result(dir, ResultSource::Spool(StdStream::Stdout)).unwrap()
}

fn delete_spools(dir: &RunDir) {
    for entry in fs::read_dir(dir.path()).unwrap() {
        let entry = entry.unwrap();
        if entry.file_name().to_str().unwrap().starts_with("stdout") {
            fs::remove_file(entry.path()).unwrap();
        }
    }
}

#[test]
fn a_small_text_stands_in_the_ending() {
    let test = TestHome::new();
    let dir = test.run().dir;
    let text = "ä".repeat(INLINE_BYTES_MAX / 2);
    let result = store_result(&dir, ResultSource::Bytes(text.as_bytes())).unwrap();
    assert_eq!(result, ResultText::Inline(text.clone()));
    assert!(!dir.result_path().exists());
    assert_eq!(read_pages(&dir, &result, 1001), text);
    assert_eq!(store_result(&dir, ResultSource::Bytes(b"")).unwrap(), ResultText::Nothing);
    let nothing = ResultPage { text: String::new(), next_offset: None, bytes: 0 };
    assert_eq!(read_result(&dir, &ResultText::Nothing, 5, 5).unwrap(), nothing);
    assert_eq!(store_spooled(&dir, b"short", 4096), ResultText::Inline("short".to_owned()));
}

#[test]
fn a_large_text_stands_in_a_private_file() {
    let test = TestHome::new();
    let dir = test.run().dir;
    let text = "€".repeat(INLINE_BYTES_MAX);
    let result = store_result(&dir, ResultSource::Bytes(text.as_bytes())).unwrap();
    assert_eq!(result, ResultText::File { bytes: text.len() as u64 });
    assert_eq!(fs::metadata(dir.result_path()).unwrap().mode() & 0o777, 0o600);
    assert_eq!(read_pages(&dir, &result, 1000), text);
    assert_eq!(read_result(&dir, &result, u64::MAX, 10).unwrap().text, "");
    assert!(read_result(&test.home.run_dir(crate::fixtures::run_id(9)), &result, 0, 9).is_err());
}

#[test]
fn bytes_that_are_not_text_are_replaced_in_the_answer() {
    let test = TestHome::new();
    let dir = test.run().dir;
    let result = store_result(&dir, ResultSource::Bytes(b"a\xff\xfeb")).unwrap();
    assert_eq!(result, ResultText::Inline("a\u{fffd}\u{fffd}b".to_owned()));
}

#[test]
fn a_large_answer_with_bytes_that_are_not_text_is_read_to_the_byte() {
    let test = TestHome::new();
    // Valid and invalid characters cross the borders of the copied chunks.
    let bytes = b"a\xff\xe2\x82\xac\xe2\x82b\xf0\x9f\x90".repeat(40_000);
    let text = String::from_utf8_lossy(&bytes);
    for (number, bound) in [(1, 1 << 20), (2, 600_000)] {
        let dir = test.home.create_run(&spec(number)).unwrap().dir;
        let result = store_spooled(&dir, &bytes, bound);
        assert_eq!(result, ResultText::File { bytes: text.len() as u64 });
        assert!(read_pages(&dir, &result, 5_000) == text);
        let page = read_result(&dir, &result, 0, 5_000).unwrap();
        assert_eq!(page.next_offset, Some(page.text.len() as u64), "an offset counts what the reader has");
    }
}

#[test]
fn a_spooled_answer_survives_its_spool() {
    let test = TestHome::new();
    let text = "0123456789".repeat(20_000);
    // In the head alone, across head and tails, and truncated.
    for (number, bound) in [(1, 1 << 20), (2, 300_000), (3, 150_000)] {
        let dir = test.home.create_run(&spec(number)).unwrap().dir;
        let result = store_spooled(&dir, text.as_bytes(), bound);
        let linked = fs::metadata(dir.result_path()).unwrap().nlink() == 2;
        assert_eq!(linked, number == 1, "only a whole head is linked");
        delete_spools(&dir);
        let read = read_pages(&dir, &result, 4096);
        match number {
            3 => {
                assert!(read.starts_with(&text[..75_000]) && read.ends_with(&text[180_000..]));
                assert!(read.contains("[volery: ") && read.len() < 150_100);
            }
            _ => assert_eq!(read, text),
        }
    }
}

#[test]
fn a_linked_result_ends_where_it_was_stored() {
    let test = TestHome::new();
    let dir = test.run().dir;
    let text = "x".repeat(100_000);
    let result = store_spooled(&dir, text.as_bytes(), 1 << 20);
    SpoolWriter::open_append(&dir, StdStream::Stdout, 1 << 20).unwrap().write(b"more").unwrap();
    assert_eq!(read_pages(&dir, &result, 9_000), text);
    SpoolWriter::create(&dir, StdStream::Stdout, 1 << 20).unwrap();
    assert_eq!(read_pages(&dir, &result, 9_000), text);
}

#[test]
fn a_result_that_is_not_durable_is_an_error() {
    let test = TestHome::new();
    for allowed in 0..2 {
        let home = test.broken(Faults { syncs_before_failure: Some(allowed), ..Faults::default() });
        let dir = home.create_run(&spec(u8::try_from(allowed).unwrap())).unwrap().dir;
        assert!(store_result(&dir, ResultSource::Bytes(&[b'x'; INLINE_BYTES_MAX + 1])).is_err());
        assert_eq!(home.disk().syncs(), allowed + 1);
    }
}

#[test]
fn pages_of_text_join_to_the_text() {
    let test = TestHome::new();
    let dir = test.run().dir;
    proptest!(|(text in "\\PC{0,60}", max in 0_usize..20)| {
        let inline = ResultText::Inline(text.clone());
        prop_assert_eq!(read_pages(&dir, &inline, max), text.clone());
        fs::write(dir.result_path(), &text).unwrap();
        let file = ResultText::File { bytes: text.len() as u64 };
        prop_assert_eq!(read_pages(&dir, &file, max), text);
    });
}

#[test]
fn any_bytes_and_offsets_are_read_without_panic() {
    let test = TestHome::new();
    let dir = test.run().dir;
    proptest!(|(bytes: Vec<u8>, offset: u64, max in 0_usize..50)| {
        fs::write(dir.result_path(), &bytes).unwrap();
        for bytes in [bytes.len() as u64, u64::MAX] {
            let result = ResultText::File { bytes };
            read_result(&dir, &result, offset, max).unwrap();
            read_pages(&dir, &result, max);
        }
    });
}
