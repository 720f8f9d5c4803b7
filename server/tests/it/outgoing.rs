//! Outgoing calls: through a proxy, without it, and with private certificate authorities. Everything runs on this
//! machine.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::routing::any;
use punctual::clock::{Clock, add, within};
use punctual::inspect::{ExecutionFilter, Inspect, PageRequest};
use punctual::model::{Ending, Execution, HandlerOptions};
use punctual::{MemoryStorage, Punctual, Retry, SystemClock};
use punctual_server::config::{Config, Networks};
#[cfg(feature = "oidc")]
use punctual_server::{Oidc, OutgoingCalls};
use punctual_server::{Secret, Target, TargetServices, Webhooks, Work};
use serde_json::json;
use tokio_rustls::TlsAcceptor;

use crate::running_server::LiveServer;
use crate::tls::Authority;

const TIMEOUT: Duration = Duration::from_secs(60);

fn networks(list: &[&str]) -> Networks {
    Networks::read(list.iter().map(|text| (*text).to_owned()).collect()).unwrap()
}

/// Calls a URL once, as a job does.
async fn call(config: &Config, url: &str) -> Execution {
    let clock = Arc::new(SystemClock);
    let storage = Arc::new(MemoryStorage::new(clock.clone()));
    let services = TargetServices::new(config, clock.clone()).unwrap();
    let builder = Punctual::builder().storage(storage.clone());
    let punctual = services.register(builder).build().unwrap();
    punctual.start().await.unwrap();
    let target: Target = serde_json::from_value(json!({ "http": { "url": url } })).unwrap();
    let work = Work { target, payload: None };
    let handler_options =
        HandlerOptions { retry: Some(Retry::none()), ..HandlerOptions::default() };
    let topic = work.target.topic().unwrap();
    let published =
        punctual.publisher().publish(topic, &work).handler_options(handler_options).await.unwrap();
    let ended = async {
        loop {
            let filter = ExecutionFilter { message: Some(published.id), ..<_>::default() };
            let found =
                Inspect::executions(&*storage, filter, PageRequest::first(1)).await.unwrap();
            if let Some(execution) = found.rows.into_iter().next() {
                return Execution::clone(&execution);
            }
            clock.sleep_until(add(clock.now(), Duration::from_millis(20))).await;
        }
    };
    let ended = within(&*clock, add(clock.now(), TIMEOUT), ended).await.unwrap();
    punctual.shutdown().await;
    ended
}

fn note(execution: &Execution) -> &str {
    execution.note.as_deref().unwrap_or_default()
}

type ReceivedRequests = Arc<Mutex<Vec<(String, Option<String>)>>>;

/// Starts a proxy that responds itself instead of forwarding.
async fn proxy() -> (SocketAddr, ReceivedRequests) {
    let seen = ReceivedRequests::default();
    let respond = async |State(seen): State<ReceivedRequests>, request: Request| {
        let shown = request.headers().get("proxy-authorization");
        let shown = shown.map(|value| value.to_str().unwrap().to_owned());
        seen.lock().unwrap().push((request.uri().to_string(), shown));
        "from the proxy"
    };
    let router = Router::new().fallback(any(respond)).with_state(seen.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    (address, seen)
}

#[tokio::test]
async fn calls_go_through_the_proxy_unless_the_host_is_listed() {
    let (address, seen) = proxy().await;
    let mut config = Config::default();
    config.outgoing.proxy = Some(Secret::from(&*format!("http://ada:s3cret@{address}")));
    config.outgoing.no_proxy = networks(&["127.0.0.1"]);
    // A public address: only the proxy responds.
    let ended = call(&config, "http://192.88.99.1/run").await;
    assert_eq!(ended.ending, Ending::Succeeded, "{ended:?}");
    assert!(ended.log.as_deref().unwrap_or_default().contains("from the proxy"), "{ended:?}");
    let (asked, shown) = seen.lock().unwrap()[0].clone();
    assert_eq!(asked, "http://192.88.99.1/run");
    assert_eq!(shown.as_deref(), Some("Basic YWRhOnMzY3JldA=="));
    // Without the proxy, where the address rules apply as usual.
    let url = format!("http://{address}/direct");
    assert!(note(&call(&config, &url).await).contains("http.allow"));
    config.http.allow = networks(&["127.0.0.1"]);
    assert_eq!(call(&config, &url).await.ending, Ending::Succeeded);
    assert_eq!(seen.lock().unwrap()[1].0, "/direct", "not as a proxy");
}

#[tokio::test]
async fn webhooks_are_delivered_through_the_proxy() {
    let (address, seen) = proxy().await;
    let mut config = Config::default();
    config.outgoing.proxy = Some(Secret::from(&*format!("http://{address}")));
    let server = LiveServer::start(|builder, storage| {
        let clock = Arc::new(SystemClock);
        let services = TargetServices::new(&config, clock.clone()).unwrap();
        Webhooks::new(services, storage.clone(), clock, &config.webhooks).register(builder)
    })
    .await;
    let webhook = json!({ "url": "http://192.88.99.1/hook", "events": ["message.dead"] });
    let (status, made) = server.call("POST", "/api/v1/webhooks", &webhook).await;
    assert_eq!(status, 201, "{made}");
    let test = format!("/api/v1/webhooks/{}/test", made["id"].as_str().unwrap());
    let (status, tested) = server.call("POST", &test, &json!({})).await;
    assert_eq!((status, &tested["ending"]), (200, &json!("succeeded")), "{tested}");
    assert_eq!(seen.lock().unwrap()[0].0, "http://192.88.99.1/hook");
}

#[cfg(feature = "oidc")]
#[tokio::test]
async fn the_identity_provider_is_called_through_the_proxy() {
    let (address, seen) = proxy().await;
    let mut config = Config::default();
    config.outgoing.proxy = Some(Secret::from(&*format!("http://{address}")));
    let outgoing = OutgoingCalls::load(&config.outgoing).unwrap();
    let settings = crate::oidc::settings("http://192.88.99.1");
    let site = crate::oidc::site_of(Oidc { outgoing, ..settings });
    let response = site.get("/api/v1/session/oidc").await;
    assert_eq!(response.status, 502, "the proxy is no provider: {}", response.text);
    let asked = seen.lock().unwrap()[0].0.clone();
    assert_eq!(asked, "http://192.88.99.1/.well-known/openid-configuration");
}

/// Collects the source files of the server without tests, with their texts.
fn sources(folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let text = text.split("#[cfg(test)]\nmod tests").next().unwrap().to_owned();
            found.push((path.to_string_lossy().into_owned(), text));
        }
    }
}

