//! Renders everything that is known about one run.

use domain::inherit::describe_all;
use domain::run::{
    Branch, Cancellation, Changes, Commits, Containment, Enforcer, Failure, FileChange, NetworkRestriction,
    Outcome, Verification,
};
use domain::size::display_bytes;

use super::caller_name::caller_name;
use super::denials::{denial_line, status_with_denials};
use super::number_format::{age, cost_with_basis, count, moment, span};
use super::open_questions::answer_commands;
use super::page::{Page, grant_line};
use super::prompt_excerpt::PromptExcerpt;
use super::text::one_line;
use super::text_style::{TextStyle, Tone};
use engine::{RunView, WaitingView};

/// How many changed files a page names.
const FILES_SHOWN: usize = 20;
/// How many lines of the task a page shows.
const PROMPT_LINES: usize = 3;

/// Returns a run's outcome, duration, cost and id in a line.
pub(crate) fn summary(run: &RunView) -> String {
    let time = span(run.duration_ms);
    let cancel_reason = run.cancellation.as_ref().map(|request| one_line(&request.reason));
    let explanation = match cancel_reason.filter(|reason| !reason.is_empty() && run.status == "cancelled") {
        Some(reason) => format!("{}: {reason}", one_line(&run.explanation)),
        None => one_line(&run.explanation),
    };
    let what = status_with_denials(&explanation, run.denials_count);
    let mut parts = match (run.ended, run.status.as_str()) {
        (true, "succeeded") => vec![format!("{} {what} in {time}", run.short_id)],
        (true, _) => vec![format!("{} {what}", run.short_id), format!("after {time}")],
        (false, _) => vec![format!("{} {what}", run.short_id), format!("for {time} so far")],
    };
    if let Some(cost) = run.usage.cost {
        parts.push(cost_with_basis(cost));
    }
    if run.usage.input_tokens + run.usage.output_tokens > 0 {
        let (input, output) = (count(run.usage.input_tokens), count(run.usage.output_tokens));
        parts.push(format!("{input} tokens in, {output} out"));
    }
    // A success that only the agent claims is the normal case, so only a verified one is mentioned.
    parts.extend(
        run.verification
            .filter(|verification| *verification == Verification::Verified)
            .map(|verification| verification.as_str().to_owned()),
    );
    parts.extend(run.changes.as_ref().map(changed_count));
    parts.extend(run.branch.as_ref().map(|branch| format!("on the branch {}", one_line(&branch.name))));
    parts.join(", ")
}

/// Describes how many files changed.
fn changed_count(changes: &Changes) -> String {
    match changes.count() {
        0 => "no file changed".to_owned(),
        1 => "1 file changed".to_owned(),
        many => format!("{} files changed", count(many)),
    }
}

/// Returns the reason for a run's status, without the status itself; empty if there is none.
pub(super) fn reason(run: &RunView) -> String {
    let explanation = one_line(&run.explanation);
    match explanation.strip_prefix(&run.status) {
        Some(rest) => rest.trim_start_matches([':', ' ']).to_owned(),
        None => explanation,
    }
}

/// Returns the page of `show`, without events.
pub(crate) fn run_page(run: &RunView, style: &TextStyle) -> String {
    let mut page = Page::new(style);
    page.run_details(run);
    page.waiting(run);
    page.questions_below(run);
    page.answer_checks(run);
    page.relations(run);
    page.containment(run.containment.as_ref());
    page.changes(run.changes.as_ref());
    page.branch(run.branch.as_ref());
    for warning in &run.warnings {
        page.fact("warning", &one_line(warning));
    }
    for denial in &run.denials {
        // The reader of the page may not be the person who denied the use.
        page.fact("denied", &denial_line(denial, "").replacen("denied: ", "", 1));
    }
    if run.damaged_lines > 0 {
        page.fact("warning", &damage_warning(run.damaged_lines));
    }
    if let Some(failed) = run.acceptance.iter().find(|command| !command.passed) {
        page.block("acceptance command, last lines", &failed.output_tail);
    }
    page.block("error stream, last lines", &run.stderr_tail);
    page.block("so far", run.partial.as_deref().unwrap_or_default());
    let title = format!("result ({})", display_bytes(run.result_bytes));
    page.block(&title, run.result.as_deref().unwrap_or_default());
    page.text
}

