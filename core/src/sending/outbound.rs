//! Outbound settings of a process: the routes of topics to transports, the default delivery mode, and the
//! transports whose delays the storage keeps.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::requests::Requests;
use crate::codec::Codecs;
use crate::error::{Error, Result};
use crate::handler::States;
use crate::model::{Topic, TransportName};
use crate::options::Options;
use crate::transport::Transport;

/// Delivery mode of a message to its transport.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Sending {
    /// Publishes to the transport; awaiting the message returns the transport's result. The default.
    #[default]
    Direct,
    /// Stores the message, and the relay publishes it to the transport. An outbox without a transaction: an
    /// unreachable transport delays the message but does not lose it.
    Durable,
    /// Publishes to the transport, and stores the message for the relay after a temporary error. The message
    /// may arrive twice, because the failed publish may have succeeded. Without a storage the same as direct.
    Automatic,
}

/// Checked outbound settings of a process.
pub(crate) struct Outbound {
    pub(crate) sending: Sending,
    pub(crate) codecs: Arc<Codecs>,
    pub(crate) requests: Requests,
    routes: Routes,
    prefer_storage: BTreeSet<TransportName>,
}

/// Outbound settings of a builder, not yet checked.
#[derive(Default)]
pub(crate) struct OutboundSettings {
    pub(crate) sending: Sending,
    pub(crate) routes: Vec<(String, String)>,
    pub(crate) via_default: Option<String>,
    pub(crate) prefer_storage: Vec<String>,
}

/// Transports by topic.
#[derive(Default)]
struct Routes {
    exact: BTreeMap<String, TransportName>,
    /// Transports by prefix of the topic, the longest prefix first.
    prefixes: Vec<(String, TransportName)>,
    default: Option<TransportName>,
}

type Transports = BTreeMap<TransportName, Arc<dyn Transport>>;

impl OutboundSettings {
    /// Checks the settings against the transports of the builder.
    pub(crate) fn build(
        self,
        transports: &Transports,
        states: &States,
        options: &Options,
    ) -> Result<Outbound> {
        let mut routes = Routes::default();
        for (pattern, transport) in self.routes {
            let what = format!("the route of {pattern:?}");
            let transport = known(transport, &what, transports)?;
            let pattern = pattern.trim().to_owned();
            let is_new = if let Some(prefix) = pattern.strip_suffix('*') {
                check_prefix(prefix, &pattern)?;
                let is_new = routes.prefixes.iter().all(|(known, _)| known != prefix);
                routes.prefixes.push((prefix.to_owned(), transport));
                is_new
            } else {
                let topic = Topic::new(&pattern)?.to_string();
                routes.exact.insert(topic, transport).is_none()
            };
            if !is_new {
                return Err(Error::conflict(format!("{what} is given twice; keep one of them")));
            }
        }
        routes.prefixes.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        if let Some(transport) = self.via_default {
            routes.default = Some(known(transport, "via_default()", transports)?);
        }
        let mut prefer_storage = BTreeSet::new();
        for transport in self.prefer_storage {
            prefer_storage.insert(known(transport, "prefer_storage()", transports)?);
        }
        let (codecs, requests) = (states.codecs().clone(), Requests::new(options.requests_max));
        let sending = self.sending;
        Ok(Outbound { sending, codecs, requests, routes, prefer_storage })
    }
}

impl Outbound {
    /// Returns the transport of a topic when its sender names none; `None` is the storage.
    pub(crate) fn route(&self, topic: &Topic) -> Option<&TransportName> {
        let Routes { exact, prefixes, default } = &self.routes;
        if exact.is_empty() && prefixes.is_empty() {
            return default.as_ref();
        }
        let topic = topic.as_str();
        let by_prefix = || prefixes.iter().find(|(prefix, _)| topic.starts_with(prefix));
        exact.get(topic).or_else(|| by_prefix().map(|(_, to)| to)).or(default.as_ref())
    }

    /// Returns whether the storage keeps the delays of a transport that supports delays itself.
    pub(crate) fn prefers_storage(&self, transport: &TransportName) -> bool {
        self.prefer_storage.contains(transport)
    }
}

fn known(name: String, what: &str, transports: &Transports) -> Result<TransportName> {
    let name = TransportName::new(name)?;
    if !transports.contains_key(&name) {
        return Err(Error::invalid(format!(
            "{what} names the transport {name:?}, which was not given to the builder"
        )));
    }
    Ok(name)
}

fn check_prefix(prefix: &str, pattern: &str) -> Result<()> {
    if prefix.is_empty() {
        return Err(Error::invalid("the route of \"*\" is every topic; use via_default() instead"));
    }
    if prefix.contains('*') {
        return Err(Error::invalid(format!(
            "the route of {pattern:?} has a \"*\" before its end; it can only stand last"
        )));
    }
    Topic::new(prefix).map(|_| ())
}
