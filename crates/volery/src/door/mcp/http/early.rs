//! An answer that is begun before it is there. The library sends no headers until it has the first message, and some
//! clients give up on a server that is silent for a minute; a call without a progress token is silent.

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

use super::limits::Limits;
use super::reply::Reply;

const EVENT_STREAM: &str = "text/event-stream";
/// A comment of the stream: clients read over it.
const SIGN: &[u8] = b":\n\n";

/// What the library answers with.
pub(super) type Answer = Response<BoxBody<Bytes, Infallible>>;
pub(super) type Answering = BoxFuture<'static, Answer>;

/// Returns the answer, or after a moment the beginning of one. Whoever drops it drops the answering too, which the
/// library understands as the end of the call.
pub(super) async fn answer(mut answering: Answering, limits: &Limits) -> Reply {
    match timeout(limits.headers_after, &mut answering).await {
        Ok(answer) => answer.map(|body| body.boxed_unsync()),
        Err(_) => begun(answering, limits.sign_every),
    }
}

enum Step {
    /// Says that it has begun.
    Begins(Answering),
    Waits(Answering),
    Streams(BoxBody<Bytes, Infallible>),
    Ended,
}

fn begun(answering: Answering, sign_every: Duration) -> Reply {
    let steps = stream::unfold(Step::Begins(answering), move |step| next(step, sign_every));
    let mut reply = Response::new(StreamBody::new(steps).boxed_unsync());
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    reply
}

async fn next(mut step: Step, sign_every: Duration) -> Option<(Result<Frame<Bytes>, Infallible>, Step)> {
    loop {
        step = match step {
            Step::Begins(answering) => return Some((Ok(sign()), Step::Waits(answering))),
            Step::Waits(mut answering) => match timeout(sign_every, &mut answering).await {
                Err(_) => return Some((Ok(sign()), Step::Waits(answering))),
                Ok(answer) if is_stream(&answer) => Step::Streams(answer.into_body()),
                Ok(answer) => return Some((Ok(event(answer).await), Step::Ended)),
            },
            Step::Streams(mut body) => {
                let Some(Ok(frame)) = body.frame().await else { return None };
                return Some((Ok(frame), Step::Streams(body)));
            }
            Step::Ended => return None,
        }
    }
}

fn is_stream(answer: &Answer) -> bool {
    let kind = answer.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with(EVENT_STREAM))
}

/// An answer in one piece as an event. Its status comes too late, and says nothing that the message does not.
async fn event(answer: Answer) -> Frame<Bytes> {
    let Ok(body) = answer.into_body().collect().await;
    let text = String::from_utf8_lossy(&body.to_bytes()).replace(['\r', '\n'], " ");
    Frame::data(Bytes::from(format!("data: {text}\n\n")))
}

fn sign() -> Frame<Bytes> {
    Frame::data(Bytes::from_static(SIGN))
}
