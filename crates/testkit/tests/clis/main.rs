//! Real agents of vendors: each repeats the answer of the script, without a network.
//!
//! Their other behaviour is tested with the backends that drive them.

mod acp_adapters_answer;
mod isolation;
mod repeats_the_script;
