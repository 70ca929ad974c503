//! The dialects: each has the tool names and shapes of one system that this server can stand in for, and translates them
//! to requests of the app and its answers back. What they have in common is here; none has logic of its own.

mod contract;
mod delegate;
mod sub_agents;
mod surface;
mod volery;

pub(crate) use contract::DialectName;
pub(crate) use surface::{Surface, open};

use contract::{Dialect, Resources};
use delegate::{Delegated, Unanswered, delegate};
