//! In-flight deliveries of a consumer, whose visibility timeout the settler extends.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Receipt handle of SQS.
pub(crate) type ReceiptHandle = Arc<str>;

/// Receipt handles of in-flight deliveries, by number.
#[derive(Debug, Default)]
pub(crate) struct InFlight(Mutex<HashMap<u64, ReceiptHandle>>);

impl InFlight {
    pub(crate) fn insert(&self, number: u64, handle: ReceiptHandle) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(number, handle);
    }

    pub(crate) fn remove(&self, number: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
    }

    pub(crate) fn handles(&self) -> Vec<ReceiptHandle> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }
}
