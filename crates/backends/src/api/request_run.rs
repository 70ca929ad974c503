//! Carries out one request of the model client: calls the service, again if it has no capacity, and reports.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::Read;
use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::run::{ModelError, Usage};

use super::answer::AnswerBuilder;
use super::client_process::{Connection, PooledAgent, RequestScheduler};
use super::failure::ServiceError;
use super::http_call::{Call, CallError, CallLimits, HttpEndpoint, PreparedRequest};
use super::model_client::{ClientRequest, FailureCause, ModelClientEvent, RequestFailure, RequestProgress};

/// No request runs longer; larger time-outs overflow the clock.
const TIMEOUT_MAX: Duration = Duration::from_secs(30 * 24 * 3600);
/// The most that is read after an answer, to use the connection again.
const REST_BYTES_MAX: u64 = 64 << 10;
const TEXT_EVENT_BYTES_MAX: usize = 64 << 10;
const BACKOFF_MAX: Duration = Duration::from_secs(60);

pub(super) fn run(scheduler: &Arc<RequestScheduler>, request: &ClientRequest) {
    let id = request.id;
    let refuse = |error: &ServiceError, cause| {
        let call_error = CallError {
            error: error.clone(),
            cause,
            progress: RequestProgress::NotAccepted,
            usage: None,
            is_connection_lost: false,
        };
        scheduler.finish(id, &failed(id, call_error), Connection::Closed);
    };
    let service = match &scheduler.service {
        Ok(service) => service,
        Err(error) => return refuse(error, FailureCause::Service),
    };
    match service.prepare(&request.request) {
        Ok(prepared) => RequestRun { scheduler, service, request, prepared, begun: Instant::now() }.run(),
        Err(error) => refuse(&error, FailureCause::Unsupported),
    }
}

struct RequestRun<'a> {
    scheduler: &'a Arc<RequestScheduler>,
    service: &'a HttpEndpoint,
    request: &'a ClientRequest,
    prepared: PreparedRequest,
    begun: Instant,
}

impl RequestRun<'_> {
    fn run(&self) {
        let id = self.request.id;
        let (mut retry, mut has_reconnected) = (0, false);
        loop {
            let Some(pooled) = self.scheduler.take_agent(self.service, id) else { return };
            let PooledAgent { agent, is_reused } = pooled;
            let limits = CallLimits { total: self.time_left(), idle: millis(self.request.idle_ms) };
            let mut reporter = Reporter { scheduler: self.scheduler, id, model: None, usage: None };
            let mut report = |answer: &mut AnswerBuilder| reporter.report(answer);
            let error = match self.service.call(&agent, &self.prepared, limits, &mut report) {
                Ok(call) => return self.answered(call, agent),
                Err(error) => error,
            };
            let wait = if error.is_connection_lost && is_reused && !has_reconnected {
                // The service closed the unused connection at the moment when the request was sent.
                has_reconnected = true;
                Some(Duration::ZERO)
            } else {
                retry += 1;
                self.retry_wait(&error, retry)
            };
            let Some(wait) = wait else {
                self.scheduler.finish(id, &failed(id, error), Connection::Idle(agent));
                return;
            };
            drop(agent);
            self.scheduler.release_agent(id);
            self.scheduler.report(id, &self.retrying(&error.error, wait));
            if !self.scheduler.pause(id, wait) {
                return;
            }
        }
    }

    fn time_left(&self) -> Duration {
        // Zero would be no limit at all.
        let total = millis(self.request.timeout_ms);
        total.saturating_sub(self.begun.elapsed()).max(Duration::from_millis(1))
    }

    /// Returns how long to wait before the request is sent again; `None` if it is not.
    fn retry_wait(&self, error: &CallError, retry: u32) -> Option<Duration> {
        let is_wanted = is_retryable(error) && retry <= self.service.config.retries;
        let wait = backoff(error.error.retry_after_s, retry, RandomState::new().build_hasher().finish());
        (is_wanted && wait < self.time_left()).then_some(wait)
    }

    fn retrying(&self, error: &ServiceError, wait: Duration) -> ModelClientEvent {
        let name = &self.service.config.name;
        let message = match error.error.is_capacity_error() {
            true => format!("{name} has no room ({}); asked again in {} s", error.message, wait.as_secs()),
            false => format!("the connection to {name} was lost ({}); asked again", error.message),
        };
        let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        ModelClientEvent::Retrying { id: self.request.id, error: error.error, message, wait_ms }
    }

    fn answered(&self, call: Call, agent: ureq::Agent) {
        let id = self.request.id;
        let usage = call.answer.usage();
        let last = match call.answer.finish(self.service.config.wire.name(), &self.request.request) {
            Ok(answer) => ModelClientEvent::Answered { id, answer: Box::new(answer) },
            Err(error) => failed(
                id,
                CallError {
                    error,
                    cause: FailureCause::Service,
                    progress: RequestProgress::AnswerBegun,
                    usage,
                    is_connection_lost: false,
                },
            ),
        };
        if !self.scheduler.finish(id, &last, Connection::Draining) {
            return;
        }
        // A connection can be used again only after the response was read to its end. An error means that it cannot.
        let _ = std::io::copy(&mut call.rest.take(REST_BYTES_MAX), &mut std::io::sink());
        self.scheduler.finish_draining(agent);
    }
}

