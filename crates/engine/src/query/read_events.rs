//! Reads the events of a run in pages. Each page continues where the last one ended, so all pages together read the log once.

use std::sync::Arc;

use domain::run::{Envelope, RunSpec};
use journal::{LogCursor, LogReader, RunDir};

use crate::admission::attempt_backend;
use crate::api::{EngineError, EventPage, ReadEvents};
use crate::ask::{Ask, OnProgress};
use crate::engine::{Engine, store_error};
use crate::ipc::relay::Relay;
use crate::relayed_requests::{self, without_invisible};

/// The most events in one page.
const EVENTS_MAX: usize = 1_000;
/// A page ends after the event that makes it larger than this.
const PAGE_BYTES: u64 = 1 << 20;

impl Ask for ReadEvents {
    type Answer = EventPage;

    async fn answer(self, engine: &Arc<Engine>, _progress: OnProgress<'_>) -> Result<EventPage, EngineError> {
        let dir = engine.find(&self.run)?;
        engine.run_blocking(move |engine| engine.read_event_page(&dir, self.after)).await
    }

    async fn relay(self, relay: &Relay, progress: OnProgress<'_>) -> Result<EventPage, EngineError> {
        let page: EventPage = relayed_requests::relay(self, relay, progress).await?;
        // An agent reads this page.
        without_invisible(&page)
    }
}

impl Engine {
    fn read_event_page(&self, dir: &RunDir, after: LogCursor) -> Result<EventPage, EngineError> {
        let spec = dir.read_spec().map_err(store_error)?;
        let mut page =
            PageReader { reader: LogReader::open_at(dir, after).map_err(store_error)?, events: Vec::new() };
        let mut at_end = page.read()?;
        let mut is_over = false;
        // To find out whether a run without `outcome.json` has ended, the engine may have to read the whole log. It does this
        // only if the page has no new events.
        if at_end && page.events.is_empty() && !page.reader.has_ended() {
            let (_, blocker) = self.reconcile_or_warn(dir)?;
            is_over = blocker.is_some() || dir.ending().map_err(store_error)?.is_some();
            at_end = page.read()?;
        }
        let PageReader { reader, events } = page;
        Ok(EventPage {
            run_id: dir.id(),
            events,
            next: reader.cursor(),
            damaged_lines: reader.damaged(),
            complete: reader.has_ended() || (is_over && at_end),
            plain_choices: plain_choices(&spec),
        })
    }
}

/// A page under construction.
struct PageReader {
    reader: LogReader,
    events: Vec<Envelope>,
}

impl PageReader {
    /// Reads until the page is full or the log ends, and returns whether the log ends.
    fn read(&mut self) -> Result<bool, EngineError> {
        let start = self.reader.settled_bytes();
        while self.events.len() < EVENTS_MAX && self.reader.settled_bytes() - start < PAGE_BYTES {
            match self.reader.next_event().map_err(store_error)? {
                Some(envelope) => self.events.push(envelope),
                None => return Ok(true),
            }
        }
        Ok(false)
    }
}

fn plain_choices(spec: &RunSpec) -> Vec<u32> {
    let is_plain = |choice: &u32| {
        let (backend, _) = attempt_backend::backend_choice(spec, *choice as usize);
        attempt_backend::capabilities(backend).plain_text_output
    };
    let fallbacks = u32::try_from(spec.fallbacks.len()).unwrap_or(0);
    (0..=fallbacks).filter(is_plain).collect()
}
