//! How much of a list.

use clap::Args;

use crate::client::Call;

/// How much of a list.
#[derive(Debug, Args)]
pub(crate) struct Paging {
    /// At most so many rows, 1 to 1000.
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: u32,
    /// Where to go on, as the page before said.
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
}

impl Paging {
    pub(crate) fn on(&self, call: Call) -> Call {
        call.with("limit", Some(self.limit)).with("after", self.after.as_ref())
    }
}
