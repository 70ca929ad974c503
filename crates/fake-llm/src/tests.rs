//! Tests of the server with a plain HTTP client in each of its protocols.

mod http_client;
mod interrupted_answers;
mod protocols;
mod request_purposes;
mod scripts;
mod verification;
