//! Telemetry of a process: a span for every attempt, events before, after and at an error with the same facts, and
//! measures that cost nothing until the first read.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use punctual::measure::BOUNDS_MS;
use punctual::{Context, Event, Job, Occurrence, Retry};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Metadata, Subscriber};

use crate::harness::{Bench, Log, instant, seconds};
use crate::test_handlers::{Gate, failing, logging, retrying, waiting};

type Fields = BTreeMap<String, String>;

/// Records the spans of attempts with their fields, and the span of each log record.
#[derive(Clone, Default)]
struct SpanRecorder {
    made: Arc<Mutex<BTreeMap<u64, Fields>>>,
    entered: Arc<Mutex<Vec<u64>>>,
    inside: Arc<Mutex<Vec<(u64, String)>>>,
    next: Arc<AtomicU64>,
}

struct FieldVisitor<'f>(&'f mut Fields);

impl Visit for FieldVisitor<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }
}

impl Subscriber for SpanRecorder {
    /// Evaluated anew each time, because tests in other threads run without a subscriber.
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "punctual"
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let id = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        let mut fields = Fields::from([("name".to_owned(), span.metadata().name().to_owned())]);
        span.record(&mut FieldVisitor(&mut fields));
        self.made.lock().unwrap().insert(id, fields);
        Id::from_u64(id)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        let mut spans = self.made.lock().unwrap();
        values.record(&mut FieldVisitor(spans.get_mut(&span.into_u64()).unwrap()));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut fields = Fields::new();
        event.record(&mut FieldVisitor(&mut fields));
        let inside = self.entered.lock().unwrap().last().copied().unwrap_or(0);
        let name = fields.remove("event").unwrap_or_default();
        self.inside.lock().unwrap().push((inside, name));
    }

    fn enter(&self, span: &Id) {
        self.entered.lock().unwrap().push(span.into_u64());
    }

    fn exit(&self, _: &Id) {
        self.entered.lock().unwrap().pop();
    }
}

// spec: C-5
#[tokio::test]
async fn every_attempt_has_a_span_with_stable_names_and_its_success() {
    let spans = SpanRecorder::default();
    // With a single subscriber, tests in other threads would disable records of this one.
    let _second = tracing::Dispatch::new(SpanRecorder::default());
    let guard = tracing::subscriber::set_default(spans.clone());
    let log = Log::default();
    let failed = log.clone();
    let bench = Bench::start(|builder| {
        let job = Job::cron("hourly", "0 * * * *").retry(Retry::intervals([seconds(10)]));
        builder.job(job, move |_: Occurrence, context: Context| {
            let failed = failed.clone();
            async move {
                failed.push(context.execution_id().to_string());
                context.progress("half way");
                if context.attempt() == 1 { Err("not yet") } else { Ok(()) }
            }
        })
    })
    .await;
    bench.advance(seconds(3_700)).await;
    drop(guard);
    let kept = spans.made.lock().unwrap();
    let attempts: Vec<(&u64, &Fields)> =
        kept.iter().filter(|(_, fields)| fields["name"] == "attempt").collect();
    assert_eq!(attempts.len(), 2);
    for (number, (id, fields)) in attempts.into_iter().enumerate() {
        let field = |name: &str| fields.get(name).map_or("", String::as_str);
        assert_eq!((field("job"), field("topic")), ("hourly", "hourly"));
        assert_eq!(field("execution"), log.lines()[number]);
        assert_eq!(field("attempt"), (number + 1).to_string());
        assert_eq!((field("attempts_max"), field("nominal")), ("2", "2026-03-02T08:00:00Z"));
        assert_eq!(field("success"), if number == 0 { "false" } else { "true" });
        assert!(!field("message").is_empty() && !field("correlation").is_empty());
        let inside = spans.inside.lock().unwrap();
        let here: Vec<&str> =
            inside.iter().filter(|(span, _)| span == id).map(|(_, name)| name.as_str()).collect();
        assert_eq!(here, ["\"attempt.started\"", "\"attempt.progressed\""], "records belong to it");
    }
}

