//! What trust, clean and reindex found and did.

use domain::size::display_bytes;

use super::figures::{age, count, span};
use super::look::{Look, Tone};
use super::table::{Cell, Column, Table};
use super::text::one_line;
use crate::app::{Cleaned, Reindexed, TrustList, TrustState, TrustView};

/// Returns what a project's files would execute, and whether that is trusted.
pub(crate) fn trust_page(view: &TrustView, look: &Look) -> String {
    let mut text = format!("project  {}\n", one_line(&view.project));
    let (state, tone) = trust_words(view.state);
    text.push_str(&format!("state    {}\n", look.paint.apply(tone, state)));
    if !view.items.is_empty() {
        text.push_str("\nits files would execute:\n");
    }
    for item in &view.items {
        let line = item.line.map(|line| format!(":{line}")).unwrap_or_default();
        text.push_str(&format!("  {}: {}\n", one_line(&item.what), one_line(&item.command)));
        text.push_str(&format!("    in {}{line}\n", one_line(&item.file)));
    }
    text
}

/// Returns the table of trusted projects.
pub(crate) fn trust_list(list: &TrustList, look: &Look) -> String {
    let columns = [Column::left("STATE"), Column::right("TRUSTED"), Column::flexible("PROJECT")];
    let mut table = Table::new(&columns);
    for project in &list.projects {
        let (state, tone) = trust_words(project.state);
        let since = format!("{} ago", age(look.now, &project.trusted_at));
        table.push(vec![Cell::toned(state, tone), Cell::new(&since), Cell::new(&project.project)]);
    }
    table.render(look)
}

/// Returns what was removed, or would be.
pub(crate) fn cleaned(cleaned: &Cleaned) -> String {
    let Cleaned { dry_run, deleted, outputs_dropped, bytes, runs, problems } = cleaned;
    let verb = if *dry_run { "would free" } else { "freed" };
    let mut text = format!(
        "{verb} {}: {} runs, and the output of {} more\n",
        display_bytes(*bytes),
        count(*deleted),
        count(*outputs_dropped)
    );
    if !runs.is_empty() {
        let ids: Vec<String> = runs.iter().map(|run| run.short()).collect();
        text.push_str(&format!("runs: {}\n", ids.join(" ")));
    }
    for problem in problems {
        text.push_str(&format!("could not remove {problem}\n"));
    }
    text
}

/// Returns what the rebuilt index holds.
pub(crate) fn reindexed(reindexed: &Reindexed) -> String {
    let mut text = format!(
        "{} runs in the index, {} of them not ended, in {}\n",
        count(reindexed.runs),
        count(reindexed.open),
        span(reindexed.duration_ms)
    );
    if reindexed.damaged > 0 {
        text.push_str(&format!("{} runs could not be read whole\n", count(reindexed.damaged)));
    }
    text
}

fn trust_words(state: TrustState) -> (&'static str, Tone) {
    match state {
        TrustState::NothingToTrust => ("nothing to trust", Tone::Plain),
        TrustState::Trusted => ("trusted", Tone::Good),
        TrustState::Untrusted => ("not trusted", Tone::Careful),
        TrustState::Changed => ("changed since it was trusted", Tone::Bad),
    }
}
