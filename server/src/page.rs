//! Pagination: bounded rows and a cursor of the next page. No offsets.

use std::str::FromStr;

use punctual::inspect::{PAGE_LIMIT_MAX, PageRequest, PageResult};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::problem::{ApiResult, Problem};

/// Default number of rows of a list.
const LIMIT_DEFAULT: usize = 50;
/// Default number of rows of a list of executions.
const EXECUTIONS_LIMIT_DEFAULT: usize = 20;

/// Query parameters of a page.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct PageQuery {
    /// Maximum number of rows: 1 to 1000, default 50.
    #[param(minimum = 1, maximum = 1000)]
    pub(crate) limit: Option<usize>,
    /// The `next` of the previous page.
    pub(crate) after: Option<String>,
}

impl PageQuery {
    /// Returns the page of a list of executions.
    pub(crate) fn of_executions(limit: Option<usize>, after: Option<String>) -> Self {
        Self { limit: limit.or(Some(EXECUTIONS_LIMIT_DEFAULT)), after }
    }

    /// Returns the limit; fails when it is out of range.
    pub(crate) fn limit(&self) -> ApiResult<usize> {
        match self.limit {
            None => Ok(LIMIT_DEFAULT),
            Some(limit) if (1..=PAGE_LIMIT_MAX).contains(&limit) => Ok(limit),
            Some(limit) => Err(Problem::refused(format!(
                "limit: {limit} is out of range, use 1 to {PAGE_LIMIT_MAX}"
            ))
            .field("limit", "must be between 1 and 1000")),
        }
    }

    /// Returns the page request for the storage.
    pub(crate) fn page<Id: FromStr>(&self) -> ApiResult<PageRequest<Id>> {
        let limit = self.limit()?;
        let Some(after) = &self.after else { return Ok(PageRequest::first(limit)) };
        let after = after.parse().map_err(|_| {
            Problem::refused(format!("{after:?} is not the `next` of a previous page"))
                .field("after", "use the `next` of the previous page, or leave it out")
        })?;
        Ok(PageRequest::after(after, limit))
    }
}

/// A page of rows and the cursor of the next one.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Listing<T> {
    /// The rows.
    pub(crate) items: Vec<T>,
    /// Send as `after` for the next page; null on the last page.
    pub(crate) next: Option<String>,
}

impl<T> Listing<T> {
    /// Returns a complete list.
    pub(crate) fn whole(items: Vec<T>) -> Self {
        Self { items, next: None }
    }

    /// Returns a page of the storage as views.
    pub(crate) fn of<Row, Id: ToString>(
        paged: PageResult<Row, Id>,
        view: impl Fn(Row) -> T,
    ) -> Self {
        let next = paged.next.map(|id| id.to_string());
        Self { items: paged.rows.into_iter().map(view).collect(), next }
    }
}
