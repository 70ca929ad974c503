//! What trust, clean and reindex found and did.

use domain::size::display_bytes;
use domain::visible::visible;

use super::figures::{age, count, span};
use super::look::{Look, Tone};
use super::table::{Cell, Column, Table};
use super::text::one_line;
use crate::app::{
    Cleaned, MadeBy, Reindexed, TokenList, TrustEffect, TrustItem, TrustList, TrustState, TrustView,
};

/// Returns what a project's files would execute, where and why, and whether that is trusted.
pub(crate) fn trust_page(view: &TrustView, look: &Look) -> String {
    let mut text = format!("project  {}\n", one_line(&look.short_path(&view.project, None)));
    let (state, tone) = trust_words(view.state);
    text.push_str(&format!("state    {}\n", look.paint.apply(tone, state)));
    for (effect, heading) in [(TrustEffect::Execute, "execute"), (TrustEffect::Allow, "allow")] {
        let mut items = view.items.iter().filter(|item| item.effect == effect).peekable();
        if items.peek().is_some() {
            text.push_str(&format!("\nits files would {heading}:\n"));
        }
        let mut last = None;
        for item in items {
            let file = one_line(&visible(&look.short_path(&item.file, Some(&view.project))));
            if last.replace((&item.file, &item.what)) != Some((&item.file, &item.what)) {
                let what = look.paint.apply(Tone::Strong, &one_line(&item.what));
                text.push_str(&format!("  {what} in {file}\n"));
            }
            let line = item.line.map(|line| format!("line {line}: ")).unwrap_or_default();
            text.push_str(&format!("    {line}{}\n", one_line(&item.command)));
            if !item.why.is_empty() {
                let why = look.paint.apply(Tone::Faint, &format!("why: {}", one_line(&item.why)));
                text.push_str(&format!("      {why}\n"));
            }
        }
    }
    // Last, where it is still on the screen when the list is not.
    if !view.items.is_empty() {
        text.push_str(&format!(
            "\nin all: {}\n",
            look.paint.apply(Tone::Strong, &trust_summary(&view.items))
        ));
    }
    text
}

/// What kind of thing needs trust.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TrustKind {
    Program,
    Server,
    Hook,
    Grant,
    Setting,
}

impl TrustKind {
    const ALL: [(Self, &'static str); 5] = [
        (Self::Program, "program"),
        (Self::Server, "MCP server"),
        (Self::Hook, "hook"),
        (Self::Grant, "grant"),
        (Self::Setting, "other setting"),
    ];

    fn of_item(item: &TrustItem) -> Self {
        let TrustItem { effect, what, why, .. } = item;
        if what.contains("MCP server") || why.contains("MCP server") {
            Self::Server
        } else if what.ends_with("hook") || why.starts_with("hooks ") {
            Self::Hook
        } else if *effect == TrustEffect::Allow || why.contains("allows tools") {
            Self::Grant
        } else if why.starts_with("variable") || why.starts_with("a variable") || why.contains("not known") {
            Self::Setting
        } else {
            Self::Program
        }
    }
}

/// Returns how many things of each kind there are.
fn trust_summary(items: &[TrustItem]) -> String {
    let counted = TrustKind::ALL.iter().filter_map(|(kind, word)| {
        let number = items.iter().filter(|item| TrustKind::of_item(item) == *kind).count() as u64;
        let plural = if number == 1 { "" } else { "s" };
        (number > 0).then(|| format!("{} {word}{plural}", count(number)))
    });
    counted.collect::<Vec<_>>().join(", ")
}

/// Returns the table of trusted projects.
pub(crate) fn trust_list(list: &TrustList, look: &Look) -> String {
    let columns = [Column::left("STATE"), Column::right("TRUSTED"), Column::flexible("PROJECT")];
    let mut table = Table::new(&columns);
    for project in &list.projects {
        let (state, tone) = trust_words(project.state);
        let since = format!("{} ago", age(look.now, &project.trusted_at));
        table.push(vec![
            Cell::toned(state, tone),
            Cell::new(&since),
            Cell::new(&look.short_path(&project.project, None)),
        ]);
    }
    table.render(look)
}

/// Returns the table of tokens.
pub(crate) fn token_list(list: &TokenList, look: &Look) -> String {
    let columns =
        [Column::flexible("NAME"), Column::right("MADE"), Column::left("BY"), Column::left("METRICS OF")];
    let mut table = Table::new(&columns);
    for token in &list.tokens {
        let since = format!("{} ago", age(look.now, &token.created_at));
        let by = match token.made_by {
            MadeBy::User => "you",
            MadeBy::Server => "volery serve",
        };
        let metrics = if token.all_metrics { "all runs" } else { "its runs" };
        table.push(vec![Cell::new(&token.name), Cell::new(&since), Cell::new(by), Cell::new(metrics)]);
    }
    table.render(look)
}

/// Returns what was removed, or would be.
pub(crate) fn cleaned(cleaned: &Cleaned, look: &Look) -> String {
    let mut text = String::new();
    if !cleaned.runs.is_empty() {
        let mut table = Table::new(&[Column::left("ID"), Column::right("AGE"), Column::left("RUN")]);
        for run in &cleaned.runs {
            let created = run.created_at().to_string();
            let age = age(look.now, &created);
            table.push(vec![Cell::new(&run.short()), Cell::new(&age), Cell::new(&run.to_string())]);
        }
        text.push_str(&table.render(look));
        let more = cleaned.deleted.saturating_sub(cleaned.runs.len() as u64);
        text.push_str(&if more > 0 { format!("… and {} more\n\n", count(more)) } else { "\n".to_owned() });
    }
    let verb = if cleaned.dry_run { "would remove" } else { "removed" };
    let (runs, outputs) = (count(cleaned.deleted), count(cleaned.outputs_dropped));
    let bytes = display_bytes(cleaned.bytes);
    text.push_str(&format!("{verb} {runs} runs and the output of {outputs} more, {bytes} in all\n"));
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
