//! What the door asks of the engine: the front of `App`, as a trait so that the door can be tested against a
//! scripted engine, without processes and without a journal.

use domain::id::RunId;
use futures::future::BoxFuture;

use crate::app::{
    AgentList, App, Answer, Answered, AppError, Cancel, Cancelled, GetRun, Health, HealthReport, ListAgents,
    ListRuns, OutputPage, Progress, ReadOutput, RunDetail, RunList, Start, Started, Wait, Waited,
};

/// The future of one answer.
pub type Answering<'a, T> = BoxFuture<'a, Result<T, AppError>>;

/// The engine as the door sees it. Every method is that of `App`.
pub trait Engine: Send + Sync + 'static {
    fn set_caller(&self, name: &str);
    fn list_agents(&self, ask: ListAgents) -> Answering<'_, AgentList>;
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

impl Engine for App {
    fn set_caller(&self, name: &str) {
        App::set_caller(self, name);
    }

    fn list_agents(&self, ask: ListAgents) -> Answering<'_, AgentList> {
        Box::pin(App::list_agents(self, ask))
    }

    fn start(&self, ask: Start) -> Answering<'_, Started> {
        Box::pin(App::start(self, ask))
    }

    fn wait<'a>(
        &'a self,
        ask: Wait,
        progress: &'a mut (dyn FnMut(Progress) + Send),
    ) -> Answering<'a, Waited> {
        Box::pin(App::wait(self, ask, progress))
    }

    fn get_run(&self, ask: GetRun) -> Answering<'_, RunDetail> {
        Box::pin(App::get_run(self, ask))
    }

    fn list_runs(&self, ask: ListRuns) -> Answering<'_, RunList> {
        Box::pin(App::list_runs(self, ask))
    }

    fn cancel(&self, ask: Cancel) -> Answering<'_, Cancelled> {
        Box::pin(App::cancel(self, ask))
    }

    fn answer(&self, ask: Answer) -> Answering<'_, Answered> {
        Box::pin(App::answer(self, ask))
    }

    fn health(&self, ask: Health) -> Answering<'_, HealthReport> {
        Box::pin(App::health(self, ask))
    }

    fn read_output(&self, ask: ReadOutput) -> Answering<'_, OutputPage> {
        Box::pin(App::read_output(self, ask))
    }

    fn detach(&self, run: RunId) {
        App::detach(self, run);
    }

    fn leave(&self) {
        App::leave(self);
    }
}
