//! Functions that the attribute can be placed on.
use punctual::job;

#[job(name = "a", every = "5m")]
fn plain() {}

#[job(name = "a", every = "5m", blocking)]
async fn both() {}

#[job(name = "a", every = "5m")]
async fn generic<T: Send>() {}

#[job(name = "a", every = "5m")]
struct NotAFunction;

fn main() {}
