//! What is the same for everything a process sends: which transport carries which topic, how messages
//! get to their transport, and for which transports the storage keeps delays.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::requests::Requests;
use crate::codec::Codecs;
use crate::engine::Options;
use crate::error::{Error, Result};
use crate::handler::States;
use crate::model::{Topic, TransportName};
use crate::transport::Transport;

/// How a message gets to its transport.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Sending {
    /// Handed to the transport now; awaiting it answers what the transport answered. The default.
    #[default]
    Direct,
    /// Stored first, in the one step that awaiting it waits for; the relay hands it to the transport.
    /// This is the outbox without a transaction: a transport that is away delays the message and loses
    /// nothing.
    Durable,
    /// Handed to the transport now; stored for the relay when that fails for a passing reason. At least
    /// once: what failed may have arrived nevertheless, and then comes twice. Without a storage it is the
    /// same as direct.
    Automatic,
}

/// What the sending side of a process was told.
pub(crate) struct Outbound {
    pub(crate) sending: Sending,
    pub(crate) codecs: Arc<Codecs>,
    pub(crate) requests: Requests,
    routes: Routes,
    prefer_storage: BTreeSet<TransportName>,
}

/// The same while it is told.
#[derive(Default)]
pub(crate) struct Sends {
    pub(crate) sending: Sending,
    pub(crate) routes: Vec<(String, String)>,
    pub(crate) via_default: Option<String>,
    pub(crate) prefer_storage: Vec<String>,
}

/// Which transport carries which topic.
#[derive(Default)]
struct Routes {
    exact: BTreeMap<String, TransportName>,
    /// What topics begin with, the longest first.
    beginnings: Vec<(String, TransportName)>,
    otherwise: Option<TransportName>,
}

type Transports = BTreeMap<TransportName, Arc<dyn Transport>>;

impl Sends {
    /// Checks what was told against the transports there are.
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
            let is_new = if let Some(beginning) = pattern.strip_suffix('*') {
                check_beginning(beginning, &pattern)?;
                let is_new = routes.beginnings.iter().all(|(known, _)| known != beginning);
                routes.beginnings.push((beginning.to_owned(), transport));
                is_new
            } else {
                let topic = Topic::new(&pattern)?.to_string();
                routes.exact.insert(topic, transport).is_none()
            };
            if !is_new {
                return Err(Error::conflict(format!("{what} is given twice; keep one of them")));
            }
        }
        routes.beginnings.sort_by_key(|(beginning, _)| std::cmp::Reverse(beginning.len()));
        if let Some(transport) = self.via_default {
            routes.otherwise = Some(known(transport, "via_default()", transports)?);
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
    /// The transport that carries a topic when its sender names none; none is the storage.
    pub(crate) fn route(&self, topic: &Topic) -> Option<&TransportName> {
        let Routes { exact, beginnings, otherwise } = &self.routes;
        if exact.is_empty() && beginnings.is_empty() {
            return otherwise.as_ref();
        }
        let topic = topic.as_str();
        let begun = || beginnings.iter().find(|(beginning, _)| topic.starts_with(beginning));
        exact.get(topic).or_else(|| begun().map(|(_, to)| to)).or(otherwise.as_ref())
    }

    /// Whether the storage keeps a transport's delays even where it could do so itself.
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

fn check_beginning(beginning: &str, pattern: &str) -> Result<()> {
    if beginning.is_empty() {
        return Err(Error::invalid(
            "the route of \"*\" is every topic; say via_default() for that",
        ));
    }
    if beginning.contains('*') {
        return Err(Error::invalid(format!(
            "the route of {pattern:?} has a \"*\" before its end; it can only stand last"
        )));
    }
    Topic::new(beginning).map(|_| ())
}
