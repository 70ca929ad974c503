//! Computes the cost of a run whose agents report only tokens: by the user's prices, else by the list of published
//! prices.

use backends::prices;
use domain::price;
use domain::run::Usage;

use super::supervisor::RunSupervisor;
use crate::clock;

impl RunSupervisor {
    /// Returns the usage of the run, with a cost if it is known or can be computed.
    pub(super) fn usage(&self) -> Usage {
        let state = self.log.state();
        let at = clock::now().into();
        let cost = price::cost(state, |attempt, reported| {
            let (backend, requested) =
                crate::admission::attempt_backend::backend_choice(&self.spec, attempt.choice as usize);
            let model = reported.or(requested.as_deref())?;
            let list = crate::admission::attempt_backend::capabilities(backend).prices;
            self.spec.prices.get(model).copied().or_else(|| prices::look_up(list, model, at))
        });
        Usage { cost, ..state.usage }
    }
}
