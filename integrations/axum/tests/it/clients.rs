//! Client extractors in handlers of a web application, with any state.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{FromRef, Path, State};
use axum::http::{Request, StatusCode};
use axum::routing::post;
use punctual::{Jobs, Publisher, Punctual};
use punctual_axum::{Client, ProblemResponse};
use tower::ServiceExt;

use crate::fixture::{run_until_idle, started};

async fn order(
    Path(topic): Path<String>,
    Client(publisher): Client<Publisher>,
) -> Result<StatusCode, ProblemResponse> {
    publisher.publish(topic, &7_u32).await?;
    Ok(StatusCode::ACCEPTED)
}

async fn send(router: Router, path: &str) -> StatusCode {
    let request = Request::post(path).body(Body::empty()).unwrap();
    router.oneshot(request).await.unwrap().status()
}

#[tokio::test]
async fn a_request_publishes_and_a_wrong_one_is_refused() {
    let punctual = started(|builder| builder.handler("order", async |_: u32| {})).await;
    let app = Router::new().route("/send/{topic}", post(order)).with_state(punctual.clone());
    assert_eq!(send(app.clone(), "/send/order").await, StatusCode::ACCEPTED);
    run_until_idle().await;
    assert_eq!(punctual.events().count("attempt.succeeded"), 1);
    let long = format!("/send/{}", "x".repeat(10_000));
    assert_eq!(send(app, &long).await, StatusCode::BAD_REQUEST);
}

#[derive(Clone)]
struct Shop {
    punctual: Arc<Punctual>,
    name: &'static str,
}

impl FromRef<Shop> for Arc<Punctual> {
    fn from_ref(shop: &Shop) -> Self {
        shop.punctual.clone()
    }
}

async fn remind(
    State(shop): State<Shop>,
    Client(jobs): Client<Jobs>,
) -> Result<(), ProblemResponse> {
    jobs.once("remind").key(shop.name).await?;
    Ok(())
}

#[tokio::test]
async fn the_state_of_an_application_may_be_its_own() {
    let punctual = started(|builder| builder).await;
    let shop = Shop { punctual, name: "corner" };
    let app = Router::new().route("/", post(remind)).with_state(shop);
    assert_eq!(send(app.clone(), "/").await, StatusCode::OK);
    assert_eq!(send(app, "/").await, StatusCode::CONFLICT, "one with the same key is alive");
}
