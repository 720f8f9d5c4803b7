//! Request limit: how many requests of one caller may be under way at once on this server, so that one caller cannot
//! take all of it. Counted for the user, however many tokens they have; for the address until it is known who calls.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use axum::http::StatusCode;

use crate::caller::Caller;
use crate::config::{ConnectionsConfig, Networks};
use crate::listen::counted_address;
use crate::problem::{Answer, Problem};

/// In how many seconds a caller who was refused may try again.
const RETRY_AFTER: u64 = 1;

/// Counts the requests that are under way.
#[derive(Debug)]
pub(crate) struct RequestLimit {
    limit: usize,
    /// Addresses that many callers share.
    exempt: Networks,
    under_way: Arc<Mutex<HashMap<String, usize>>>,
    refused: AtomicU64,
}

impl RequestLimit {
    pub(crate) fn new(config: &ConnectionsConfig) -> Self {
        Self {
            limit: config.requests_per_caller,
            exempt: config.exempt.clone(),
            under_way: Arc::default(),
            refused: AtomicU64::new(0),
        }
    }

    /// Counts a request of a caller, or refuses it.
    pub(crate) fn enter_caller(&self, caller: &Caller) -> Answer<RequestPlace> {
        self.enter(caller.counted_as())
    }

    /// Counts a request of which only the address is known, or refuses it. Calls in process have no address.
    pub(crate) fn enter_address(&self, from: Option<IpAddr>) -> Answer<Option<RequestPlace>> {
        let counted = from.filter(|from| !self.exempt.has_address(*from));
        counted.map(|from| self.enter(format!("address {}", counted_address(from)))).transpose()
    }

    /// Returns how many requests were refused since the start.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    fn enter(&self, counted_as: String) -> Answer<RequestPlace> {
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        let count = under_way.entry(counted_as.clone()).or_default();
        if *count >= self.limit {
            self.refused.fetch_add(1, Ordering::Relaxed);
            let sentence = format!(
                "{} requests of this caller are under way, which is server.connections.requests_per_caller; wait until one has ended",
                self.limit
            );
            return Err(
                Problem::new(StatusCode::TOO_MANY_REQUESTS, sentence).retry_after(RETRY_AFTER)
            );
        }
        *count += 1;
        drop(under_way);
        let counted = Counted { under_way: self.under_way.clone(), counted_as };
        Ok(RequestPlace { _counted: Arc::new(counted) })
    }
}

/// The place of a request among those under way; given back when its last clone is dropped.
#[derive(Clone, Debug)]
pub(crate) struct RequestPlace {
    _counted: Arc<Counted>,
}

#[derive(Debug)]
struct Counted {
    under_way: Arc<Mutex<HashMap<String, usize>>>,
    counted_as: String,
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = under_way.get_mut(&self.counted_as) {
            *count -= 1;
            if *count == 0 {
                under_way.remove(&self.counted_as);
            }
        }
    }
}
