//! Publishing: a whole batch goes out without waiting in between and is done when the broker has confirmed
//! every message. What cannot be sent is refused before anything is.
//!
//! The connection is made by the first batch and again by the first one after it was lost.

use std::sync::Arc;

use punctual::clock::{add, within};
use punctual::model::Topic;
use punctual::transport::Outgoing;
use punctual::wire::Wrapping;
use punctual::{Error, Result};
use tokio::sync::Mutex;

use crate::dial::{Dial, Who};
use crate::fault::Trouble;
use crate::link::Link;
use crate::names;
use crate::wire::{ATTRIBUTE_PREFIX, Parcel};

/// Publishes messages.
#[derive(Debug)]
pub(crate) struct Producer {
    pub(crate) dial: Dial,
    pub(crate) client: String,
    pub(crate) prefix: String,
    pub(crate) payload_max: usize,
    /// Whether a message for everybody may find nobody.
    pub(crate) allows_unheard: bool,
    pub(crate) wrapping: Wrapping,
    pub(crate) link: Mutex<Option<Arc<Link>>>,
}

impl Producer {
    pub(crate) async fn publish(&self, batch: &[Outgoing]) -> Result<()> {
        batch.iter().try_for_each(|outgoing| self.check(outgoing))?;
        if batch.is_empty() {
            return Ok(());
        }
        let parcels = self.parcels(batch)?;
        let told = |trouble: Trouble| trouble.told(&self.dial.place()).during("publish");
        let link = self.open().await.map_err(told)?;
        if link.publish(&parcels).await.map_err(told)? > 0 {
            // The broker has thrown it away, and calls that success.
            return Err(Error::unavailable(format!(
                "the MQTT broker at {} has no subscription for some of these messages and threw them away; start a consumer first, or say allow_unheard(true)",
                self.dial.place()
            ))
            .during("publish"));
        }
        Ok(())
    }

    /// The present connection, or a new one.
    pub(crate) async fn open(&self) -> std::result::Result<Arc<Link>, Trouble> {
        let Dial { clock, timeout, .. } = &self.dial;
        // Of many who wait for a broker that does not answer, none waits for all the others.
        let slot = within(&**clock, add(clock.now(), *timeout), self.link.lock()).await;
        let mut slot = slot.ok_or(Trouble::Silent(*timeout))?;
        if let Some(link) = slot.as_ref().filter(|link| !link.has_ended()) {
            return Ok(link.clone());
        }
        let who = Who {
            client: &self.client,
            clean: true,
            keep_for: std::time::Duration::ZERO,
            receive_max: 1,
            will: None,
        };
        let (link, _) = Link::open(&self.dial, who).await?;
        let link = Arc::new(link);
        *slot = Some(link.clone());
        Ok(link)
    }

    fn check(&self, outgoing: &Outgoing) -> Result<()> {
        let message = &outgoing.message;
        if !outgoing.delay.is_zero() {
            return Err(Error::unsupported(format!(
                "MQTT cannot delay the message {} by {:?}; give the builder a storage to keep it in, or send it without a delay",
                message.id, outgoing.delay
            )));
        }
        if let Some(group) = &outgoing.group {
            names::check_group(group)?;
        }
        message.body.check(self.payload_max)
    }

    fn parcels(&self, batch: &[Outgoing]) -> Result<Vec<Parcel>> {
        let mut parcels = Vec::with_capacity(batch.len());
        // Most batches have one topic, whose name is made once.
        let mut last: Option<(&Topic, Arc<str>)> = None;
        for outgoing in batch {
            let topic = &outgoing.message.topic;
            let name = match (&outgoing.group, &last) {
                (Some(group), _) => Arc::from(names::own(&self.prefix, topic, group)),
                (None, Some((known, name))) if *known == topic => name.clone(),
                (None, _) => {
                    let name: Arc<str> = Arc::from(names::shared(&self.prefix, topic));
                    last = Some((topic, name.clone()));
                    name
                }
            };
            let wire = self.wrapping.wire(outgoing, ATTRIBUTE_PREFIX)?;
            let parcel = Parcel::new(name, wire, self.dial.version)?;
            parcels.push(Parcel {
                is_awaited: !self.allows_unheard || outgoing.group.is_some(),
                ..parcel
            });
        }
        Ok(parcels)
    }
}
