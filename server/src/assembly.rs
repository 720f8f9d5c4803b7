//! A running server out of a configuration: storage and transports opened, the process built, its jobs
//! declared, the socket served, the file watched; and all of it ended in order.

mod certificates;
mod demo;
mod reload;
mod watching;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use jiff::Timestamp;
use punctual::clock::{add, within};
use punctual::{Builder, Clock, Punctual, Result, Roles, ShutdownReport, SystemClock};
use punctual_connect::{Opened, open, open_transport};
use tokio::sync::watch;
use tokio::task::JoinSet;

pub use reload::SOURCE;

use crate::app::{App, Parts};
use crate::auth::{AuthSettings, Mode, Proxy};
use crate::background::attend;
use crate::config::{AuthMode, Config, Length, Loaded, ServerRole, Sources};
use crate::file_limit;
use crate::listen::{Listening, listen};
use crate::metrics::Meters;
use crate::node::Identity;
use crate::redact::Redaction;
use crate::register;
use crate::router::router;
use crate::targets::{Tools, resolve};
use crate::tls::Tls;
use crate::webhooks::{WEBHOOK_QUEUE, Webhooks};
use crate::wording::for_operators;
use reload::Reloader;
use watching::Watching;

/// How many messages of a queue at once, when nobody says.
const CONCURRENCY_DEFAULT: usize = 100;
/// How long requests under way may take to end.
const REQUESTS_TIMEOUT: Duration = Duration::from_secs(5);

/// What a server is put together from.
pub struct Assembly {
    /// What was read.
    pub loaded: Loaded,
    /// Where it was read from, to read it again.
    pub sources: Sources,
    /// Whether it shows off.
    pub demo: bool,
}

/// A server that runs.
pub struct Running {
    app: App,
    punctual: Arc<Punctual>,
    opened: Opened,
    address: Option<SocketAddr>,
    /// Ends what changes jobs and certificates.
    stop: watch::Sender<bool>,
    /// Closes the socket; after the drain, so that probes are answered until then.
    close: watch::Sender<bool>,
    tasks: JoinSet<()>,
    clock: Arc<dyn Clock>,
    watching: Watching,
}

impl Assembly {
    /// Opens, builds, declares and starts everything. What cannot work is refused before anything runs.
    pub async fn start(self) -> Result<Running> {
        self.assemble().await.map_err(for_operators)
    }

    async fn assemble(self) -> Result<Running> {
        let Self { loaded, sources, demo } = self;
        let config = &loaded.config;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        file_limit::raise();
        let (listening, tls) = socket(config, clock.now()).await?;
        let address = resolve(&config.storage.address)?;
        let opened = open(&address).await?;
        let tools = Tools::new(config, clock.clone())?;
        let meters = Meters::default();
        let watching = Watching::new(config)?;
        let builder = builder(config, &opened, &tools).on_event(meters.hook());
        let mut builder = watching.messages(builder);
        if config.webhooks.enabled {
            let documents = opened.documents.clone();
            let webhooks = Webhooks::new(tools.clone(), documents, clock.clone(), &config.webhooks);
            builder = webhooks.register(builder);
        }
        builder = with_transports(builder, config).await?;
        if demo {
            builder = demo::furnish(builder);
        }
        let punctual = Arc::new(builder.build()?);
        let app = App::new(Parts {
            punctual: punctual.clone(),
            storage: opened.storage.clone(),
            inspect: opened.inspect.clone(),
            documents: opened.documents.clone(),
            clock: clock.clone(),
        })
        .demonstrating(demo)
        .stored_in(kind_of(&address), opened.clone())
        .guarded(tools.guard().clone())
        .running_programs(config.command.clone())
        .on_node(identity(config), meters, serde_json::to_value(config.hidden()).ok());
        let app = watching.requests(configured(app, config)?).encrypting(tls.is_some());
        for warning in loaded.warnings(clock.now()) {
            tracing::warn!("{warning}");
        }
        warn_without_users(&app).await;
        let mut reloader = Reloader::new(&loaded, sources, app.clone(), tools);
        reloader.first(&loaded.config).await?;
        punctual.start().await?;
        let mut running = Running {
            app,
            punctual,
            opened,
            address: None,
            stop: watch::Sender::new(false),
            close: watch::Sender::new(false),
            tasks: JoinSet::new(),
            clock,
            watching,
        };
        running.background((listening, tls), reloader, demo);
        Ok(running)
    }
}

