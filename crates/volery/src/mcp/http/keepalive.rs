//! Starts an answer early and keeps it alive. The library sends no headers before the first message, and some clients give
//! up on a server that is silent for a minute; a call without a progress token is silent.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Response};
use http_body::Frame;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, StreamBody};
use tokio::time::timeout;

use super::limits::HttpLimits;
use super::reply::HttpReply;

const EVENT_STREAM: &str = "text/event-stream";
/// A comment of the event stream, which clients ignore.
const KEEPALIVE_COMMENT: &[u8] = b":\n\n";

/// The response type of the library.
pub(super) type LibraryResponse = Response<BoxBody<Bytes, Infallible>>;
pub(super) type PendingResponse = BoxFuture<'static, LibraryResponse>;

/// Returns the answer, or after a moment a stream that will contain it. Dropping the reply drops the pending response too,
/// which the library treats as the end of the call.
pub(super) async fn answer(mut answering: PendingResponse, limits: &HttpLimits) -> HttpReply {
    match timeout(limits.headers_after, &mut answering).await {
        Ok(answer) => answer.map(|body| body.boxed_unsync()),
        Err(_) => begin_stream(answering, limits.keepalive_interval),
    }
}

enum StreamStep {
    /// Sends the first keepalive.
    Starting(PendingResponse),
    Waiting(PendingResponse),
    Streaming(BoxBody<Bytes, Infallible>),
    Ended,
}

fn begin_stream(answering: PendingResponse, keepalive_interval: Duration) -> HttpReply {
    let steps = stream::unfold(StreamStep::Starting(answering), move |step| next(step, keepalive_interval));
    let mut reply = Response::new(StreamBody::new(steps).boxed_unsync());
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    reply
}

async fn next(
    mut step: StreamStep,
    keepalive_interval: Duration,
) -> Option<(Result<Frame<Bytes>, Infallible>, StreamStep)> {
    loop {
        step = match step {
            StreamStep::Starting(answering) => {
                return Some((Ok(keepalive_frame()), StreamStep::Waiting(answering)));
            }
            StreamStep::Waiting(mut answering) => match timeout(keepalive_interval, &mut answering).await {
                Err(_) => return Some((Ok(keepalive_frame()), StreamStep::Waiting(answering))),
                Ok(answer) if is_stream(&answer) => StreamStep::Streaming(answer.into_body()),
                Ok(answer) => return Some((Ok(event(answer).await), StreamStep::Ended)),
            },
            StreamStep::Streaming(mut body) => {
                let Some(Ok(frame)) = body.frame().await else { return None };
                return Some((Ok(frame), StreamStep::Streaming(body)));
            }
            StreamStep::Ended => return None,
        }
    }
}

fn is_stream(answer: &LibraryResponse) -> bool {
    let kind = answer.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with(EVENT_STREAM))
}

/// Converts a complete answer to an event. Its status is lost, but the message has the same information.
async fn event(answer: LibraryResponse) -> Frame<Bytes> {
    let Ok(body) = answer.into_body().collect().await;
    let text = String::from_utf8_lossy(&body.to_bytes()).replace(['\r', '\n'], " ");
    Frame::data(Bytes::from(format!("data: {text}\n\n")))
}

fn keepalive_frame() -> Frame<Bytes> {
    Frame::data(Bytes::from_static(KEEPALIVE_COMMENT))
}
