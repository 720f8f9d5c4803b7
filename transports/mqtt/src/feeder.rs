//! Feeds a consumer: keeps a connection to its session, hands on what comes, says how the member is, and
//! adopts the sessions of members that are gone. Ends when the consumer is closed.

use std::sync::Arc;
use std::time::Duration;

use punctual::clock::{Clock, add};
use punctual::jiff::Timestamp;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::adoption::Adopter;
use crate::codec::Publish;
use crate::dial::Who;
use crate::fault::Trouble;
use crate::hand::Hand;
use crate::link::{Arriving, Link};
use crate::members::{GONE, HERE, LEFT, Members, Orphan, SAID_EVERY};
use crate::wire::Parcel;

/// Between a lost connection and the first try to make another; every further try waits twice as long.
const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(5);

/// Feeds one consumer.
pub(crate) struct Feeder {
    pub(crate) hand: Arc<Hand>,
    pub(crate) id: String,
    pub(crate) adopter: Adopter,
    pub(crate) members: Members,
    pub(crate) prefetch: u16,
    pub(crate) stop: watch::Receiver<bool>,
    pub(crate) adoptions: JoinSet<(Orphan, Result<usize, Trouble>)>,
}

/// A connection and what comes on it.
pub(crate) type Connected = (Arc<Link>, Arriving);

enum Next {
    Arrived(Option<Publish>),
    Adopted((Orphan, Result<usize, Trouble>)),
    Look,
    Stop,
}

impl Feeder {
    /// Connects, takes up the session, and says so.
    pub(crate) async fn connect(&self) -> Result<Connected, Trouble> {
        let names = &self.hand.names;
        let member = names.member(&self.id);
        let who = Who {
            client: &self.hand.client,
            clean: false,
            keep_for: self.adopter.keep_for,
            receive_max: self.prefetch,
            will: Some((&member, GONE)),
        };
        let (link, arriving) = Link::open(&self.adopter.dial, who).await?;
        if !link.welcome.shares {
            return Err(Trouble::Lacks("shared subscriptions"));
        }
        if !link.welcome.retains {
            return Err(Trouble::Lacks("retained messages"));
        }
        if link.welcome.qos_max == 0 {
            return Err(Trouble::Lacks("confirmed messages (QoS 1)"));
        }
        let link = Arc::new(link);
        self.hand.connected(link.clone());
        let [shared, own] = &names.filters;
        link.subscribe(&[(shared, true), (own, true), (&names.members, false)]).await?;
        link.publish(&[Parcel::note(&member, HERE)]).await?;
        Ok((link, arriving))
    }

    /// Serves until it is told to stop.
    pub(crate) async fn run(mut self, first: Connected) {
        let mut connected = Ok(first);
        let mut wait = RETRY_FIRST;
        loop {
            let trouble = match connected {
                Ok((link, arriving)) => {
                    wait = RETRY_FIRST;
                    let served = self.serve(&link, arriving).await;
                    let Err(trouble) = served else { return self.leave(&link).await };
                    trouble
                }
                Err(trouble) => trouble,
            };
            self.hand.disconnected();
            self.hand.tell(&trouble);
            let retry_at = add(self.clock().now(), wait);
            wait = (wait * 2).min(RETRY_MAX);
            let mut stop = self.stop.clone();
            let clock = self.clock();
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => return,
                () = clock.sleep_until(retry_at) => {}
            }
            connected = tokio::select! {
                _ = stop.wait_for(|stop| *stop) => return,
                connected = self.connect() => connected,
            };
        }
    }

    /// Hands on what comes until the connection is lost, or until it is told to stop.
    async fn serve(&mut self, link: &Link, mut arriving: Arriving) -> Result<(), Trouble> {
        let clock = self.clock();
        let names = self.hand.names.clone();
        let mut say_at = add(clock.now(), SAID_EVERY);
        loop {
            let look_at = say_at.min(self.members.next_look(clock.now()));
            match self.next(&mut arriving, look_at).await {
                Next::Stop => return Ok(()),
                Next::Arrived(None) => return Err(link.trouble()),
                Next::Arrived(Some(publish)) => {
                    let Some(id) = names.member_of(&publish.topic) else {
                        self.hand.take(publish, clock.now());
                        continue;
                    };
                    if self.members.note(id, &publish.payload, clock.now()) {
                        link.announce(&publish.topic, HERE).await?;
                    }
                }
                Next::Adopted((orphan, adopted)) => self.adopted(&orphan, adopted),
                Next::Look => {}
            }
            if clock.now() >= say_at {
                link.announce(&names.member(&self.id), HERE).await?;
                say_at = add(clock.now(), SAID_EVERY);
            }
            self.adopt(clock.now());
        }
    }

    async fn next(&mut self, arriving: &mut Arriving, look_at: Timestamp) -> Next {
        let clock = self.clock();
        let stop = &mut self.stop;
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => Next::Stop,
            publish = arriving.recv() => Next::Arrived(publish),
            Some(adopted) = self.adoptions.join_next() => match adopted {
                Ok(adopted) => Next::Adopted(adopted),
                Err(_) => Next::Look,
            },
            () = clock.sleep_until(look_at) => Next::Look,
        }
    }

    /// Begins to adopt a session, one at a time.
    fn adopt(&mut self, now: Timestamp) {
        if !self.adoptions.is_empty() {
            return;
        }
        if let Some(orphan) = self.members.orphan(now) {
            let adopter = self.adopter.clone();
            self.adoptions.spawn(async move {
                let adopted = adopter.adopt(&orphan).await;
                (orphan, adopted)
            });
        }
    }

    fn adopted(&mut self, orphan: &Orphan, adopted: Result<usize, Trouble>) {
        match adopted {
            Ok(count) => {
                self.members.forget(&orphan.id);
                tracing::debug!(member = orphan.id, count, "the session of a member was adopted");
            }
            Err(trouble) => {
                self.members.try_again(&orphan.id, self.clock().now());
                let error = trouble.told(&self.hand.place);
                tracing::debug!(member = orphan.id, %error, "a session could not be adopted yet");
            }
        }
    }

    /// Says that the session is without its owner now, and goes. What was not settled stays in it.
    async fn leave(&mut self, link: &Link) {
        self.adoptions.shutdown().await;
        let member = self.hand.names.member(&self.id);
        // Nothing is waited for: the broker reads it before the goodbye, and without a connection says
        // itself that we are gone.
        let _ = link.announce(&member, LEFT).await;
        link.end().await;
        self.hand.disconnected();
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.adopter.dial.clock.clone()
    }
}
