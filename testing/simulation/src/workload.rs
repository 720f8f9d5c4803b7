//! Workload of applications and operators: publish now and later, plan one-time jobs, trigger, pause, resume, cancel,
//! redrive. Every call runs in its own task, because it may never return.

use std::sync::Arc;

use punctual::Punctual;
use punctual::client::PauseRequest;
use punctual::clock::add;
use punctual::model::{Assignment, MessageId, Priority, Queue};
use punctual::uuid::Uuid;

use super::handlers::{CARRIED, WORK};
use super::machine::Machine;
use super::plans::draw_handler_options;
use super::random::Random;

/// Name of the transport to the broker.
pub(crate) const BROKER: &str = "broker";

/// Application or operator that uses one process.
#[derive(Clone)]
pub(crate) struct User {
    pub(crate) punctual: Arc<Punctual>,
    pub(crate) machine: Arc<Machine>,
}

/// Jobs and messages that an action may choose from.
pub(crate) struct Targets {
    pub(crate) jobs: Vec<String>,
    pub(crate) messages: Vec<MessageId>,
}

impl User {
    /// Performs one random action.
    pub(crate) fn act(&self, random: &mut Random, targets: &Targets) {
        match random.below(20) {
            0..=5 => self.publish(random),
            6 => self.publish_again(random),
            7 => self.publish_all(random),
            8..=10 => self.publish_carried(random),
            11..=12 => self.once(random),
            13..=15 => self.command(random, &targets.messages),
            _ => self.command_job(random, &targets.jobs),
        }
    }

    fn publish(&self, random: &mut Random) {
        let mut publish = self.punctual.publisher().publish(WORK, &random.next());
        publish = match random.below(4) {
            0 | 1 => publish,
            2 => publish.after(random.seconds(1, 1_200)),
            _ => publish.after(random.millis(1, 90_000)),
        };
        if random.percent(70) {
            publish = publish.handler_options(draw_handler_options(random));
        }
        if random.percent(30) {
            publish = publish.key(format!("key-{}", random.below(4)));
        }
        if random.percent(30) {
            publish = publish.unique(format!("unique-{}", random.below(4)));
        }
        if random.percent(30) {
            publish = publish.replace();
        }
        if random.percent(20) {
            publish = publish.queue("bulk");
        }
        let publish = publish.priority(u8::try_from(random.below(10)).unwrap_or(5));
        let machine = self.machine.clone();
        tokio::spawn(async move {
            if let Ok(published) = publish.await
                && published.duplicate_of.is_none()
            {
                machine.shared.ledger().accept(published.id);
            }
        });
    }

    /// Publishes a message with a chosen id, and again with the same id after a failure, sometimes also after a
    /// success.
    fn publish_again(&self, random: &mut Random) {
        let id = MessageId::from_uuid(Uuid::from_u64_pair(random.next(), random.next()));
        let (publisher, machine) = (self.punctual.publisher(), self.machine.clone());
        let (wait, rest) = (random.seconds(0, 60), random.seconds(1, 120));
        let repeats_after_success = random.percent(30);
        tokio::spawn(async move {
            for _ in 0..3 {
                let sent = publisher.publish(WORK, &0_u64).after(wait).id(id).await;
                if sent.is_ok() {
                    machine.shared.ledger().accept(id);
                    if !repeats_after_success {
                        return;
                    }
                }
                machine.work_for(rest).await;
            }
        });
    }

    fn publish_all(&self, random: &mut Random) {
        let publisher = self.punctual.publisher();
        let count = random.between(1, 6);
        let batch = (0..count)
            .map(|_| publisher.publish(WORK, &random.next()).after(random.seconds(0, 300)))
            .collect();
        let machine = self.machine.clone();
        tokio::spawn(async move {
            for published in publisher.publish_all(batch).await.unwrap_or_default() {
                machine.shared.ledger().accept(published.id);
            }
        });
    }

    fn publish_carried(&self, random: &mut Random) {
        let mut publish = self.punctual.publisher().publish(CARRIED, &random.next()).via(BROKER);
        if random.percent(60) {
            publish = publish.after(random.seconds(1, 900));
        }
        if random.percent(15) {
            publish = publish.unique(format!("carried-{}", random.below(3)));
        }
        let machine = self.machine.clone();
        tokio::spawn(async move {
            if let Ok(published) = publish.await
                && published.duplicate_of.is_none()
            {
                machine.shared.ledger().accept(published.id);
            }
        });
    }

    fn once(&self, random: &mut Random) {
        let (jobs, key) = (self.punctual.jobs(), format!("entity-{}", random.below(5)));
        if random.percent(25) {
            tokio::spawn(async move { jobs.cancel(WORK, key).await });
            return;
        }
        let mut once =
            jobs.once(WORK).after(random.seconds(1, 1_800)).key(key).payload(&random.next());
        if random.percent(40) {
            once = once.replace();
        }
        let machine = self.machine.clone();
        tokio::spawn(async move {
            if let Ok(published) = once.await {
                machine.shared.ledger().accept(published.id);
            }
        });
    }

    fn command(&self, random: &mut Random, messages: &[MessageId]) {
        if messages.is_empty() {
            return;
        }
        let (admin, id, kind) = (self.punctual.admin(), *random.pick(messages), random.below(20));
        let due_at = add(self.machine.shared.now(), random.seconds(0, 600));
        let queue = random.pick(&[None, Some("default"), Some("bulk")]);
        let queue = queue.map(|name| Queue::new(name).unwrap());
        let urgency = [Priority::LOWEST, Priority::NORMAL, Priority::HIGHEST];
        let to = Assignment { queue, priority: Some(*random.pick(&urgency)) };
        tokio::spawn(async move {
            match kind {
                0..=7 => admin.cancel(id).await,
                8..=13 => admin.redrive(id).await,
                14..=16 => admin.reschedule(id, due_at).await,
                17 => admin.reassign(id, to).await,
                _ => admin.delete(id).await,
            }
        });
    }

    fn command_job(&self, random: &mut Random, jobs: &[String]) {
        if jobs.is_empty() {
            return;
        }
        let (admin, job, kind) =
            (self.punctual.admin(), random.pick(jobs).clone(), random.below(10));
        let until =
            random.percent(60).then(|| add(self.machine.shared.now(), random.seconds(30, 1_800)));
        let ignore_overlap = random.percent(20);
        tokio::spawn(async move {
            match kind {
                0..=4 => admin.trigger(job, ignore_overlap).await.map(|_| ()),
                5..=6 => {
                    let (by, reason) = ("operator".to_owned(), "scripted".to_owned());
                    admin.pause(job, PauseRequest { by, reason, until }).await.map(|_| ())
                }
                _ => admin.resume(job).await.map(|_| ()),
            }
        });
    }
}
