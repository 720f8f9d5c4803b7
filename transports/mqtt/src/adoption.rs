//! Adopting the session of a member that is gone: what waits in it goes to the group again, confirmed, and
//! is acknowledged then; the session ends when nothing is left. Whoever is interrupted leaves the rest where
//! it is, for the next one.

use std::sync::Arc;
use std::time::Duration;

use punctual::clock::{add, within};
use punctual::model::Topic;
use punctual::transport::Outgoing;
use punctual::wire::Wire;

use crate::codec::Publish;
use crate::dial::{Dial, Who};
use crate::fault::Trouble;
use crate::link::{Arriving, Link};
use crate::members::Orphan;
use crate::names::{Names, inbox};
use crate::wire::{Parcel, read};

/// Messages that are on their way from the session at once.
const PIECE_MAX: u16 = 256;

/// Adopts sessions of one group of one topic.
#[derive(Clone, Debug)]
pub(crate) struct Adopter {
    pub(crate) dial: Dial,
    pub(crate) prefix: String,
    pub(crate) names: Names,
    pub(crate) topic: Topic,
    pub(crate) group: String,
    /// How long sessions of the group are kept.
    pub(crate) keep_for: Duration,
}

/// The name of a client.
pub(crate) fn client(prefix: &str, id: &str) -> String {
    format!("{prefix}-{id}")
}

impl Adopter {
    /// Takes everything out of a session and ends it; answers how much there was.
    pub(crate) async fn adopt(&self, orphan: &Orphan) -> Result<usize, Trouble> {
        let client = client(&self.prefix, &orphan.id);
        let who = Who {
            client: &client,
            clean: false,
            keep_for: self.keep_for,
            receive_max: PIECE_MAX,
            will: None,
        };
        let (link, mut arriving) = Link::open(&self.dial, who).await?;
        let mut count = 0;
        if link.welcome.session_present {
            count = self.empty(&link, &mut arriving, orphan).await?;
        }
        link.end().await;
        // A clean connection takes the session away, in both versions of MQTT.
        let (link, _) =
            Link::open(&self.dial, Who { clean: true, keep_for: Duration::ZERO, ..who }).await?;
        link.publish(&[Parcel::note(&self.names.member(&orphan.id), b"")]).await?;
        link.end().await;
        Ok(count)
    }

    async fn empty(
        &self,
        link: &Link,
        arriving: &mut Arriving,
        orphan: &Orphan,
    ) -> Result<usize, Trouble> {
        let inbox = inbox(&self.prefix, &orphan.id);
        let [shared, own] = &self.names.filters;
        link.subscribe(&[(&inbox, true)]).await?;
        link.unsubscribe(&[shared, own, &self.names.members]).await?;
        // Nothing new is sent to the session now, so what we say to it comes last. It is confirmed
        // before it arrives, and this must not wait for what arrives.
        let end = Parcel { retained: false, ..Parcel::note(&inbox, b"end") };
        link.publish(&[end]).await?;
        let mut count = 0;
        let mut piece = Vec::with_capacity(PIECE_MAX.into());
        loop {
            let Dial { clock, timeout, .. } = &self.dial;
            let until = add(clock.now(), *timeout);
            let more = arriving.recv_many(&mut piece, PIECE_MAX.into());
            match within(&**clock, until, more).await {
                None => return Err(Trouble::Silent(*timeout)),
                Some(0) => return Err(link.trouble()),
                Some(_) => {}
            }
            let is_last = piece.iter().any(|publish| publish.topic == inbox);
            count += self.hand_on(link, &inbox, &mut piece, orphan).await?;
            if is_last {
                return Ok(count);
            }
        }
    }

    /// Publishes messages to the group and acknowledges them then.
    async fn hand_on(
        &self,
        link: &Link,
        inbox: &str,
        piece: &mut Vec<Publish>,
        orphan: &Orphan,
    ) -> Result<usize, Trouble> {
        let own: Arc<str> = Arc::from(self.names.own.as_str());
        let mut ids = Vec::with_capacity(piece.len());
        let mut parcels = Vec::with_capacity(piece.len());
        for publish in piece.drain(..) {
            ids.push(publish.id);
            let is_ours = publish.topic != inbox && self.names.member_of(&publish.topic).is_none();
            if is_ours {
                parcels.push(self.parcel(own.clone(), publish, orphan));
            }
        }
        if link.publish(&parcels).await? > 0 {
            return Err(Trouble::Lost("no member of the group is subscribed".to_owned()));
        }
        ids.into_iter().filter(|id| *id > 0).for_each(|id| _ = link.ack(id));
        Ok(parcels.len())
    }

    /// A message as it goes on: as it came, and with one more attempt when a member may have begun it.
    fn parcel(&self, own: Arc<str>, publish: Publish, orphan: &Orphan) -> Parcel {
        if orphan.is_in_order || !publish.again {
            return Parcel::forwarded(own, publish);
        }
        let now = self.dial.clock.now();
        let place = format_args!("{}/{}/{now}", orphan.id, publish.id);
        let received = read(&publish, &self.topic, place, now);
        let is_readable = received.poison.is_none();
        let outgoing = Outgoing {
            message: Arc::new(received.message),
            delay: Duration::ZERO,
            attempt: received.attempt.saturating_add(1),
            group: Some(self.group.clone()),
        };
        let counted =
            Wire::of(&outgoing).and_then(|wire| Parcel::new(own.clone(), wire, self.dial.version));
        match counted {
            Ok(parcel) if is_readable => Parcel { is_awaited: true, ..parcel },
            _ => Parcel::forwarded(own, publish),
        }
    }
}
