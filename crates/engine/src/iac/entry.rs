//! A run that is shown in `IAC.md`, read from the journal.

use domain::Timestamp;
use domain::id::RunId;
use domain::run::{Ending, Outcome, RunSpec};
use journal::run_result::read_result;
use journal::{Home, project_runs};

use super::LOCK_TIMEOUT;
use super::document::{EXCERPT_CHARS_MAX, Excerpt, IacLine, IacRunEnd};

/// An answer with more bytes has more characters than the file shows.
const WHOLE_BYTES_MAX: usize = 4 * EXCERPT_CHARS_MAX;
/// The beginning of a page may fall into a multi-byte character.
const CHAR_BYTES_MAX: usize = 4;

#[derive(Debug, Clone)]
pub struct IacEntry {
    pub spec: RunSpec,
    pub ending: Option<Ending>,
    pub ended_at: Option<Timestamp>,
    /// Its keeper and worker are gone, and nobody has ended it yet.
    pub is_lost: bool,
}

/// Returns the runs that are shown of a project, the newest first. Waits only briefly for the roster.
pub(crate) fn entries(home: &Home, project: &str) -> Result<Vec<IacEntry>, journal::StoreError> {
    let runs = project_runs::open(home, project, LOCK_TIMEOUT)?.runs()?;
    Ok(runs.into_iter().filter_map(|run| entry(home, run)).collect())
}

/// Returns one run, if it exists and is shown.
pub(crate) fn entry(home: &Home, run: RunId) -> Option<IacEntry> {
    let dir = home.run_dir(run);
    let spec = dir.read_spec().ok().filter(|spec| spec.iac.is_some())?;
    let ending = dir.ending().ok()?;
    let ended_at = ending.as_ref().and_then(|_| dir.ended_at());
    let is_lost = ending.is_none() && !dir.is_locked().unwrap_or(true);
    Some(IacEntry { spec, ending, ended_at, is_lost })
}

impl IacEntry {
    pub fn is_running(&self) -> bool {
        self.ending.is_none() && !self.is_lost
    }

    pub fn succeeded(&self) -> bool {
        self.ending.as_ref().is_some_and(|ending| ending.outcome == Outcome::Succeeded)
    }

    /// Returns why it did not succeed.
    pub fn error(&self) -> Option<String> {
        match &self.ending {
            Some(ending) if ending.outcome == Outcome::Succeeded => None,
            Some(ending) => {
                let explanation = ending.explanation();
                // PowerSpawn's line already begins with "Failed".
                Some(explanation.strip_prefix("failed: ").map(ToOwned::to_owned).unwrap_or(explanation))
            }
            None => Some("interrupted: it was lost and nobody has ended it yet".to_owned()),
        }
    }

    /// Returns the end of stderr, if the run did not succeed.
    pub fn stderr(&self) -> &str {
        self.ending.as_ref().map_or("", |ending| &ending.stderr_tail)
    }

    /// Returns the answer, or the two ends of an answer that has more bytes than this. Reads only these ends.
    pub fn answer(&self, home: &Home, bytes_max: usize) -> Excerpt {
        let Some(ending) = &self.ending else { return Excerpt::Whole(String::new()) };
        let dir = home.run_dir(self.spec.id);
        let page = |offset, max| read_result(&dir, &ending.result, offset, max).ok();
        let Some(first) = page(0, bytes_max) else { return Excerpt::Whole(String::new()) };
        if first.next_offset.is_none() {
            return Excerpt::Whole(first.text);
        }
        let last = bytes_max / 2 + CHAR_BYTES_MAX;
        let tail = page(first.bytes.saturating_sub(last as u64), last);
        let tail = tail.map(|page| page.text).unwrap_or_default();
        let mut head = first.text;
        head.truncate(head.floor_char_boundary(bytes_max / 2));
        Excerpt::Ends { head, tail, bytes: first.bytes }
    }

    /// Returns its cost in dollars, if that is known.
    pub fn cost_usd(&self) -> Option<f64> {
        self.ending.as_ref()?.usage.cost.map(|cost| cost.microusd as f64 / 1e6)
    }

    /// Returns the line of the file for this run.
    pub(super) fn board_line(&self, home: &Home) -> IacLine {
        let spec = &self.spec;
        let iac = spec.iac.clone();
        let end = (!self.is_running()).then(|| IacRunEnd {
            error: self.error(),
            duration_ms: self.ending.as_ref().map_or(0, |ending| ending.duration_ms),
            cost_usd: self.cost_usd(),
            output: self.answer(home, WHOLE_BYTES_MAX),
        });
        IacLine {
            id: spec.id.short(),
            label: iac.as_ref().map(|iac| iac.label.clone()).unwrap_or_default(),
            kind: iac.map(|iac| iac.kind),
            model: spec.model.clone(),
            tools: spec.setup.tools.clone().unwrap_or_default(),
            task: spec.public_task().to_owned(),
            started: spec.created_at,
            end,
        }
    }
}
