//! A line is either read back as it was written or rejected.

use domain::run::{Envelope, Event};
use proptest::prelude::*;

use super::{LineError, LogPosition, decode, encode};
use crate::fixtures::{any_event, at, text_event};

fn envelope(event: Event) -> Envelope {
    Envelope { seq: 7, epoch: 2, at: at(0), event }
}

#[test]
fn a_line_is_json_with_its_sum_last() {
    let line = encode(&envelope(text_event("hello"))).unwrap();
    assert_eq!(
        String::from_utf8(line).unwrap(),
        "{\"seq\":7,\"epoch\":2,\"at\":\"2026-11-14T23:46:40Z\",\"type\":\"said\",\"text\":\"hello\",\
         \"sum\":\"d38f2c1e\"}\n"
    );
}

#[test]
fn an_event_of_a_newer_version_keeps_its_place() {
    let body = r#"{"seq":9,"epoch":3,"at":"2026-11-14T23:06:40Z","type":"teleported","to":"mars""#;
    let line = format!("{body},\"sum\":\"{:08x}\"}}\n", crc32fast::hash(body.as_bytes()));
    match decode(line.as_bytes()) {
        Err(LineError::Unknown { position, .. }) => {
            assert_eq!(position, Some(LogPosition { seq: 9, epoch: 3 }))
        }
        other => panic!("{other:?}"),
    }
}

proptest! {
    #[test]
    fn write_then_read_is_identity(event in any_event(), seq: u64, epoch: u32) {
        let written = Envelope { seq, epoch, at: at(1), event };
        let line = encode(&written).unwrap();
        prop_assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
        prop_assert_eq!(decode(&line).unwrap(), written.clone());
        prop_assert_eq!(decode(&line[..line.len() - 1]).unwrap(), written);
    }

    #[test]
    fn any_bytes_are_read_without_panic(bytes: Vec<u8>) {
        let _ = decode(&bytes);
        let mut summed = bytes.clone();
        summed.extend_from_slice(format!(",\"sum\":\"{:08x}\"}}", crc32fast::hash(&bytes)).as_bytes());
        prop_assert!(decode(&summed).is_err());
    }

    #[test]
    fn every_flipped_bit_is_detected(event in any_event()) {
        let line = encode(&envelope(event)).unwrap();
        for bit in 0..line.len() * 8 {
            let mut flipped = line.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(decode(&flipped).is_err(), "bit {bit}");
        }
    }
}