impl Page<'_> {
    fn run_details(&mut self, run: &RunView) {
        let reason = reason(run);
        let explanation = if reason.is_empty() { String::new() } else { format!(": {reason}") };
        let denied = match run.denials_count {
            0 => String::new(),
            denied => format!(", {} denied", count(denied)),
        };
        self.fact("run", &run.run_id.to_string());
        self.fact("short id", &run.short_id);
        self.fact("agent", &format!("{} (backend {})", one_line(&run.agent), one_line(&run.backend)));
        self.toned_fact(
            "status",
            (Tone::for_status(&run.status), &run.status),
            &format!("{denied}{explanation}"),
        );
        if let Some(Cancellation { by, reason }) = &run.cancellation {
            let reason = if reason.is_empty() { String::new() } else { format!(": {}", one_line(reason)) };
            self.fact("cancelled", &format!("by {}{reason}", one_line(by)));
        }
        if run.stalled {
            self.fact("", "stalled: no output for two minutes");
        }
        self.fact("asked by", &caller_name(run));
        self.prompt(run);
        for grant in &run.grants {
            self.fact("permission", &grant_line(grant));
        }
        if let Some(reason) = &run.unattended {
            self.fact("questions", &format!("denied at once: {}", one_line(reason)));
        }
        self.fact("created", &self.moment(&run.created_at));
        if let Some(started) = &run.started_at {
            self.fact("started", &self.moment(started));
        }
        if let Some(ended) = &run.ended_at {
            self.fact("ended", &self.moment(ended));
        }
        self.fact("time", &span(run.duration_ms));
        if run.usage.input_tokens + run.usage.output_tokens > 0 {
            let (input, output) = (count(run.usage.input_tokens), count(run.usage.output_tokens));
            self.fact("tokens", &format!("{input} in, {output} out"));
        } else {
            self.fact("tokens", "not known");
        }
        let cost = run.usage.cost.map(cost_with_basis);
        self.fact("cost", &cost.unwrap_or_else(|| "not known".to_owned()));
        if let Some(code) = run.exit_code {
            self.fact("exit code", &code.to_string());
        }
        self.fact("directory", &one_line(&self.style.short_path(&run.directory, None)));
        if !run.inherit.is_empty() {
            self.fact("inherits", &describe_all(&run.inherit));
        }
        if run.project != run.directory {
            self.fact("project", &one_line(&self.style.short_path(&run.project, None)));
        }
    }

    /// Adds the first lines of the task, and the length of the rest.
    fn prompt(&mut self, run: &RunView) {
        let excerpt = PromptExcerpt::new(run, PROMPT_LINES);
        for (index, line) in excerpt.lines.iter().enumerate() {
            self.fact(if index == 0 { "prompt" } else { "" }, line);
        }
        if let Some(rest) = excerpt.rest() {
            self.fact("", &rest);
        }
    }

    fn moment(&self, at: &str) -> String {
        format!("{} ({} ago)", moment(at), age(self.style.now, at))
    }

    fn waiting(&mut self, run: &RunView) {
        match &run.waiting {
            None => {}
            Some(WaitingView::Slot { position }) => {
                self.fact("waits for", &format!("a free slot, place {position} in the queue"));
            }
            Some(WaitingView::Session { session }) => {
                self.fact("waits for", &format!("the session {}, which another run has", one_line(session)));
            }
            Some(WaitingView::Answer { question, text, until, allow_rules: _ }) => {
                self.fact("waits for", &format!("an answer to {question}: {}", one_line(text)));
                self.fact("", &format!("until {}, then it is denied", moment(until)));
                self.fact("", &answer_commands(&run.short_id, question));
            }
        }
    }

    /// Adds the results of checking the answer and the acceptance commands.
    fn answer_checks(&mut self, run: &RunView) {
        if run.attempts > 1 {
            self.fact("attempts", &count(run.attempts));
        }
        if run.structured.is_some() {
            self.fact("value", if run.repaired { "valid, its spelling was mended" } else { "valid" });
        }
        if let Some(Outcome::Failed { failure: Failure::Schema { errors, .. } }) = &run.outcome {
            for (index, error) in errors.iter().enumerate() {
                self.fact(if index == 0 { "wrong" } else { "" }, &one_line(error));
            }
        }
        match run.verification {
            Some(Verification::Verified) => {
                self.fact("success", "verified: all acceptance commands succeeded")
            }
            Some(Verification::Claimed) if run.acceptance.is_empty() => {
                self.fact("success", "unverified (no accept commands)");
            }
            Some(Verification::Claimed) => {
                self.fact("success", "claimed: its acceptance commands did not all come to an end");
            }
            None => {}
        }
        for (index, command) in run.acceptance.iter().enumerate() {
            let label = if index == 0 { "acceptance" } else { "" };
            let command_line = one_line(&command.command.join(" "));
            let time = span(command.duration_ms);
            self.fact(label, &format!("{command_line} {} ({time})", one_line(&command.explanation)));
        }
    }

    fn relations(&mut self, run: &RunView) {
        if let Some(session) = &run.session {
            self.fact("session", session);
        }
        if let Some(parent) = run.parent {
            self.fact("parent", &parent.short());
        }
        for (index, child) in run.children.iter().enumerate() {
            let label = if index == 0 { "children" } else { "" };
            self.fact(
                label,
                &format!("{} {} {}", child.run_id.short(), one_line(&child.agent), child.status),
            );
        }
    }

    fn containment(&mut self, containment: Option<&Containment>) {
        let Some(containment) = containment else { return };
        let mut mechanisms = Vec::new();
        if containment.subreaper {
            mechanisms.push("subreaper".to_owned());
        }
        if containment.pid_namespace {
            mechanisms.push("pid namespace".to_owned());
        }
        if let Some(version) = &containment.cgroup {
            mechanisms.push(format!("cgroup {version}"));
        }
        if !containment.tags.is_empty() {
            mechanisms.push(format!("tags {}", containment.tags.join(" and ")));
        }
        if let Some(version) = containment.landlock {
            mechanisms.push(format!("landlock {version}"));
        }
        match containment.network {
            None | Some(NetworkRestriction::Open) => {}
            Some(NetworkRestriction::Closed) => mechanisms.push("no network".to_owned()),
            Some(NetworkRestriction::TcpClosed) => mechanisms.push("no TCP".to_owned()),
            Some(NetworkRestriction::HostsOnly) => mechanisms.push("no local sockets".to_owned()),
        }
        self.fact(
            "contained",
            &if mechanisms.is_empty() { "by nothing".to_owned() } else { mechanisms.join(", ") },
        );
        for (limit, enforcer) in &containment.limits {
            let by = match enforcer {
                Enforcer::Cgroup => "by its cgroup",
                Enforcer::Rlimit => "by an rlimit",
                Enforcer::Watch => "by watching the tree",
            };
            self.fact("", &format!("limit on {limit}: {by}"));
        }
        for missing in &containment.missing {
            self.fact("", &format!("missing: {}", one_line(missing)));
        }
    }
}

