//! Refused configurations: a reloaded configuration that the process could not use. The process itself reports it immediately;
//! other processes read a document that it renews while the problem lasts.

use std::sync::PoisonError;
use std::time::Duration;

use jiff::Timestamp;
use punctual::backend::documents::{ExpectedVersion, KeyRange, NewDocument};
use punctual::clock::add;
use punctual::{Event, Result};
use serde::{Deserialize, Serialize};

use super::{Alert, AlertKind};
use crate::app::App;

/// The kind of the documents; the key is the process.
const KIND: &str = "refused_configuration";
/// Lifetime of a document that is not renewed.
const DOCUMENT_TTL: Duration = Duration::from_secs(20);
/// Largest number of processes whose documents are read.
const PROCESSES_MAX: usize = 100;

/// A reloaded configuration that was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RefusedConfiguration {
    pub(crate) at: Timestamp,
    pub(crate) source: String,
    pub(crate) problem: String,
}

/// Body of the document of a process.
#[derive(Serialize, Deserialize)]
struct Report {
    node: String,
    refused: RefusedConfiguration,
}

impl RefusedConfiguration {
    /// Returns the alert; `of` names the process unless it is this one.
    fn alert(&self, of: Option<&str>) -> Alert {
        let Self { at, source, problem } = self;
        let of = of.map(|node| format!(" of {node}")).unwrap_or_default();
        let text = format!(
            "{source}{of} was refused at {}; the jobs are unchanged: {problem}",
            at.strftime("%Y-%m-%d %H:%M:%SZ")
        );
        Alert::general(AlertKind::ConfigurationRefused, text)
    }
}

/// Sets or clears the refused configuration of this process; emits an event when the problem is new.
pub(crate) fn configuration_refused(app: &App, refused: Option<RefusedConfiguration>) {
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
    if let Some(RefusedConfiguration { source, problem, .. }) = refused.filter(|_| is_new) {
        app.punctual.events().emit(Event::ConfigurationRefused { source, problem });
    }
}

/// Returns the alert of this process.
pub(super) fn of_node(app: &App) -> Option<Alert> {
    own(app).map(|refused| refused.alert(None))
}

/// Returns the alerts of all processes; a problem that several share is reported once.
pub(super) async fn find(app: &App) -> Result<Vec<Alert>> {
    let own = own(app);
    let mut problems: Vec<String> = own.iter().map(|refused| refused.problem.clone()).collect();
    let mut alerts: Vec<Alert> = own.iter().map(|refused| refused.alert(None)).collect();
    let range = KeyRange { limit: PROCESSES_MAX, ..KeyRange::default() };
    let process = app.punctual.process_id().to_string();
    for document in app.documents.list(KIND, range, app.clock.now()).await? {
        // A document of another version may have another form.
        let report = serde_json::from_value::<Report>(document.body).ok();
        let report = report.filter(|report| !problems.contains(&report.refused.problem));
        if let Some(Report { node, refused }) = report.filter(|_| document.key != process) {
            alerts.push(refused.alert(Some(&node)));
            problems.push(refused.problem);
        }
    }
    Ok(alerts)
}

/// Publishes the refused configuration of this process to the others, or removes it when it is resolved;
/// `is_published` tracks whether the document exists.
pub(super) async fn publish(app: &App, is_published: &mut bool) -> Result<()> {
    let (process, now) = (app.punctual.process_id().to_string(), app.clock.now());
    if let Some(refused) = own(app) {
        let report = Report { node: app.node().identity.name.clone(), refused };
        let body = serde_json::to_value(report).unwrap_or_default();
        let draft = NewDocument::new(KIND, &process, body).expires_at(add(now, DOCUMENT_TTL));
        app.documents.put_all(vec![draft], now).await?;
        *is_published = true;
    } else if *is_published {
        let _ = app.documents.remove(KIND, &process, ExpectedVersion::Any).await?;
        *is_published = false;
    }
    Ok(())
}

fn own(app: &App) -> Option<RefusedConfiguration> {
    app.node().refused.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use punctual::{ManualClock, MemoryStorage, Punctual};

    use super::*;
    use crate::alerts::current;
    use crate::app::AppParts;
    use crate::metrics::Meters;
    use crate::node::Identity;

    fn node(name: &str, clock: &Arc<ManualClock>, storage: &Arc<MemoryStorage>) -> App {
        let builder = Punctual::builder().storage(storage.clone()).clock(clock.clone());
        let parts = AppParts {
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
        // Cached alerts expire.
        clock.advance(Duration::from_secs(5));
        current(app).await.unwrap().list.iter().map(|alert| alert.text.clone()).collect()
    }

    // Regression: only the process itself knew.
    #[tokio::test]
    async fn every_process_reports_which_one_refused_its_configuration_until_it_is_fixed_or_ended()
    {
        let clock = Arc::new(ManualClock::new("2026-03-01T12:00:00Z".parse().unwrap()));
        let storage = Arc::new(MemoryStorage::new(clock.clone()));
        let [a, b] = ["a", "b"].map(|name| node(name, &clock, &storage));
        let refused = RefusedConfiguration {
            at: clock.now(),
            source: "punctual.toml".to_owned(),
            problem: "jobs.one: no schedule".to_owned(),
        };
        let mut is_published = false;
        configuration_refused(&a, Some(refused.clone()));
        publish(&a, &mut is_published).await.unwrap();
        let at = "was refused at 2026-03-01 12:00:00Z; the jobs are unchanged";
        let own = format!("punctual.toml {at}: jobs.one: no schedule");
        assert_eq!(texts(&a, &clock).await, [own]);
        let other = format!("punctual.toml of a {at}: jobs.one: no schedule");
        assert_eq!(texts(&b, &clock).await, [other]);
        configuration_refused(&b, Some(refused.clone()));
        assert_eq!(texts(&b, &clock).await.len(), 1, "the same problem is reported once");
        configuration_refused(&b, None);
        configuration_refused(&a, None);
        publish(&a, &mut is_published).await.unwrap();
        assert_eq!(texts(&b, &clock).await, [""; 0], "it was fixed");
        configuration_refused(&a, Some(refused));
        publish(&a, &mut is_published).await.unwrap();
        assert_eq!(texts(&b, &clock).await.len(), 1);
        clock.advance(DOCUMENT_TTL);
        assert_eq!(texts(&b, &clock).await, [""; 0], "the process has ended");
    }
}
