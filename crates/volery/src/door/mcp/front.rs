//! What the door asks of the app, as a trait, so that the door can be tested against a script, without processes and
//! without a journal.

use std::path::PathBuf;

use domain::id::RunId;
use domain::run::Caller;
use futures::FutureExt;
use futures::future::BoxFuture;

use crate::app::{
    AgentList, Answer, Answered, App, AppError, Cancel, Cancelled, Entry, Excerpt, Folder, FoundAgents,
    GetRun, Health, HealthReport, ListAgents, ListRuns, OutputPage, Progress, ReadOutput, RunDetail, RunList,
    Start, Started, Wait, Waited,
};

/// The future of one answer.
pub(crate) type Answering<'a, T> = BoxFuture<'a, Result<T, AppError>>;

/// The app as the door sees it. Every method is that of `App`.
pub(crate) trait Front: Send + Sync + 'static {
    fn set_caller(&self, name: &str);
    fn caller(&self) -> Option<Caller>;
    fn list_agents(&self, ask: ListAgents) -> Answering<'_, AgentList>;
    fn read_agents(&self, folder: Folder) -> Answering<'_, FoundAgents>;
    fn iac_entries(&self) -> Answering<'_, Vec<Entry>>;
    fn iac_entry(&self, id: String, bytes_max: usize) -> Answering<'_, Option<(Entry, Excerpt)>>;
    fn doubts_about_keys(&self, file: PathBuf) -> BoxFuture<'_, Vec<String>>;
    fn start(&self, ask: Start) -> Answering<'_, Started>;
    fn wait<'a>(&'a self, ask: Wait, progress: &'a mut (dyn FnMut(Progress) + Send))
    -> Answering<'a, Waited>;
    fn get_run(&self, ask: GetRun) -> Answering<'_, RunDetail>;
    fn list_runs(&self, ask: ListRuns) -> Answering<'_, RunList>;
    fn cancel(&self, ask: Cancel) -> Answering<'_, Cancelled>;
    fn answer(&self, ask: Answer) -> Answering<'_, Answered>;
    fn health(&self, ask: Health) -> Answering<'_, HealthReport>;
    fn read_output(&self, ask: ReadOutput) -> Answering<'_, OutputPage>;
    fn detach(&self, run: RunId);
    fn leave(&self);
}

impl Front for App {
    fn set_caller(&self, name: &str) {
        self.set_caller(name);
    }

    fn caller(&self) -> Option<Caller> {
        self.caller()
    }

    fn list_agents(&self, ask: ListAgents) -> Answering<'_, AgentList> {
        self.list_agents(ask).boxed()
    }

    fn read_agents(&self, folder: Folder) -> Answering<'_, FoundAgents> {
        self.read_agents(folder).boxed()
    }

    fn iac_entries(&self) -> Answering<'_, Vec<Entry>> {
        self.iac_entries().boxed()
    }

    fn iac_entry(&self, id: String, bytes_max: usize) -> Answering<'_, Option<(Entry, Excerpt)>> {
        self.iac_entry(id, bytes_max).boxed()
    }

    fn doubts_about_keys(&self, file: PathBuf) -> BoxFuture<'_, Vec<String>> {
        self.doubts_about_keys(file).boxed()
    }

    fn start(&self, ask: Start) -> Answering<'_, Started> {
        self.start(ask).boxed()
    }

    fn wait<'a>(
        &'a self,
        ask: Wait,
        progress: &'a mut (dyn FnMut(Progress) + Send),
    ) -> Answering<'a, Waited> {
        self.wait(ask, progress).boxed()
    }

    fn get_run(&self, ask: GetRun) -> Answering<'_, RunDetail> {
        self.get_run(ask).boxed()
    }

    fn list_runs(&self, ask: ListRuns) -> Answering<'_, RunList> {
        self.list_runs(ask).boxed()
    }

    fn cancel(&self, ask: Cancel) -> Answering<'_, Cancelled> {
        self.cancel(ask).boxed()
    }

    fn answer(&self, ask: Answer) -> Answering<'_, Answered> {
        self.answer(ask).boxed()
    }

    fn health(&self, ask: Health) -> Answering<'_, HealthReport> {
        self.health(ask).boxed()
    }

    fn read_output(&self, ask: ReadOutput) -> Answering<'_, OutputPage> {
        self.read_output(ask).boxed()
    }

    fn detach(&self, run: RunId) {
        self.detach(run);
    }

    fn leave(&self) {
        self.leave();
    }
}