/// Binds the socket, with the certificate it speaks TLS by; nothing when the process does not answer over HTTP.
async fn socket(config: &Config, now: Timestamp) -> Result<(Option<Listening>, Option<Tls>)> {
    let server = &config.server;
    if !server.roles.contains(&ServerRole::Api) {
        return Ok((None, None));
    }
    let tls = server.tls.as_ref().map(|config| Tls::load(config, now)).transpose()?;
    let listening = listen(server.listen).await?.limited(server.connections.clone());
    Ok((Some(listening.encrypted(tls.clone())), tls))
}

/// What is shared by the endpoints, with who may do what and what is hidden and kept.
fn configured(app: App, config: &Config) -> Result<App> {
    let app = app
        .authenticating(auth_settings(config)?)
        .limiting_requests(&config.server.connections)
        .redacting(Redaction::new(&config.redact.names)?.of_topics(&config.redact.topics)?);
    Ok(match config.retention.audit {
        Some(kept) => app.auditing_for(kept.get()),
        None => app,
    })
}

impl Running {
    /// What its endpoints share.
    pub fn app(&self) -> &App {
        &self.app
    }

    /// Where it listens, when it answers over HTTP.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    fn background(
        &mut self,
        (listening, tls): (Option<Listening>, Option<Tls>),
        reloader: Reloader,
        demo: bool,
    ) {
        self.tasks.spawn(attend(self.app.clone()));
        if let Some(listening) = listening {
            self.address = Some(listening.address());
            let listening = listening.counted(self.app.node().connections.clone());
            let router = prefixed(router(self.app.clone()), &self.app.auth().settings.prefix);
            let closed = stopped(self.close.subscribe());
            self.tasks.spawn(async move {
                if let Err(error) = listening.serve(router, closed).await {
                    tracing::error!(%error, "the server no longer answers");
                }
            });
        }
        if let Some(tls) = tls {
            let stopped = stopped(self.stop.subscribe());
            self.tasks.spawn(certificates::watch(tls, self.clock.clone(), stopped));
        }
        self.tasks.spawn(reloader.watch(self.clock.clone(), stopped(self.stop.subscribe())));
        if demo {
            let stopped = stopped(self.stop.subscribe());
            self.tasks.spawn(demo::play(self.punctual.clone(), self.clock.clone(), stopped));
        }
    }

    /// Stops in order: no new work and time for what runs, while requests are answered and health says that the process
    /// is stopping; then no new requests and time for those under way, then the storage.
    pub async fn shutdown(mut self) -> ShutdownReport {
        self.stop.send_replace(true);
        let stopped = self.punctual.shutdown().await;
        self.close.send_replace(true);
        let until = add(self.clock.now(), REQUESTS_TIMEOUT);
        let ended = async { while self.tasks.join_next().await.is_some() {} };
        let _ = within(&*self.clock, until, ended).await;
        self.tasks.shutdown().await;
        self.watching.end().await;
        if let Err(error) = self.opened.close().await {
            tracing::warn!(%error, "the storage did not close in order");
        }
        stopped
    }
}

/// Who this node says it is.
fn identity(config: &Config) -> Identity {
    let roles = serde_json::to_value(&config.server.roles).unwrap_or_default();
    let roles = serde_json::from_value(roles).unwrap_or_default();
    let name = config.server.name.clone().or_else(register::host);
    Identity { name: name.unwrap_or_else(|| Identity::default().name), roles }
}

