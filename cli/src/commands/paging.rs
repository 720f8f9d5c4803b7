//! Paging of lists.

use clap::Args;

use crate::client::Call;

/// A page of a list.
#[derive(Debug, Args)]
pub(crate) struct Paging {
    /// Largest number of rows, 1 to 1000.
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: u32,
    /// Cursor of the page, as the previous page printed it.
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
}

impl Paging {
    /// Adds the page to the query of a call.
    pub(crate) fn apply(&self, call: Call) -> Call {
        call.with("limit", Some(self.limit)).with("after", self.after.as_ref())
    }
}
