//! Assembly of a running server from a configuration: opens storage and transports, builds the process, declares its
//! jobs, serves the socket, watches the file; and shuts everything down in order.

mod certificates;
mod demo;
mod observability;
mod reload;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use jiff::Timestamp;
use punctual::clock::{add, within};
use punctual::{Builder, Clock, Punctual, Result, Roles, ShutdownReport, SystemClock};
use punctual_backends::{OpenedStorage, open, open_transport};
use tokio::sync::watch;
use tokio::task::JoinSet;

pub use reload::SOURCE;

use crate::app::{App, AppParts};
use crate::auth::{AuthSettings, Mode, Proxy};
use crate::background::run_background;
use crate::config::{AuthMode, Config, ConfigDuration, LoadedConfig, ServerRole, Sources};
use crate::file_limit;
use crate::listen::{BoundListener, listen};
use crate::metrics::Meters;
use crate::node::Identity;
use crate::process_registry;
use crate::redact::Redaction;
use crate::router::router;
use crate::targets::{TargetServices, resolve};
use crate::tls::Tls;
use crate::webhooks::{WEBHOOK_QUEUE, Webhooks};
use crate::wording::for_operators;
use observability::Observability;
use reload::Reloader;

/// Concurrency of a queue without a configured one.
const CONCURRENCY_DEFAULT: usize = 100;
/// How long requests in flight may take to end at shutdown.
const REQUESTS_TIMEOUT: Duration = Duration::from_secs(5);

/// Input of a server start.
pub struct Assembly {
    /// The configuration.
    pub loaded: LoadedConfig,
    /// The sources it was read from, for reloads.
    pub sources: Sources,
    /// Whether to run the demo jobs.
    pub demo: bool,
}

/// A running server.
pub struct RunningServer {
    app: App,
    punctual: Arc<Punctual>,
    opened: OpenedStorage,
    address: Option<SocketAddr>,
    /// Stops the reload of jobs and certificates.
    stop: watch::Sender<bool>,
    /// Closes the socket after the drain, so that probes get a response until then.
    close: watch::Sender<bool>,
    tasks: JoinSet<()>,
    clock: Arc<dyn Clock>,
    observability: Observability,
}

impl Assembly {
    /// Opens, builds, declares and starts everything. Fails before anything runs when the configuration cannot work.
    pub async fn start(self) -> Result<RunningServer> {
        self.assemble().await.map_err(for_operators)
    }

    async fn assemble(self) -> Result<RunningServer> {
        let Self { loaded, sources, demo } = self;
        let config = &loaded.config;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        file_limit::raise();
        let (listener, tls) = socket(config, clock.now()).await?;
        let address = resolve(&config.storage.address)?;
        let opened = open(&address).await?;
        let services = TargetServices::new(config, clock.clone())?;
        let meters = Meters::default();
        let observability = Observability::new(config)?;
        let builder = builder(config, &opened, &services).on_event(meters.hook());
        let mut builder = observability.messages(builder);
        if config.webhooks.enabled {
            let documents = opened.documents.clone();
            let webhooks =
                Webhooks::new(services.clone(), documents, clock.clone(), &config.webhooks);
            builder = webhooks.register(builder);
        }
        builder = with_transports(builder, config).await?;
        if demo {
            builder = demo::register(builder);
        }
        let punctual = Arc::new(builder.build()?);
        let app = App::new(AppParts {
            punctual: punctual.clone(),
            storage: opened.storage.clone(),
            inspect: opened.inspect.clone(),
            documents: opened.documents.clone(),
            clock: clock.clone(),
        })
        .demonstrating(demo)
        .stored_in(kind_of(&address), opened.clone())
        .guarded(services.guard().clone())
        .running_programs(config.command.clone())
        .on_node(identity(config), meters, serde_json::to_value(config.hidden()).ok());
        let app = observability.requests(configured(app, config)?).encrypting(tls.is_some());
        for warning in loaded.warnings(clock.now()) {
            tracing::warn!("{warning}");
        }
        warn_without_users(&app).await;
        let mut reloader = Reloader::new(&loaded, sources, app.clone(), services);
        reloader.first(&loaded.config).await?;
        punctual.start().await?;
        let mut running = RunningServer {
            app,
            punctual,
            opened,
            address: None,
            stop: watch::Sender::new(false),
            close: watch::Sender::new(false),
            tasks: JoinSet::new(),
            clock,
            observability,
        };
        running.background((listener, tls), reloader, demo);
        Ok(running)
    }
}

/// Binds the socket and loads its certificate; returns none without the role `api`.
async fn socket(config: &Config, now: Timestamp) -> Result<(Option<BoundListener>, Option<Tls>)> {
    let server = &config.server;
    if !server.roles.contains(&ServerRole::Api) {
        return Ok((None, None));
    }
    let tls = server.tls.as_ref().map(|config| Tls::load(config, now)).transpose()?;
    let listener = listen(server.listen).await?.limited(server.connections.clone());
    Ok((Some(listener.encrypted(tls.clone())), tls))
}

