//! Declarations in a crate that denies every warning and forbids unsafe code. A test binary of its own, because
//! `discover` finds every declaration of a binary.
#![forbid(unsafe_code)]
#![deny(warnings, missing_docs)]

/// Jobs for registration by name.
pub mod jobs {
    use punctual::{Occurrence, job};

    /// The nightly report.
    #[job(name = "nightly-report", cron = "0 2 * * *", zone = "Europe/Warsaw")]
    pub async fn report(occurrence: Occurrence) {
        drop(occurrence);
    }
}

#[test]
fn declarations_raise_no_warning() {
    #[punctual::job(name = "local", every = "5m", blocking)]
    fn local() {}

    let builder = punctual::Punctual::builder().register::<jobs::report>().register::<local>();
    assert!(builder.build().is_ok());
    assert!(punctual::Punctual::builder().discover().build().is_ok());
    local();
}
