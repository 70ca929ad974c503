//! What is left of a run when the processes that carry it out are killed: by whom, when, and in which combination.

mod play;

mod after_the_notification;
mod client_leaves;
mod every_combination;
mod of_the_server;
mod random;