impl Page<'_> {
    fn changes(&mut self, changes: Option<&Changes>) {
        let Some(changes) = changes else { return };
        self.fact("changed", &changed_count(changes));
        for file in changes.files.iter().take(FILES_SHOWN) {
            let path = one_line(&file.path);
            let line = match &file.change {
                FileChange::Renamed { from } => format!("renamed   {} to {path}", one_line(from)),
                change => format!("{:<9} {path}", change.as_str()),
            };
            self.fact("", &line);
        }
        let more = changes.count().saturating_sub(FILES_SHOWN as u64);
        if more > 0 {
            self.fact("", &format!("and {} more; --json names up to 1,000", count(more)));
        }
        if let Some(Commits { before, after }) = &changes.commits {
            let short = |commit: &Option<String>| {
                commit.as_deref().map_or("nothing", |id| id.get(..12).unwrap_or(id)).to_owned()
            };
            self.fact("commits", &format!("{}..{}", short(before), short(after)));
        }
    }

    fn branch(&mut self, branch: Option<&Branch>) {
        let Some(branch) = branch else { return };
        let name = one_line(&branch.name);
        self.fact("branch", &name);
        self.fact("", &format!("git merge {name} brings the work in, git branch -D {name} drops it"));
    }
}

/// Describes how much of a run's journal could not be read.
pub(crate) fn damage_warning(lines: u64) -> String {
    match lines {
        1 => "1 damaged line of its journal could not be read".to_owned(),
        lines => format!("{lines} damaged lines of its journal could not be read"),
    }
}