// New code that creates an HTTP client without the configured proxy and authorities fails here.
#[test]
fn every_http_client_is_created_in_one_place() {
    let mut all = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut all);
    let words = [
        "Client::builder",
        "reqwest::Client::new",
        "reqwest::get",
        "reqwest::blocking",
        "TcpStream::connect",
    ];
    let makes = |text: &str| words.iter().any(|word| text.contains(word));
    let homes: Vec<String> =
        all.into_iter().filter(|(_, text)| makes(text)).map(|(path, _)| path).collect();
    assert_eq!(homes.len(), 1, "{homes:?}");
    assert!(homes[0].ends_with("outgoing.rs"), "{homes:?}");
}

#[tokio::test]
async fn private_addresses_are_refused_through_the_proxy() {
    let (address, seen) = proxy().await;
    let mut config = Config::default();
    // By name, so that the resolver of the client must accept the proxy.
    config.outgoing.proxy = Some(Secret::from(&*format!("http://localhost:{}", address.port())));
    let itself = format!("http://localhost:{}/", address.port());
    for url in ["http://10.0.0.1/", "http://169.254.169.254/", "http://localhost:9/", &itself] {
        let ended = call(&config, url).await;
        assert!(note(&ended).contains("http.allow"), "{url}: {ended:?}");
    }
    let unknown = call(&config, "http://name.invalid/").await;
    assert!(note(&unknown).contains("cannot be resolved"), "{unknown:?}");
    assert!(seen.lock().unwrap().is_empty());
    config.http.allow = networks(&["name.invalid"]);
    assert_eq!(call(&config, "http://name.invalid/").await.ending, Ending::Succeeded);
    config.http.deny = networks(&["name.invalid"]);
    assert!(note(&call(&config, "http://name.invalid/").await).contains("http.deny"));
}

#[tokio::test]
async fn a_private_certificate_authority_is_trusted_when_configured() {
    let authority = Authority::new();
    let address = secure_server(&authority).await;
    let url = format!("https://localhost:{}/", address.port());
    let mut config = Config::default();
    config.http.allow = networks(&["localhost"]);
    let refused = call(&config, &url).await;
    assert!(note(&refused).contains("certificate"), "{refused:?}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    std::fs::write(&file, authority.pem()).unwrap();
    config.outgoing.ca_file = Some(file.clone());
    let ended = call(&config, &url).await;
    assert_eq!(ended.ending, Ending::Succeeded, "{ended:?}");
    std::fs::write(&file, "nothing").unwrap();
    let error = TargetServices::new(&config, Arc::new(SystemClock)).err().unwrap().to_string();
    assert!(
        error.starts_with("outgoing.ca_file: ") && error.contains("no PEM certificates"),
        "{error}"
    );
}

/// Starts a TLS server that returns 200.
async fn secure_server(authority: &Authority) -> SocketAddr {
    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let (certificate, key) = authority.issue(|_| {});
    let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            if let Ok(mut stream) = acceptor.accept(stream).await {
                let _ = stream.read(&mut [0; 4_096]).await;
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
                let _ = stream.shutdown().await;
            }
        }
    });
    address
}
