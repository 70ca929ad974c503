//! The file operations of a loop: one after the other, in the order of their calls, on a thread of their own, so that a
//! slow disk does not stop the worker from noticing a cancellation.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use domain::access::{Access, AccessEffect};
use domain::policy::{Use, UsePath};
use domain::run::agent_loop::ToolRequest;
use tokio::sync::mpsc;

use super::signal::LoopSignal;
use super::tools::{
    EditDigests, EditRequest, EntryKind, FileRoots, ReadRequest, ResolvedPath, SearchRequest, ToolError,
    ToolOutput, Visibility, WriteRequest, edit, list, plan_edit, read, search, write,
};

/// One operation.
pub(crate) struct FileJob {
    pub(crate) call: u32,
    pub(crate) request: ToolRequest,
    pub(crate) path: ResolvedPath,
    /// What an edit changes, as it was recorded before.
    pub(crate) edit: Option<EditDigests>,
}

/// The operations of one run.
pub(crate) struct FileJobs {
    context: Arc<FileContext>,
    waiting: VecDeque<FileJob>,
    is_busy: bool,
    signals_tx: mpsc::Sender<LoopSignal>,
}

/// What every operation needs.
struct FileContext {
    roots: FileRoots,
    cancelled: AtomicBool,
    /// Distinguishes the temporary files of this run from those of others.
    run: String,
}

impl FileJobs {
    pub(crate) fn new(roots: FileRoots, run: String, signals_tx: mpsc::Sender<LoopSignal>) -> Self {
        let context = FileContext { roots, cancelled: AtomicBool::new(false), run };
        Self { context: Arc::new(context), waiting: VecDeque::new(), is_busy: false, signals_tx }
    }

    pub(crate) fn resolve(&self, path: &str) -> Result<ResolvedPath, ToolError> {
        self.context.roots.resolve(path)
    }

    /// Returns what an edit would change.
    pub(crate) fn plan_edit(&self, request: &ToolRequest, path: &ResolvedPath) -> Option<EditDigests> {
        let ToolRequest::EditFile { old_text, new_text, replace_all, .. } = request else { return None };
        let request =
            EditRequest { old: old_text, new: new_text, replace_all: *replace_all, expected: None, call: "" };
        // An edit that cannot be made reports its error when it is tried.
        plan_edit(&self.context.roots, path, &request).ok()
    }

    pub(crate) fn push(&mut self, job: FileJob) {
        self.waiting.push_back(job);
        if !self.is_busy {
            self.start_next();
        }
    }

    /// Starts the next operation. Call it whenever one has ended.
    pub(crate) fn start_next(&mut self) {
        self.is_busy = false;
        let Some(job) = self.waiting.pop_front() else { return };
        self.is_busy = true;
        let (context, signals_tx) = (Arc::clone(&self.context), self.signals_tx.clone());
        tokio::task::spawn_blocking(move || {
            let call = job.call;
            let result = context.perform(&job);
            // If the driver is gone, nobody needs the result.
            let _ = signals_tx.blocking_send(LoopSignal::FileEnded { call, result });
        });
    }

    /// Ends a search, and drops what has not begun. Returns the dropped calls.
    pub(crate) fn cancel(&mut self) -> Vec<u32> {
        self.context.cancelled.store(true, Ordering::Relaxed);
        self.waiting.drain(..).map(|job| job.call).collect()
    }

    /// Returns whether no operation runs or waits.
    pub(crate) fn is_idle(&self) -> bool {
        !self.is_busy && self.waiting.is_empty()
    }
}

impl FileContext {
    fn perform(&self, job: &FileJob) -> Result<ToolOutput, ToolError> {
        let (roots, path) = (&self.roots, &job.path);
        let call = format!("{}-{}", self.run, job.call);
        match &job.request {
            ToolRequest::ReadFile { offset, limit, .. } => {
                read(roots, path, ReadRequest { first_line: *offset, lines_max: *limit })
            }
            ToolRequest::WriteFile { content, .. } => {
                write(roots, path, &WriteRequest { content, call: &call })
            }
            ToolRequest::EditFile { old_text, new_text, replace_all, .. } => {
                let request = EditRequest {
                    old: old_text,
                    new: new_text,
                    replace_all: *replace_all,
                    expected: job.edit.as_ref(),
                    call: &call,
                };
                edit(roots, path, &request).map(|(output, _)| output)
            }
            ToolRequest::ListDirectory { .. } => list(roots, path),
            ToolRequest::SearchFiles(request) => {
                let request = SearchRequest {
                    pattern: &request.pattern,
                    is_literal: request.is_literal,
                    ignore_case: request.ignore_case,
                    glob: request.glob.as_deref(),
                };
                search(roots, path, &request, &self.cancelled)
            }
            ToolRequest::RunCommand { .. }
            | ToolRequest::ReadOutput { .. }
            | ToolRequest::ReportStep { .. }
            | ToolRequest::Finish { .. } => unreachable!("only calls with a path become file operations"),
        }
    }
}

/// Returns what lists and searches may show: files that may be read, and directories with something to read in them.
pub(crate) fn visibility(access: Access) -> Visibility {
    Box::new(move |path, kind| {
        let path = UsePath::plain(&path.display().to_string());
        let of = match kind {
            EntryKind::File => Use::Read(path),
            EntryKind::Directory => Use::List(path),
        };
        access.decide(&of).effect == AccessEffect::Allow
    })
}
