//! Request limit: the largest number of concurrent requests of one caller on this server, so that one caller
//! cannot take all of it. Counted per user, however many tokens they have; per address before authentication.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use axum::http::StatusCode;

use crate::caller::Caller;
use crate::config::{ConnectionsConfig, Networks};
use crate::listen::counted_address;
use crate::problem::{ApiResult, Problem};

/// `Retry-After` of refused requests in seconds.
const RETRY_AFTER: u64 = 1;

/// Counter of concurrent requests.
#[derive(Debug)]
pub(crate) struct RequestLimit {
    limit: usize,
    /// Addresses that many callers share.
    exempt: Networks,
    in_flight: Arc<Mutex<HashMap<String, usize>>>,
    refused: AtomicU64,
}

impl RequestLimit {
    pub(crate) fn new(config: &ConnectionsConfig) -> Self {
        Self {
            limit: config.requests_per_caller,
            exempt: config.exempt.clone(),
            in_flight: Arc::default(),
            refused: AtomicU64::new(0),
        }
    }

    /// Counts a request of a caller, or refuses it.
    pub(crate) fn enter_caller(&self, caller: &Caller) -> ApiResult<RequestPlace> {
        self.enter(caller.counted_as())
    }

    /// Counts a request of an address, or refuses it. Calls in process have no address and no limit.
    pub(crate) fn enter_address(&self, from: Option<IpAddr>) -> ApiResult<Option<RequestPlace>> {
        let counted = from.filter(|from| !self.exempt.has_address(*from));
        counted.map(|from| self.enter(format!("address {}", counted_address(from)))).transpose()
    }

    /// Returns the number of refused requests since the start.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    fn enter(&self, counted_as: String) -> ApiResult<RequestPlace> {
        let mut in_flight = self.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        let count = in_flight.entry(counted_as.clone()).or_default();
        if *count >= self.limit {
            self.refused.fetch_add(1, Ordering::Relaxed);
            let sentence = format!(
                "{} requests of this caller are in flight, the limit of server.connections.requests_per_caller; wait until one has ended",
                self.limit
            );
            return Err(
                Problem::new(StatusCode::TOO_MANY_REQUESTS, sentence).retry_after(RETRY_AFTER)
            );
        }
        *count += 1;
        drop(in_flight);
        let counted = CountGuard { in_flight: self.in_flight.clone(), counted_as };
        Ok(RequestPlace { _counted: Arc::new(counted) })
    }
}

/// The slot of a request, released when its last clone is dropped.
#[derive(Clone, Debug)]
pub(crate) struct RequestPlace {
    _counted: Arc<CountGuard>,
}

#[derive(Debug)]
struct CountGuard {
    in_flight: Arc<Mutex<HashMap<String, usize>>>,
    counted_as: String,
}

impl Drop for CountGuard {
    fn drop(&mut self) {
        let mut in_flight = self.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = in_flight.get_mut(&self.counted_as) {
            *count -= 1;
            if *count == 0 {
                in_flight.remove(&self.counted_as);
            }
        }
    }
}
