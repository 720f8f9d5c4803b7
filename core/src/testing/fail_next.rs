//! Middleware that makes attempts fail on demand.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;

use crate::handler::{Context, HandlerError, HandlerResult};
use crate::middleware::{Middleware, NextHandle};

/// The errors of the next attempts, by topic.
#[derive(Clone, Default)]
pub(super) struct FailNext {
    errors: Arc<Mutex<BTreeMap<String, VecDeque<String>>>>,
}

impl FailNext {
    pub(super) fn add(&self, topic: &str, times: usize, error: &str) {
        let mut errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        let of_topic = errors.entry(topic.to_owned()).or_default();
        of_topic.extend(std::iter::repeat_n(error.to_owned(), times));
    }

    fn take(&self, topic: &str) -> Option<String> {
        let mut errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        errors.get_mut(topic)?.pop_front()
    }
}

#[async_trait]
impl Middleware for FailNext {
    async fn around_handle(&self, context: Context, next: NextHandle<'_>) -> HandlerResult {
        match self.take(context.topic().as_str()) {
            Some(error) => Err(HandlerError::new(error)),
            None => next.run(context).await,
        }
    }
}
