//! Validates an answer for which JSON or a schema was requested: finds the value in the agent's text, checks it
//! whatever its vendor claims, and stores the errors for the next attempt. A time-out bounds the check: some schemas
//! take for ever.

use std::time::Duration;

use backends::contract::{AgentAnswer, Conclusion};
use config::answer::{self, AnswerFormat, ExtractedValue, InvalidAnswer, Schema};
use domain::run::{AgentEnd, Failure, StdStream};
use domain::setup::Setup;
use journal::{SpoolReader, StoreError};
use serde_json::Value;
use tokio::sync::oneshot;

use super::supervisor::RunSupervisor;

/// How long one check may take. The supervisor does nothing else meanwhile, and its keeper must not treat it as hung.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);
/// Recursion over a value and its schema, both of bounded depth, stays far below this.
const STACK_BYTES: usize = 16 << 20;
/// The most of an answer that is read: somewhat more than the parser accepts, so that it reports a longer one.
const TEXT_BYTES_MAX: usize = (4 << 20) + 1;
/// The most of the errors in the outcome's reason.
const REASON_BYTES_MAX: usize = 1 << 10;

/// An answer that does not match the requested schema.
#[derive(Debug, Default)]
pub(super) struct InvalidOutput {
    pub(super) text: String,
    pub(super) errors: Vec<String>,
}

impl RunSupervisor {
    /// Validates the answer of an attempt that ended regularly.
    pub(super) async fn validate_output(
        &mut self,
        mut conclusion: Conclusion,
    ) -> Result<Conclusion, StoreError> {
        let is_valid_end = match &conclusion.end {
            // The verdict of the vendor's program is not final.
            AgentEnd::Done | AgentEnd::Failed(Failure::Schema { .. }) => true,
            AgentEnd::Failed(_)
            | AgentEnd::OverBudget(_)
            | AgentEnd::Refused(_)
            | AgentEnd::Unanswered
            | AgentEnd::Lost => false,
        };
        if !is_valid_end || !self.spec.setup.requires_structured_output() {
            return Ok(conclusion);
        }
        let text = self.answer_text(&conclusion.answer)?;
        let structured = conclusion.structured.take();
        let (text, result) = match validate(&self.spec.setup, structured, text).await {
            Ok(validated) => validated,
            Err(reason) => {
                conclusion.end = AgentEnd::Failed(Failure::Output { reason });
                return Ok(conclusion);
            }
        };
        match result {
            Ok(ExtractedValue { value, repaired }) => {
                conclusion.end = AgentEnd::Done;
                conclusion.structured = Some(value);
                (self.repaired, self.invalid_output) = (repaired, None);
            }
            Err(InvalidAnswer { errors }) => {
                let reason = domain::size::head(&errors.join("; "), REASON_BYTES_MAX).to_owned();
                conclusion.end = AgentEnd::Failed(Failure::Schema { reason, errors: errors.clone() });
                self.invalid_output = Some(InvalidOutput { text, errors });
            }
        }
        Ok(conclusion)
    }

    fn answer_text(&self, answer: &AgentAnswer) -> Result<String, StoreError> {
        Ok(match answer {
            AgentAnswer::Text(text) => text.clone(),
            AgentAnswer::Stdout => {
                let written = SpoolReader::new(&self.dir, StdStream::Stdout).read(0, TEXT_BYTES_MAX)?.bytes;
                String::from_utf8_lossy(&written).into_owned()
            }
            AgentAnswer::Nothing => String::new(),
        })
    }
}

/// A text, and the result of its validation.
type ValidationResult = (String, Result<ExtractedValue, InvalidAnswer>);

/// Validates in its own thread, which is abandoned if it takes too long: it ends with the worker.
async fn validate(
    setup: &Setup,
    structured: Option<Value>,
    text: String,
) -> Result<ValidationResult, String> {
    let schema = setup.output_schema.clone();
    let (done, result) = oneshot::channel();
    let check = move || {
        let result = expected_shape(schema.as_ref()).map(|shape| match structured {
            Some(value) => {
                answer::validate(value, &shape).map(|value| ExtractedValue { value, repaired: false })
            }
            None => answer::extract_value(&text, &shape),
        });
        // The receiver has given up after its time-out.
        let _ = done.send(result.map(|result| (text, result)));
    };
    let thread = std::thread::Builder::new().name("check".to_owned()).stack_size(STACK_BYTES);
    thread.spawn(check).map_err(|error| format!("it could not be checked: {error}"))?;
    match tokio::time::timeout(CHECK_TIMEOUT, result).await {
        Ok(Ok(validated)) => validated,
        Ok(Err(_)) => Err("the check of its shape failed; that is a defect in volery".to_owned()),
        Err(_) => Err(format!("to check its shape took longer than {} s", CHECK_TIMEOUT.as_secs())),
    }
}

fn expected_shape(schema: Option<&Value>) -> Result<AnswerFormat, String> {
    match schema {
        None => Ok(AnswerFormat::Json),
        Some(schema) => Schema::compile(schema).map(AnswerFormat::Schema).map_err(|error| error.to_string()),
    }
}
