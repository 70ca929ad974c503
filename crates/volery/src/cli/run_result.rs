//! Fetches a run's whole result, page by page.

use super::error::CommandError;
use super::output::Out;
use engine::{EngineHandle, GetRun, RunDetail};

/// Bytes per request.
const PAGE: u64 = 256 << 10;

/// Returns the run with its whole result, for the one JSON document.
pub(crate) async fn fetch_whole(app: &EngineHandle, run: &str) -> Result<RunDetail, CommandError> {
    let mut detail = page(app, run, 0).await?;
    let mut text = detail.run.result.take();
    let mut next = detail.run.result_next_offset.take();
    while let Some(offset) = next {
        let next_page = page(app, run, offset).await?;
        if let Some(part) = &next_page.run.result {
            text.get_or_insert_default().push_str(part);
        }
        next = advancing_offset(offset, next_page.run.result_next_offset);
    }
    detail.run.result = text;
    Ok(detail)
}

/// Writes the whole result to standard output as it comes, and returns the run.
pub(crate) async fn print(app: &EngineHandle, run: &str, out: &mut Out) -> Result<RunDetail, CommandError> {
    let first = page(app, run, 0).await?;
    let mut text = first.run.result.clone().unwrap_or_default();
    let mut last = text.chars().last();
    let mut next = first.run.result_next_offset;
    out.agent_text(&text)?;
    while let Some(offset) = next {
        let next_page = page(app, run, offset).await?;
        text = next_page.run.result.unwrap_or_default();
        last = text.chars().last().or(last);
        out.agent_text(&text)?;
        next = advancing_offset(offset, next_page.run.result_next_offset);
    }
    out.end_agent_text(last)?;
    out.flush()?;
    Ok(first)
}

async fn page(app: &EngineHandle, run: &str, offset: u64) -> Result<RunDetail, CommandError> {
    let request = GetRun {
        run: run.to_owned(),
        result_offset: offset,
        result_max: PAGE,
        events_from: None,
        events_max: 0,
    };
    Ok(app.ask(request).await?)
}

/// Returns the next offset. One that does not advance ends the loop, even if the engine reports it.
fn advancing_offset(offset: u64, next: Option<u64>) -> Option<u64> {
    next.filter(|next| *next > offset)
}
