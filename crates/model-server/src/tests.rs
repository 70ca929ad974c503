//! The server, asked by a plain HTTP client in each of its protocols.

mod client;
mod endings;
mod programs;
mod protocols;
mod purposes;
mod scripts;
