//! Shared states and extractors of handlers: checked when the process is built, bound once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use punctual::handler::RequiredStates;
use punctual::model::{Ending, MessageState};
use punctual::policy::AttemptEnd;
use punctual::testing::HandlerTest;
use punctual::{Context, ErrorKind, FromContext, HandlerError, Punctual, Retry, State};

use crate::harness::{Bench, Log, seconds};
use crate::test_handlers::{endings, retrying};

/// Log that the handlers of a test share.
#[derive(Clone, Default)]
struct SharedLog(Log);

async fn only_state(State(SharedLog(log)): State<SharedLog>) {
    log.push("only state");
}

/// An extractor that counts its live instances, and needs a state.
struct CountedScope(Arc<AtomicUsize>);

#[derive(Clone, Default)]
struct LiveCount {
    now: Arc<AtomicUsize>,
    made: Arc<AtomicUsize>,
}

impl FromContext for CountedScope {
    async fn from_context(context: &Context) -> Result<Self, HandlerError> {
        let live_count: LiveCount = context.state()?;
        if context.headers().get("broken").is_some() {
            return Err("the database is away".into());
        }
        live_count.now.fetch_add(1, Ordering::Relaxed);
        live_count.made.fetch_add(1, Ordering::Relaxed);
        Ok(Self(live_count.now))
    }

    fn needs(needs: &mut RequiredStates) {
        needs.state::<LiveCount>();
    }
}

impl Drop for CountedScope {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn scoped(scope: CountedScope, context: Context) -> Result<(), &'static str> {
    assert_eq!(scope.0.load(Ordering::Relaxed), 1);
    if context.attempt() == 1 { Err("again") } else { Ok(()) }
}

// spec: U-22
#[tokio::test]
async fn an_extractor_is_made_for_each_attempt_and_gone_after_it() {
    let live_count = LiveCount::default();
    let bench = Bench::start(|builder| {
        builder.state(live_count.clone()).handler_with(
            "scoped",
            retrying(Retry::intervals([seconds(1)])),
            scoped,
        )
    })
    .await;
    let sent = bench.punctual.publisher().publish("scoped", &()).await.unwrap();
    bench.advance(seconds(2)).await;
    assert_eq!(endings(&bench.storage, sent.id).await, [Ending::Failed, Ending::Succeeded]);
    assert_eq!(live_count.made.load(Ordering::Relaxed), 2);
    assert_eq!(live_count.now.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn an_extractor_that_fails_fails_the_attempt_by_name() {
    let handler_test = HandlerTest::new().state(LiveCount::default()).header("broken", "yes");
    let result = handler_test.run(scoped).await.unwrap();
    let AttemptEnd::Failed { error } = result.report else { panic!("{:?}", result.report) };
    assert!(
        error.contains("states::CountedScope could not be extracted: the database is away"),
        "{error}"
    );
}

#[tokio::test]
async fn a_state_that_is_missing_or_doubled_fails_when_the_process_is_built() {
    let error = Punctual::builder().handler("pay", only_state).build().err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let text = error.to_string();
    assert!(text.contains("the handler of the topic \"pay\" needs a state of the type"), "{text}");
    assert!(text.contains("states::SharedLog, "), "{text}");
    assert!(text.contains("add state(value) before build()"), "{text}");
    // Also where only an extractor needs it.
    let error = Punctual::builder().handler("scoped", scoped).build().err().unwrap();
    assert!(error.to_string().contains("states::LiveCount, "), "{error}");

    let twice = Punctual::builder().state(SharedLog::default()).state(SharedLog::default());
    let error = twice.handler("pay", only_state).build().err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.to_string().contains("two states of the type"), "{error}");
    assert!(error.to_string().contains("states::SharedLog"), "{error}");
    let one =
        Punctual::builder().state(SharedLog::default()).state(3_u8).handler("pay", only_state);
    assert!(one.build().is_ok());
}

// spec: H-70
#[test]
fn a_handler_is_bound_once() {
    // What a handler needs is taken from the states while the process is built; the counter shows that
    // no attempt does it again.
    #[derive(Default)]
    struct Counted(Arc<Mutex<u32>>);
    impl Clone for Counted {
        fn clone(&self) -> Self {
            *self.0.lock().unwrap() += 1;
            Self(self.0.clone())
        }
    }
    async fn counted(_: State<Counted>) {}
    let counted_state = Counted::default();
    let clones = counted_state.0.clone();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let bench =
            Bench::start(|builder| builder.state(counted_state).handler("counted", counted)).await;
        assert_eq!(*clones.lock().unwrap(), 1, "once, at build");
        for _ in 0..10 {
            let sent = bench.punctual.publisher().publish("counted", &()).await.unwrap();
            bench.run_until_idle().await;
            assert_eq!(bench.message(sent.id).await.state, MessageState::Done);
        }
        assert_eq!(*clones.lock().unwrap(), 11, "and one for each attempt");
    });
}