/// Reports the parts of an answer.
struct Reporter<'a> {
    scheduler: &'a RequestScheduler,
    id: u64,
    model: Option<String>,
    usage: Option<Usage>,
}

impl Reporter<'_> {
    fn report(&mut self, answer: &mut AnswerBuilder) {
        let id = self.id;
        if let Some(model) = answer.model.as_ref().filter(|_| self.model.is_none()) {
            self.model = Some(model.clone());
            self.scheduler.report(id, &ModelClientEvent::Model { id, model: model.clone() });
        }
        if let Some(usage) = answer.usage().filter(|usage| Some(*usage) != self.usage) {
            self.usage = Some(usage);
            self.scheduler.report(id, &ModelClientEvent::Used { id, usage });
        }
        let text = answer.take_text();
        let mut rest = text.as_str();
        while !rest.is_empty() {
            let piece = domain::size::head(rest, TEXT_EVENT_BYTES_MAX);
            self.scheduler.report(id, &ModelClientEvent::Text { id, text: piece.to_owned() });
            rest = &rest[piece.len()..];
        }
    }
}

fn is_retryable(error: &CallError) -> bool {
    error.error.error.is_capacity_error()
        && !error.error.lasting
        && error.cause == FailureCause::Service
        && error.progress != RequestProgress::AnswerBegun
}

/// Returns the wait before a retry, the first of which is 1: what the service says, or twice as long each time. `random`
/// spreads the requests of many runs that were refused at the same moment.
pub(super) fn backoff(retry_after_s: Option<u64>, retry: u32, random: u64) -> Duration {
    let tenths = u32::try_from(random % 11).unwrap_or(0);
    match retry_after_s {
        Some(seconds) => {
            let wait = Duration::from_secs(seconds);
            wait + (wait / 100).min(Duration::from_millis(100)) * tenths
        }
        None => {
            let wait = Duration::from_secs(1 << retry.saturating_sub(1).min(6)).min(BACKOFF_MAX);
            wait * (15 + tenths) / 20
        }
    }
}

fn millis(time_ms: u64) -> Duration {
    Duration::from_millis(time_ms.max(1)).min(TIMEOUT_MAX)
}

fn failed(id: u64, error: CallError) -> ModelClientEvent {
    let is_unreachable =
        error.error.error == ModelError::Unreachable && error.progress == RequestProgress::NotAccepted;
    let is_retryable = is_retryable(&error) || is_unreachable;
    let CallError { error, cause, progress, usage, is_connection_lost: _ } = error;
    ModelClientEvent::Failed(RequestFailure {
        id,
        cause,
        error: error.error,
        message: match cause {
            FailureCause::IdleTimeout => "the service sent nothing for too long".to_owned(),
            FailureCause::TotalTimeout => "the request took too long".to_owned(),
            FailureCause::Service | FailureCause::Cancelled | FailureCause::Unsupported => error.message,
        },
        is_retryable,
        retry_after_ms: error.retry_after_s.map(|seconds| seconds.saturating_mul(1_000)),
        progress,
        usage,
    })
}
