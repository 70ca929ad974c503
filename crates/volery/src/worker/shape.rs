//! The shape of an answer, where one was asked for: finds the value in what the agent said, checks it whatever its
//! vendor says of it, and keeps what was wrong for the next attempt. A clock bounds the check: a schema can be written
//! so that it takes for ever.

use std::time::Duration;

use backend::contract::{Answer, Conclusion};
use definition::answer::{self, Found, Schema, Shape, Unfit};
use domain::run::{AgentEnd, Failure, Stream};
use domain::setup::Setup;
use journal::{SpoolReader, StoreError};
use serde_json::Value;
use tokio::sync::oneshot;

use super::desk::Desk;

/// How long one check may take. The desk does nothing else meanwhile, and its keeper must not take it for hung.
const CHECK: Duration = Duration::from_secs(5);
/// Recursion over a value and its schema, both of bounded depth, stays far below this.
const STACK_BYTES: usize = 16 << 20;
/// The most of an answer that is read; somewhat more than is looked into, which is then told.
const TEXT_BYTES_MAX: usize = (4 << 20) + 1;
/// The most of the errors that the outcome tells in a line.
const REASON_BYTES_MAX: usize = 1 << 10;

/// An answer that does not have the shape that was asked for.
#[derive(Debug, Default)]
pub(super) struct UnfitAnswer {
    pub(super) text: String,
    pub(super) errors: Vec<String>,
}

impl Desk {
    /// Judges the answer of an attempt that ended in good order by its shape.
    pub(super) async fn with_value(&mut self, mut conclusion: Conclusion) -> Result<Conclusion, StoreError> {
        let in_order = match &conclusion.end {
            // What the vendor's program made of it is not the last word.
            AgentEnd::Done | AgentEnd::Failed(Failure::Schema { .. }) => true,
            AgentEnd::Failed(_)
            | AgentEnd::OverBudget(_)
            | AgentEnd::Refused(_)
            | AgentEnd::Unanswered
            | AgentEnd::Lost => false,
        };
        if !in_order || !self.spec.setup.wants_value() {
            return Ok(conclusion);
        }
        let text = self.text_of(&conclusion.answer)?;
        let given = conclusion.structured.take();
        let (text, found) = match checked(&self.spec.setup, given, text).await {
            Ok(checked) => checked,
            Err(reason) => {
                conclusion.end = AgentEnd::Failed(Failure::Output { reason });
                return Ok(conclusion);
            }
        };
        match found {
            Ok(Found { value, repaired }) => {
                conclusion.end = AgentEnd::Done;
                conclusion.structured = Some(value);
                (self.repaired, self.unfit) = (repaired, None);
            }
            Err(Unfit { errors }) => {
                let reason = domain::size::head(&errors.join("; "), REASON_BYTES_MAX).to_owned();
                conclusion.end = AgentEnd::Failed(Failure::Schema { reason, errors: errors.clone() });
                self.unfit = Some(UnfitAnswer { text, errors });
            }
        }
        Ok(conclusion)
    }

    fn text_of(&self, answer: &Answer) -> Result<String, StoreError> {
        Ok(match answer {
            Answer::Text(text) => text.clone(),
            Answer::Stdout => {
                let written = SpoolReader::new(&self.dir, Stream::Stdout).read(0, TEXT_BYTES_MAX)?.bytes;
                String::from_utf8_lossy(&written).into_owned()
            }
            Answer::Nothing => String::new(),
        })
    }
}

/// A text, and what was found in it.
type Checked = (String, Result<Found, Unfit>);

/// Checks in a thread of its own, which is left behind if it takes too long: it ends with the worker.
async fn checked(setup: &Setup, given: Option<Value>, text: String) -> Result<Checked, String> {
    let schema = setup.output_schema.clone();
    let (done, result) = oneshot::channel();
    let check = move || {
        let found = shape(schema.as_ref()).map(|shape| match given {
            Some(value) => answer::check(value, &shape).map(|value| Found { value, repaired: false }),
            None => answer::read(&text, &shape),
        });
        // Whoever waited has given up.
        let _ = done.send(found.map(|found| (text, found)));
    };
    let thread = std::thread::Builder::new().name("check".to_owned()).stack_size(STACK_BYTES);
    thread.spawn(check).map_err(|error| format!("it could not be checked: {error}"))?;
    match tokio::time::timeout(CHECK, result).await {
        Ok(Ok(checked)) => checked,
        Ok(Err(_)) => Err("the check of its shape failed; that is a defect in volery".to_owned()),
        Err(_) => Err(format!("to check its shape took longer than {} s", CHECK.as_secs())),
    }
}

fn shape(schema: Option<&Value>) -> Result<Shape, String> {
    match schema {
        None => Ok(Shape::Json),
        Some(schema) => Schema::compile(schema).map(Shape::Schema).map_err(|error| error.to_string()),
    }
}