// spec: C-4
#[tokio::test]
async fn events_before_after_and_at_an_error_carry_the_same_facts() {
    let (log, gate) = (Log::default(), Gate::shut());
    let bench = Bench::start(|builder| {
        builder
            .job(Job::cron("good", "0 * * * *"), waiting::<Occurrence>(&log, &gate))
            .job(Job::cron("bad", "30 * * * *"), failing::<Occurrence>(&log))
    })
    .await;
    let mut events = bench.punctual.events().listen();
    bench.advance(seconds(3_600)).await;
    bench.advance(seconds(7)).await;
    gate.open(1);
    bench.run_until_idle().await;
    let mut recorded = Vec::new();
    while let Ok(event) = events.try_recv() {
        let (execution, job, nominal, attempt, what) = match &*event {
            Event::AttemptStarted { execution, job, nominal, attempt, late, .. } => {
                (execution, job, nominal, attempt, format!("started {late:?} late"))
            }
            Event::AttemptSucceeded { execution, job, nominal, attempt, took, .. } => {
                (execution, job, nominal, attempt, format!("took {took:?}"))
            }
            Event::AttemptFailed { execution, job, nominal, attempt, took, error, .. } => {
                let error = error.as_deref().unwrap();
                (execution, job, nominal, attempt, format!("{error} after {took:?}"))
            }
            _ => continue,
        };
        let (job, nominal) = (job.clone().unwrap(), nominal.unwrap().strftime("%H:%M"));
        recorded.push((execution.to_string(), format!("{job} {nominal} {attempt}: {what}")));
    }
    let lines: Vec<&str> = recorded.iter().map(|(_, line)| line.as_str()).collect();
    let expected = [
        "bad 07:30 1: started 0ns late",
        "bad 07:30 1: out of order after 0ns",
        "good 08:00 1: started 0ns late",
        "good 08:00 1: took 7s",
    ];
    assert_eq!(lines, expected);
    assert_eq!(
        (&recorded[0].0, &recorded[2].0),
        (&recorded[1].0, &recorded[3].0),
        "by the same execution"
    );
}

// spec: C-5, C-4
#[tokio::test]
async fn measures_are_recorded_from_the_first_read_on() {
    let log = Log::default();
    let bench = Bench::start(|builder| {
        builder.handler("mail", logging::<()>(&log, |(), _| "sent".to_owned())).handler_with(
            "post",
            retrying(Retry::none()),
            failing::<()>(&log),
        )
    })
    .await;
    let publisher = bench.punctual.publisher();
    publisher.publish("mail", &()).await.unwrap();
    bench.advance(seconds(1)).await;
    let events = bench.punctual.events();
    assert!(events.measures().is_empty(), "nobody had asked");
    for topic in ["mail", "mail", "post"] {
        publisher.publish(topic, &()).await.unwrap();
    }
    bench.advance(seconds(1)).await;
    let measures = events.measures();
    let mail = &measures["mail"];
    assert_eq!(mail.endings, BTreeMap::from([("succeeded", 2)]));
    assert_eq!((mail.succeeded.count, mail.unsuccessful.count, mail.late.count), (2, 0, 2));
    assert_eq!(mail.succeeded.buckets[0], 2, "within {} ms", BOUNDS_MS[0]);
    assert_eq!(measures["post"].endings, BTreeMap::from([("failed", 1)]));
    assert_eq!(measures["post"].unsuccessful.count, 1);
    assert_eq!(events.count("attempt.succeeded"), 3, "counters count always");
}

// spec: M-21
#[tokio::test]
async fn the_missed_occurrences_that_a_run_replaces_are_visible_on_it() {
    let log = Log::default();
    let bench = Bench::start(|builder| {
        let handler = logging::<Occurrence>(&log, |_, context| {
            let facts = context.misfire().unwrap();
            format!("{} missed since {}", facts.missed_count, facts.misfired_from)
        });
        builder.job(Job::cron("hourly", "0 * * * *"), handler)
    })
    .await;
    bench.clock.set(instant("2026-03-02T10:30:00Z"));
    bench.run_until_idle().await;
    assert_eq!(log.lines(), ["3 missed since 2026-03-02T08:00:00Z"]);
    let admin = bench.punctual.admin();
    let runs = admin.recent("hourly").unwrap();
    let message = bench.message(runs[0].message.unwrap()).await;
    let stored = message.message.occurrence.as_ref().unwrap().misfire.as_ref().unwrap();
    assert_eq!((stored.missed_count, stored.delay_ms), (3, 9_000_000));
}
