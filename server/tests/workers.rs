//! Workers in Python and Node: the examples as real processes against a server on a real socket. Each is
//! ignored where its program is missing or `PUNCTUAL_WITHOUT` names it, and fails where its program is
//! missing and `PUNCTUAL_REQUIRE` names it.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a set-up that fails is a test that fails
#![allow(clippy::type_complexity)] // a table of two cases

use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use punctual::clock::{Clock, add, within};
use punctual::model::{HandlerOptions, MessageId, MessageRecord, MessageState};
use punctual::{Event, MemoryStorage, Punctual, Retry, Roles, SystemClock};
use punctual_server::{App, AppParts, listen, router, run_background};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Timeout that is long enough on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Lease duration of the workers in seconds.
const LEASE: &str = "2";

/// Longest wait for an event before a message is read again.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// A program, its name in `PUNCTUAL_REQUIRE` and `PUNCTUAL_WITHOUT`, and its example.
const PROGRAMS: [(&str, &str, &str); 2] =
    [("python3", "python", "worker.py"), ("node", "node", "worker.mjs")];

fn main() -> ExitCode {
    let trials = PROGRAMS.into_iter().flat_map(|(program, name, script)| {
        // The program may be a placeholder of a version manager.
        let version = Command::new(program).arg("--version").output();
        let missing = !version.is_ok_and(|output| output.status.success());
        let is_required = is_named("PUNCTUAL_REQUIRE", name);
        let is_ignored = !is_required && (missing || is_named("PUNCTUAL_WITHOUT", name));
        let cases: [(&str, fn(&'static str, &'static str) -> _); 3] = [
            ("works", works),
            ("is_replaced_when_killed", is_replaced_when_killed),
            ("stops_immediately_when_it_is_idle", stops_immediately_when_it_is_idle),
        ];
        cases.map(|(case, run)| {
            let act = move || {
                if missing {
                    return Err(Failed::from(format!("{program} is missing or does not start")));
                }
                let runtime = tokio::runtime::Runtime::new()?;
                runtime.block_on(run(program, script));
                Ok(())
            };
            Trial::test(format!("a_worker_in_{name}_{case}"), act).with_ignored_flag(is_ignored)
        })
    });
    let arguments = Arguments::from_args();
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

/// Returns whether a variable with a comma-separated list contains a name.
fn is_named(variable: &str, name: &str) -> bool {
    let names = std::env::var(variable).unwrap_or_default();
    names.split(',').any(|one| one.trim() == name)
}

type Running = std::pin::Pin<Box<dyn Future<Output = ()>>>;

/// A server on a socket.
struct Server {
    app: App,
    url: String,
}

impl Server {
    async fn start() -> Self {
        let clock = Arc::new(SystemClock);
        let storage = Arc::new(MemoryStorage::new(clock.clone()));
        let punctual = Punctual::builder()
            .storage(storage.clone())
            .roles(Roles { worker: false, ..Roles::ALL })
            .options(|options| options.rescue_interval = Duration::from_millis(200))
            .build()
            .unwrap();
        punctual.start().await.unwrap();
        let parts = AppParts {
            punctual: Arc::new(punctual),
            storage: storage.clone(),
            inspect: storage.clone(),
            documents: storage,
            clock,
        };
        let app = App::new(parts);
        tokio::spawn(run_background(app.clone()));
        let listening = listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let url = format!("http://{}", listening.address());
        tokio::spawn(listening.serve(router(app.clone()), std::future::pending()));
        Self { app, url }
    }

    fn spawn(&self, program: &str, script: &str) -> Worker {
        let path = format!("{}/../examples/workers/{script}", env!("CARGO_MANIFEST_DIR"));
        let mut command = Command::new(program);
        command.arg(path).env("PUNCTUAL_URL", &self.url);
        command.env("PUNCTUAL_QUEUE", "example").env("PUNCTUAL_LEASE", LEASE);
        Worker(command.stdout(Stdio::null()).spawn().unwrap())
    }

    async fn publish(&self, topic: &str, body: &Value) -> MessageId {
        let retry = Retry::intervals([Duration::from_millis(50); 3]);
        let publish = self.app.punctual.publisher().publish(topic, body).queue("example");
        publish.handler_options(HandlerOptions::new().retry(retry)).await.unwrap().id
    }

    /// Waits until the list of workers shows a claiming worker.
    async fn until_claimed(&self) {
        let until = add(SystemClock.now(), TIMEOUT);
        let address = self.url.trim_start_matches("http://");
        loop {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let ask = format!(
                "GET /api/v1/workers HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
            );
            stream.write_all(ask.as_bytes()).await.unwrap();
            let mut response = String::new();
            stream.read_to_string(&mut response).await.unwrap();
            if response.contains("\"example\"") {
                return;
            }
            let now = SystemClock.now();
            assert!(now < until, "no worker came: {response}");
            SystemClock.sleep_until(add(now, CHECK_INTERVAL)).await;
        }
    }

    /// Waits until a message is as expected. It is read after every event and after an interval, because an event is
    /// sent before its change is stored.
    async fn until(&self, id: MessageId, holds: impl Fn(&MessageRecord) -> bool) -> MessageRecord {
        let mut events = self.app.punctual.events().listen();
        let until = add(SystemClock.now(), TIMEOUT);
        loop {
            let record = self.app.inspect.message(id).await.unwrap().unwrap();
            if holds(&record) {
                return record;
            }
            let now = SystemClock.now();
            assert!(now < until, "it never was as expected: {record:?}");
            let _ = within(&SystemClock, add(now, CHECK_INTERVAL), events.recv()).await;
        }
    }
}

/// Worker process, killed when dropped.
struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A worker claims, extends a lease that is shorter than the work, reports progress, and gets the retry.
fn works(program: &'static str, script: &'static str) -> Running {
    Box::pin(async move {
        let server = Server::start().await;
        let mut events = server.app.punctual.events().listen();
        let greet = server.publish("greet", &json!({ "name": "Ada" })).await;
        // Twice as long as its lease.
        let count = server.publish("count", &json!({ "to": 4, "seconds": 1 })).await;
        let flaky = server.publish("flaky", &Value::Null).await;
        let _worker = server.spawn(program, script);
        let done = |record: &MessageRecord| record.state == MessageState::Done;
        assert_eq!(server.until(greet, done).await.attempt, 1);
        let counted = server.until(count, done).await;
        assert_eq!((counted.attempt, counted.crashes), (1, 0), "its lease was kept");
        assert_eq!(server.until(flaky, done).await.attempt, 2, "it failed once");
        let (mut progressed, mut failed) = (0, 0);
        while let Ok(event) = events.try_recv() {
            match &*event {
                Event::AttemptProgressed { message, .. } if *message == count => progressed += 1,
                Event::AttemptFailed { message, error, .. } if *message == flaky => {
                    failed += 1;
                    let error = error.as_deref().unwrap_or_default();
                    assert!(error.contains("the first attempt always fails"), "{error}");
                }
                _ => {}
            }
        }
        assert_eq!((progressed, failed), (4, 1));
    })
}

/// A signal ends the wait for work, which lasts 20 seconds.
fn stops_immediately_when_it_is_idle(program: &'static str, script: &'static str) -> Running {
    Box::pin(async move {
        let server = Server::start().await;
        let mut worker = server.spawn(program, script);
        server.until_claimed().await;
        let asked = SystemClock.now();
        let id = worker.0.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        let ended = tokio::task::spawn_blocking(move || worker.0.wait().unwrap()).await.unwrap();
        assert!(ended.success(), "it did not stop by itself: {ended}");
        let took = SystemClock.now().duration_since(asked);
        assert!(took.as_secs() < 10, "it took {took:?}");
    })
}

/// The message of a killed worker goes to the next one after its lease.
fn is_replaced_when_killed(program: &'static str, script: &'static str) -> Running {
    Box::pin(async move {
        let server = Server::start().await;
        let first = server.spawn(program, script);
        let id = server.publish("count", &json!({ "to": 2, "seconds": 3 })).await;
        let begun = |record: &MessageRecord| record.progress.is_some();
        let owner = server.until(id, begun).await.lease.unwrap().owner;
        drop(first);
        let _second = server.spawn(program, script);
        let lost = server.until(id, |record| record.crashes == 1).await;
        assert_ne!(lost.state, MessageState::Done);
        let again = |record: &MessageRecord| {
            record.lease.is_some_and(|lease| lease.owner != owner)
                || record.state == MessageState::Done
        };
        server.until(id, again).await;
        let record = server.until(id, |record| record.state == MessageState::Done).await;
        assert_eq!(record.crashes, 1);
    })
}