/// Waits until the server is told to stop, or is gone.
async fn stopped(mut stop: watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

fn builder(config: &Config, opened: &Opened, tools: &Tools) -> Builder {
    let has = |role| config.server.roles.contains(&role);
    let (scheduler, worker) = (has(ServerRole::Scheduler), has(ServerRole::Worker));
    let relay = has(ServerRole::Relay);
    let roles = Roles { scheduler, worker, relay, upkeep: scheduler || worker || relay };
    let builder = Punctual::builder()
        .app("punctual-server")
        .stores(opened.storage.clone(), opened.inspect.clone())
        .roles(roles)
        .configure_from_env()
        .expect_more_jobs()
        .options(|options| {
            options.drain = config.server.drain.get();
            options.retention = config.retention.history.map(Length::get);
            options.dashboard_url.clone_from(&config.server.public_url);
        });
    let mut queues: Vec<(&str, usize)> = config
        .queues
        .iter()
        .map(|(name, queue)| (name.as_str(), queue.concurrency.unwrap_or(CONCURRENCY_DEFAULT)))
        .collect();
    let of_jobs = config.jobs.values().filter_map(|job| job.queue.as_deref().map(str::trim));
    // The server works on the queue of its webhooks by itself.
    let of_jobs = of_jobs.filter(|name| !config.webhooks.enabled || *name != WEBHOOK_QUEUE);
    let needed = std::iter::once("default").chain(of_jobs);
    for name in needed.filter(|_| config.queues.is_empty()) {
        if !queues.iter().any(|(known, _)| *known == name) {
            queues.push((name, CONCURRENCY_DEFAULT));
        }
    }
    let builder = tools.register(builder);
    // The file says which queues there are; without any, those that its jobs need were added above.
    let builder = builder.only_named_queues();
    queues.into_iter().fold(builder, |builder, (name, most)| builder.queue(name, most))
}

async fn with_transports(mut builder: Builder, config: &Config) -> Result<Builder> {
    for (name, transport) in &config.transports {
        let opened = open_transport(&resolve(&transport.address)?).await.map_err(|error| {
            punctual::Error::new(error.kind(), format!("the transport {name:?}: {error}"))
        })?;
        builder = builder.transport(name, opened.transport);
        for topics in &transport.topics {
            builder = builder.route(topics, name);
        }
    }
    Ok(builder)
}

/// How callers are known, as the configuration says.
fn auth_settings(config: &Config) -> Result<AuthSettings> {
    let auth = &config.auth;
    let mode = match auth.mode {
        AuthMode::None => Mode::None,
        AuthMode::Password => Mode::Password,
        AuthMode::Proxy => Mode::Proxy(Proxy {
            header: auth.proxy_header.clone(),
            role_header: auth.proxy_role_header.clone(),
            trusted: auth.proxy_trusted.clone(),
        }),
        #[cfg(feature = "oidc")]
        AuthMode::Oidc => Mode::Oidc(crate::auth::Oidc::of(config)?),
        #[cfg(not(feature = "oidc"))]
        AuthMode::Oidc => return Err(punctual::Error::unsupported(crate::config::WITHOUT_OIDC)),
    };
    let prefix = config.server.url_prefix.clone();
    let forwarders = config.server.trusted_forwarders.clone();
    Ok(AuthSettings { mode, session_ttl: auth.session_ttl.get(), prefix, forwarders })
}

/// Says how the first user is made, since nobody can log in before.
async fn warn_without_users(app: &App) {
    if app.auth().needs_users() && matches!(app.auth().has_users().await, Ok(false)) {
        tracing::warn!(
            "there is no user yet, so nobody can log in; make one with `punctual users add NAME admin --storage ADDRESS`"
        );
    }
}

/// The kind of storage in one word: what its address begins with.
fn kind_of(address: &str) -> &str {
    address.split_once(':').map_or(address, |(kind, _)| kind)
}

/// Everything under what paths begin with, where they begin with something.
fn prefixed(router: Router, prefix: &str) -> Router {
    match prefix.trim_end_matches('/') {
        "" => router,
        // Not `nest`, which would not answer the prefix with a slash at its end.
        prefix => Router::new().nest_service(prefix, router),
    }
}
