//! Renders the results of `volery trust`, `token`, `clean` and `reindex`.

use domain::invisible_text::escape_invisible;
use domain::size::display_bytes;

use super::number_format::{age, count, span};
use super::table::{Cell, Column, Table};
use super::text::one_line;
use super::text_style::{TextStyle, Tone};
use engine::{
    CleanReport, ReindexReport, TokenCreator, TokenList, TrustEffect, TrustItem, TrustList, TrustState,
    TrustView,
};

/// Renders the commands that a project's files would execute, where and why, and whether they are trusted.
pub(crate) fn trust_page(view: &TrustView, style: &TextStyle) -> String {
    let mut text = format!("project  {}\n", one_line(&style.short_path(&view.project, None)));
    let (state, tone) = trust_label(view.state);
    text.push_str(&format!("state    {}\n", style.color.apply(tone, state)));
    for (effect, heading) in [(TrustEffect::Execute, "execute"), (TrustEffect::Allow, "allow")] {
        let mut items = view.items.iter().filter(|item| item.effect == effect).peekable();
        if items.peek().is_some() {
            text.push_str(&format!("\nits files would {heading}:\n"));
        }
        let mut last = None;
        for item in items {
            let file = one_line(&escape_invisible(&style.short_path(&item.file, Some(&view.project))));
            if last.replace((&item.file, &item.name)) != Some((&item.file, &item.name)) {
                let what = style.color.apply(Tone::Strong, &one_line(&item.name));
                text.push_str(&format!("  {what} in {file}\n"));
            }
            let line = item.line.map(|line| format!("line {line}: ")).unwrap_or_default();
            text.push_str(&format!("    {line}{}\n", one_line(&item.command)));
            if !item.reason.is_empty() {
                let why = style.color.apply(Tone::Faint, &format!("why: {}", one_line(&item.reason)));
                text.push_str(&format!("      {why}\n"));
            }
        }
    }
    // At the end, where it stays on the screen if the list scrolls away.
    if !view.items.is_empty() {
        text.push_str(&format!(
            "\nin all: {}\n",
            style.color.apply(Tone::Strong, &trust_summary(&view.items))
        ));
    }
    text
}

/// The kind of an item that needs trust.
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

    fn for_item(item: &TrustItem) -> Self {
        let TrustItem { effect, name, reason, .. } = item;
        if name.contains("MCP server") || reason.contains("MCP server") {
            Self::Server
        } else if name.ends_with("hook") || reason.starts_with("hooks ") {
            Self::Hook
        } else if *effect == TrustEffect::Allow || reason.contains("allows tools") {
            Self::Grant
        } else if reason.starts_with("variable")
            || reason.starts_with("a variable")
            || reason.contains("not known")
        {
            Self::Setting
        } else {
            Self::Program
        }
    }
}

/// Counts the items of each kind.
fn trust_summary(items: &[TrustItem]) -> String {
    let counts = TrustKind::ALL.iter().filter_map(|(kind, noun)| {
        let number = items.iter().filter(|item| TrustKind::for_item(item) == *kind).count() as u64;
        let plural = if number == 1 { "" } else { "s" };
        (number > 0).then(|| format!("{} {noun}{plural}", count(number)))
    });
    counts.collect::<Vec<_>>().join(", ")
}

/// Returns the table of trusted projects.
pub(crate) fn trust_list(list: &TrustList, style: &TextStyle) -> String {
    let columns = [Column::left("STATE"), Column::right("TRUSTED"), Column::flexible("PROJECT")];
    let mut table = Table::new(&columns);
    for project in &list.projects {
        let (state, tone) = trust_label(project.state);
        let since = format!("{} ago", age(style.now, &project.trusted_at));
        table.push(vec![
            Cell::toned(state, tone),
            Cell::new(&since),
            Cell::new(&style.short_path(&project.project, None)),
        ]);
    }
    table.render(style)
}

/// Returns the table of tokens.
pub(crate) fn token_list(list: &TokenList, style: &TextStyle) -> String {
    let columns =
        [Column::flexible("NAME"), Column::right("MADE"), Column::left("BY"), Column::left("METRICS OF")];
    let mut table = Table::new(&columns);
    for token in &list.tokens {
        let since = format!("{} ago", age(style.now, &token.created_at));
        let by = match token.created_by {
            TokenCreator::User => "you",
            TokenCreator::Server => "volery serve",
        };
        let metrics = if token.all_metrics { "all runs" } else { "its runs" };
        table.push(vec![Cell::new(&token.name), Cell::new(&since), Cell::new(by), Cell::new(metrics)]);
    }
    table.render(style)
}

/// Lists the runs that were or would be removed.
pub(crate) fn clean_report(cleaned: &CleanReport, style: &TextStyle) -> String {
    let mut text = String::new();
    if !cleaned.runs.is_empty() {
        let mut table = Table::new(&[Column::left("ID"), Column::right("AGE"), Column::left("RUN")]);
        for run in &cleaned.runs {
            let created = run.created_at().to_string();
            let age = age(style.now, &created);
            table.push(vec![Cell::new(&run.short()), Cell::new(&age), Cell::new(&run.to_string())]);
        }
        text.push_str(&table.render(style));
        let more = cleaned.deleted.saturating_sub(cleaned.runs.len() as u64);
        text.push_str(&if more > 0 { format!("… and {} more\n\n", count(more)) } else { "\n".to_owned() });
    }
    let verb = if cleaned.dry_run { "would remove" } else { "removed" };
    let (runs, outputs) = (count(cleaned.deleted), count(cleaned.outputs_dropped));
    let bytes = display_bytes(cleaned.bytes);
    text.push_str(&format!("{verb} {runs} runs and the output of {outputs} more, {bytes} in all\n"));
    text
}

/// Summarizes the rebuilt index.
pub(crate) fn reindex_report(reindexed: &ReindexReport) -> String {
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

fn trust_label(state: TrustState) -> (&'static str, Tone) {
    match state {
        TrustState::NothingToTrust => ("nothing to trust", Tone::Plain),
        TrustState::Trusted => ("trusted", Tone::Good),
        TrustState::Untrusted => ("not trusted", Tone::Careful),
        TrustState::Changed => ("changed since it was trusted", Tone::Bad),
    }
}
