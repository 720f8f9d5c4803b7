//! Refused configurations: what a process read again and could not use. The process itself knows it at once, the others by a
//! document that it renews while that lasts.

use std::sync::PoisonError;
use std::time::Duration;

use jiff::Timestamp;
use punctual::clock::add;
use punctual::documents::{ExpectedVersion, KeyRange, NewDocument};
use punctual::{Event, Result};
use serde::{Deserialize, Serialize};

use super::{Alert, AlertKind};
use crate::app::App;

/// The kind of the documents; the key is the process.
const KIND: &str = "refused_configuration";
/// How long a document lasts that is not renewed.
const LASTS_FOR: Duration = Duration::from_secs(20);
/// The most processes whose refused configurations are looked at.
const PROCESSES_MAX: usize = 100;

/// A configuration that was read again and refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Refused {
    pub(crate) at: Timestamp,
    pub(crate) source: String,
    pub(crate) problem: String,
}

/// What the document of a process says.
#[derive(Serialize, Deserialize)]
struct Report {
    node: String,
    refused: Refused,
}

impl Refused {
    /// The alert about it; `of` names the process unless it is this one.
    fn alert(&self, of: Option<&str>) -> Alert {
        let Self { at, source, problem } = self;
        let of = of.map(|node| format!(" of {node}")).unwrap_or_default();
        let text = format!(
            "{source}{of} was refused at {}, and the jobs stay as they were: {problem}",
            at.strftime("%Y-%m-%d %H:%M:%SZ")
        );
        Alert::general(AlertKind::ConfigurationRefused, text)
    }
}

/// Remembers that a configuration was refused, and tells of it when that is new; nothing clears it.
pub(crate) fn configuration_refused(app: &App, refused: Option<Refused>) {
    let mut known = app.node().refused.lock().unwrap_or_else(PoisonError::into_inner);
    let is_new = match (&*known, &refused) {
        (Some(known), Some(refused)) => known.problem != refused.problem,
        (None, refused) => refused.is_some(),
        (Some(_), None) => false,
    };
    known.clone_from(&refused);
    drop(known);
    app.node().alerts.forget();
    app.node().health.forget();
    if let Some(Refused { source, problem, .. }) = refused.filter(|_| is_new) {
        app.punctual.events().emit(Event::ConfigurationRefused { source, problem });
    }
}

/// Returns what this process knows of itself.
pub(super) fn of_node(app: &App) -> Option<Alert> {
    ours(app).map(|refused| refused.alert(None))
}

/// Returns what is known of all processes; a problem that several have in common is told once.
pub(super) async fn find(app: &App) -> Result<Vec<Alert>> {
    let ours = ours(app);
    let mut problems: Vec<String> = ours.iter().map(|refused| refused.problem.clone()).collect();
    let mut alerts: Vec<Alert> = ours.iter().map(|refused| refused.alert(None)).collect();
    let range = KeyRange { limit: PROCESSES_MAX, ..KeyRange::default() };
    let process = app.punctual.process_id().to_string();
    for document in app.documents.list(KIND, range, app.clock.now()).await? {
        // A document of another version says something else.
        let report = serde_json::from_value::<Report>(document.body).ok();
        let report = report.filter(|report| !problems.contains(&report.refused.problem));
        if let Some(Report { node, refused }) = report.filter(|_| document.key != process) {
            alerts.push(refused.alert(Some(&node)));
            problems.push(refused.problem);
        }
    }
    Ok(alerts)
}

/// Lets the other processes know what this one refused, and that it is over; `is_told` is whether they know.
pub(super) async fn tell(app: &App, is_told: &mut bool) -> Result<()> {
    let (process, now) = (app.punctual.process_id().to_string(), app.clock.now());
    if let Some(refused) = ours(app) {
        let report = Report { node: app.node().identity.name.clone(), refused };
        let body = serde_json::to_value(report).unwrap_or_default();
        let draft = NewDocument::new(KIND, &process, body).expires_at(add(now, LASTS_FOR));
        app.documents.put_all(vec![draft], now).await?;
        *is_told = true;
    } else if *is_told {
        let _ = app.documents.remove(KIND, &process, ExpectedVersion::Any).await?;
        *is_told = false;
    }
    Ok(())
}

fn ours(app: &App) -> Option<Refused> {
    app.node().refused.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use punctual::{ManualClock, MemoryStorage, Punctual};

    use super::*;
    use crate::alerts::current;
    use crate::app::Parts;
    use crate::metrics::Meters;
    use crate::node::Identity;

    fn node(name: &str, clock: &Arc<ManualClock>, storage: &Arc<MemoryStorage>) -> App {
        let builder = Punctual::builder().storage(storage.clone()).clock(clock.clone());
        let parts = Parts {
            punctual: Arc::new(builder.build().unwrap()),
            storage: storage.clone(),
            inspect: storage.clone(),
            documents: storage.clone(),
            clock: clock.clone(),
        };
        let identity = Identity { name: name.to_owned(), ..Identity::default() };
        App::new(parts).on_node(identity, Meters::default(), None)
    }

    async fn texts(app: &App, clock: &ManualClock) -> Vec<String> {
        // What was found before no longer holds.
        clock.advance(Duration::from_secs(5));
        current(app).await.unwrap().list.iter().map(|alert| alert.text.clone()).collect()
    }

    // It was known to the process itself only.
    #[tokio::test]
    async fn every_process_knows_which_one_refused_its_configuration_until_it_is_mended_or_gone() {
        let clock = Arc::new(ManualClock::new("2026-03-01T12:00:00Z".parse().unwrap()));
        let storage = Arc::new(MemoryStorage::new(clock.clone()));
        let [a, b] = ["a", "b"].map(|name| node(name, &clock, &storage));
        let refused = Refused {
            at: clock.now(),
            source: "punctual.toml".to_owned(),
            problem: "jobs.one: no schedule".to_owned(),
        };
        let mut is_told = false;
        configuration_refused(&a, Some(refused.clone()));
        tell(&a, &mut is_told).await.unwrap();
        let at = "was refused at 2026-03-01 12:00:00Z, and the jobs stay as they were";
        let own = format!("punctual.toml {at}: jobs.one: no schedule");
        assert_eq!(texts(&a, &clock).await, [own]);
        let other = format!("punctual.toml of a {at}: jobs.one: no schedule");
        assert_eq!(texts(&b, &clock).await, [other]);
        configuration_refused(&b, Some(refused.clone()));
        assert_eq!(texts(&b, &clock).await.len(), 1, "the same problem is told once");
        configuration_refused(&b, None);
        configuration_refused(&a, None);
        tell(&a, &mut is_told).await.unwrap();
        assert_eq!(texts(&b, &clock).await, [""; 0], "it was mended");
        configuration_refused(&a, Some(refused));
        tell(&a, &mut is_told).await.unwrap();
        assert_eq!(texts(&b, &clock).await.len(), 1);
        clock.advance(LASTS_FOR);
        assert_eq!(texts(&b, &clock).await, [""; 0], "the process is gone");
    }
}
