//! Lists: at most so many rows, and where the next page begins. No offsets.

use std::str::FromStr;

use punctual::inspect::{PAGE_LIMIT_MAX, PageRequest, PageResult};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::problem::{Answer, Problem};

/// How many rows a list has when nobody says.
const LIMIT_DEFAULT: usize = 50;
/// The same for executions.
const EXECUTIONS_LIMIT_DEFAULT: usize = 20;

/// Which part of a list.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct PageQuery {
    /// At most so many rows: 1 to 1000, 50 when not given.
    #[param(minimum = 1, maximum = 1000)]
    pub(crate) limit: Option<usize>,
    /// The `next` of the page before.
    pub(crate) after: Option<String>,
}

impl PageQuery {
    /// Which part of a list of executions.
    pub(crate) fn of_executions(limit: Option<usize>, after: Option<String>) -> Self {
        Self { limit: limit.or(Some(EXECUTIONS_LIMIT_DEFAULT)), after }
    }

    /// The limit, within its bound.
    pub(crate) fn limit(&self) -> Answer<usize> {
        match self.limit {
            None => Ok(LIMIT_DEFAULT),
            Some(limit) if (1..=PAGE_LIMIT_MAX).contains(&limit) => Ok(limit),
            Some(limit) => Err(Problem::refused(format!(
                "the limit {limit} is not between 1 and {PAGE_LIMIT_MAX}"
            ))
            .field("limit", "must be between 1 and 1000")),
        }
    }

    /// The page as storages want it.
    pub(crate) fn page<Id: FromStr>(&self) -> Answer<PageRequest<Id>> {
        let limit = self.limit()?;
        let Some(after) = &self.after else { return Ok(PageRequest::first(limit)) };
        let after = after.parse().map_err(|_| {
            Problem::refused(format!("{after:?} is not the `next` of a page before"))
                .field("after", "give the `next` of the page before, or leave it out")
        })?;
        Ok(PageRequest::after(after, limit))
    }
}

/// Rows, and where the next page begins.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Listing<T> {
    /// The rows.
    pub(crate) items: Vec<T>,
    /// Give this as `after` for the next page; null when this was the last.
    pub(crate) next: Option<String>,
}

impl<T> Listing<T> {
    /// A list that is there as a whole.
    pub(crate) fn whole(items: Vec<T>) -> Self {
        Self { items, next: None }
    }

    /// A page as storages give it.
    pub(crate) fn of<Row, Id: ToString>(
        paged: PageResult<Row, Id>,
        view: impl Fn(Row) -> T,
    ) -> Self {
        let next = paged.next.map(|id| id.to_string());
        Self { items: paged.rows.into_iter().map(view).collect(), next }
    }
}
