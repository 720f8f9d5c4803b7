//! Sender: what every publisher of a process shares.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Outbound;
use crate::environment::Environment;
use crate::handler::States;
use crate::middleware::Middleware;
use crate::model::TransportName;
use crate::transport::Transport;

/// Sends the messages of a process.
pub(crate) struct Sender {
    pub(crate) env: Arc<Environment>,
    pub(crate) transports: BTreeMap<TransportName, Arc<dyn Transport>>,
    pub(crate) outbound: Outbound,
    pub(crate) middleware: Vec<Arc<dyn Middleware>>,
    pub(crate) states: States,
}