/// Applies authentication, request limits, redaction and audit retention of the configuration.
fn configured(app: App, config: &Config) -> Result<App> {
    let app = app
        .authenticating(auth_settings(config)?)
        .limiting_requests(&config.server.connections)
        .redacting(Redaction::new(&config.redact.names)?.of_topics(&config.redact.topics)?);
    Ok(match config.retention.audit {
        Some(retention) => app.auditing_for(retention.get()),
        None => app,
    })
}

impl RunningServer {
    /// Returns the application state.
    pub fn app(&self) -> &App {
        &self.app
    }

    /// Returns the address it listens on; none without the role `api`.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    fn background(
        &mut self,
        (listener, tls): (Option<BoundListener>, Option<Tls>),
        reloader: Reloader,
        demo: bool,
    ) {
        self.tasks.spawn(run_background(self.app.clone()));
        if let Some(listener) = listener {
            self.address = Some(listener.address());
            let listener = listener.counted(self.app.node().connections.clone());
            let router = prefixed(router(self.app.clone()), &self.app.auth().settings.prefix);
            let closed = stopped(self.close.subscribe());
            self.tasks.spawn(async move {
                if let Err(error) = listener.serve(router, closed).await {
                    tracing::error!(%error, "the HTTP server stopped unexpectedly");
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
            self.tasks.spawn(demo::publish_orders(
                self.punctual.clone(),
                self.clock.clone(),
                stopped,
            ));
        }
    }

    /// Shuts down in order: drains running work while HTTP still responds and health reports `stopping`; then stops
    /// accepting requests and waits for those in flight; then closes the storage.
    pub async fn shutdown(mut self) -> ShutdownReport {
        self.stop.send_replace(true);
        let stopped = self.punctual.shutdown().await;
        self.close.send_replace(true);
        let until = add(self.clock.now(), REQUESTS_TIMEOUT);
        let ended = async { while self.tasks.join_next().await.is_some() {} };
        let _ = within(&*self.clock, until, ended).await;
        self.tasks.shutdown().await;
        self.observability.end().await;
        if let Err(error) = self.opened.close().await {
            tracing::warn!(%error, "the storage was not closed cleanly");
        }
        stopped
    }
}

/// Returns the name and roles of this node.
fn identity(config: &Config) -> Identity {
    let roles = serde_json::to_value(&config.server.roles).unwrap_or_default();
    let roles = serde_json::from_value(roles).unwrap_or_default();
    let name = config.server.name.clone().or_else(process_registry::host);
    Identity { name: name.unwrap_or_else(|| Identity::default().name), roles }
}

/// Waits until the server is asked to stop, or was dropped.
async fn stopped(mut stop: watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

fn builder(config: &Config, opened: &OpenedStorage, services: &TargetServices) -> Builder {
    let has = |role| config.server.roles.contains(&role);
    let (scheduler, worker) = (has(ServerRole::Scheduler), has(ServerRole::Worker));
    let relay = has(ServerRole::Relay);
    let roles = Roles { scheduler, worker, relay, maintenance: scheduler || worker || relay };
    let builder = Punctual::builder()
        .app("punctual-server")
        .stores(opened.storage.clone(), opened.inspect.clone())
        .roles(roles)
        .configure_from_env()
        .expect_more_jobs()
        .options(|options| {
            options.drain_timeout = config.server.drain_timeout.get();
            options.retention = config.retention.history.map(ConfigDuration::get);
            options.dashboard_url.clone_from(&config.server.public_url);
        });
    let mut queues: Vec<(&str, usize)> = config
        .queues
        .iter()
        .map(|(name, queue)| (name.as_str(), queue.concurrency.unwrap_or(CONCURRENCY_DEFAULT)))
        .collect();
    let of_jobs = config.jobs.values().filter_map(|job| job.queue.as_deref().map(str::trim));
    // The queue of webhooks is added with their handler.
    let of_jobs = of_jobs.filter(|name| !config.webhooks.enabled || *name != WEBHOOK_QUEUE);
    let needed = std::iter::once("default").chain(of_jobs);
    for name in needed.filter(|_| config.queues.is_empty()) {
        if !queues.iter().any(|(known, _)| *known == name) {
            queues.push((name, CONCURRENCY_DEFAULT));
        }
    }
    let builder = services.register(builder);
    // The file names the queues; without any, those that its jobs need were added above.
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

/// Returns the authentication settings of the configuration.
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

/// Warns with the command that creates the first user when no user exists.
async fn warn_without_users(app: &App) {
    if app.auth().needs_users() && matches!(app.auth().has_users().await, Ok(false)) {
        tracing::warn!(
            "no user exists, so a login is not possible; create one with `punctual users add NAME admin --storage ADDRESS`"
        );
    }
}

/// Returns the kind of storage: the scheme of its address.
fn kind_of(address: &str) -> &str {
    address.split_once(':').map_or(address, |(kind, _)| kind)
}

/// Nests the router under the URL prefix, when there is one.
fn prefixed(router: Router, prefix: &str) -> Router {
    match prefix.trim_end_matches('/') {
        "" => router,
        // Not `nest`, which would not match the prefix with a trailing slash.
        prefix => Router::new().nest_service(prefix, router),
    }
}
