//! The seam between the engine and its doors: each request is a type that names the type of its answer and computes it.
//! A new request is one file: the request, the answer, and `impl Ask`.

use std::any::Any;
use std::sync::Arc;

use domain::id::RunId;
use domain::run::Caller;
use futures::FutureExt;
use futures::future::BoxFuture;

use crate::api::{EngineError, Progress};
use crate::engine::Engine;
use crate::handle::EngineHandle;
use crate::ipc::relay::Relay;

/// Called with the progress of the runs that a request waits for.
pub type OnProgress<'a> = &'a mut (dyn FnMut(Progress) + Send);

/// The future of an answer.
pub type EngineFuture<'a, T> = BoxFuture<'a, Result<T, EngineError>>;

/// A request to the engine.
pub trait Ask: Send + Sized + 'static {
    type Answer: Send + 'static;

    /// Answers the request of a door outside of runs, or, in the worker of a run, of the run's agent.
    fn answer(
        self,
        engine: &Arc<Engine>,
        progress: OnProgress<'_>,
    ) -> impl Future<Output = Result<Self::Answer, EngineError>> + Send;

    /// Answers the request of a door inside a run: as a rule, only the owner of the machine may make it. A request that
    /// agents may make too goes to the run's worker (`relayed_requests::relay`).
    fn relay(
        self,
        _relay: &Relay,
        _progress: OnProgress<'_>,
    ) -> impl Future<Output = Result<Self::Answer, EngineError>> + Send {
        async { Err(EngineError::denied("this is for the owner of the machine, not from inside a run")) }
    }
}

/// An answer whose type only its request knows.
pub type AnyAnswer = Box<dyn Any + Send>;

/// A request whose type is not known, for implementations of [`EngineApi`].
pub trait AnyRequest: Send {
    fn into_any(self: Box<Self>) -> Box<dyn Any + Send>;

    fn ask<'a>(
        self: Box<Self>,
        engine: &'a EngineHandle,
        progress: OnProgress<'a>,
    ) -> EngineFuture<'a, AnyAnswer>;
}

impl<R: Ask> AnyRequest for R {
    fn into_any(self: Box<Self>) -> Box<dyn Any + Send> {
        self
    }

    fn ask<'a>(
        self: Box<Self>,
        engine: &'a EngineHandle,
        progress: OnProgress<'a>,
    ) -> EngineFuture<'a, AnyAnswer> {
        async move {
            let answer = engine.ask_with_progress(*self, progress).await?;
            Ok(Box::new(answer) as AnyAnswer)
        }
        .boxed()
    }
}

/// The engine as a trait object, so that a test of a door can replace it by a script, without processes and without a
/// journal.
pub trait EngineApi: Send + Sync + 'static {
    fn set_caller(&self, name: &str);
    fn caller(&self) -> Option<Caller>;
    fn detach(&self, run: RunId);
    fn disconnect(&self);

    /// Answers a request with a value of the type that `Ask::Answer` of the request names.
    fn ask_any<'a>(
        &'a self,
        request: Box<dyn AnyRequest>,
        progress: OnProgress<'a>,
    ) -> EngineFuture<'a, AnyAnswer>;
}

impl dyn EngineApi {
    pub async fn ask<R: Ask>(&self, request: R) -> Result<R::Answer, EngineError> {
        self.ask_with_progress(request, &mut |_| {}).await
    }

    pub async fn ask_with_progress<R: Ask>(
        &self,
        request: R,
        progress: OnProgress<'_>,
    ) -> Result<R::Answer, EngineError> {
        let answer = self.ask_any(Box::new(request), progress).await?;
        Ok(*answer.downcast::<R::Answer>().expect("a request is answered with its own type of answer"))
    }
}

impl EngineApi for EngineHandle {
    fn set_caller(&self, name: &str) {
        self.set_caller(name);
    }

    fn caller(&self) -> Option<Caller> {
        self.caller()
    }

    fn detach(&self, run: RunId) {
        self.detach(run);
    }

    fn disconnect(&self) {
        self.disconnect();
    }

    fn ask_any<'a>(
        &'a self,
        request: Box<dyn AnyRequest>,
        progress: OnProgress<'a>,
    ) -> EngineFuture<'a, AnyAnswer> {
        request.ask(self, progress)
    }
}
