//! What is true of every operation, added to the description of the API once: who may call, how problems are
//! answered, and the header that makes a change safe to repeat.

use axum::http::StatusCode;
use utoipa::Modify;
use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn, PathItem};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::security::{
    ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme,
};
use utoipa::openapi::tag::TagBuilder;
use utoipa::openapi::{
    Components, Content, HeaderBuilder, OpenApi, Ref, RefOr, Required, Response, ResponseBuilder,
};

use crate::auth::COOKIE_NAME;

/// How problems are sent.
const PROBLEM: &str = "application/problem+json";
/// The header that makes a change safe to repeat.
const KEY: &str = "Idempotency-Key";

/// Why an operation says no, and what that means.
const PROBLEMS: [(StatusCode, &str); 12] = [
    (StatusCode::BAD_REQUEST, "The path, the query or the JSON of the body cannot be read."),
    (StatusCode::UNAUTHORIZED, "Nobody knows who calls, or what they showed is wrong."),
    (
        StatusCode::FORBIDDEN,
        "The role of the caller does not allow it, or another site made the browser send it.",
    ),
    (StatusCode::NOT_FOUND, "There is no such thing."),
    (
        StatusCode::CONFLICT,
        "The present state does not allow it, or a request with the same key is under way.",
    ),
    (StatusCode::PRECONDITION_FAILED, "Somebody changed it since."),
    (StatusCode::PAYLOAD_TOO_LARGE, "The body is larger than this server takes."),
    (StatusCode::UNSUPPORTED_MEDIA_TYPE, "The body is not of the type `application/json`."),
    (
        StatusCode::UNPROCESSABLE_ENTITY,
        "It was understood and cannot be done; `errors` names the fields.",
    ),
    (
        StatusCode::TOO_MANY_REQUESTS,
        "There were too many wrong passwords, or too many logins from this address wait to be checked, or as many requests of the caller are under way as may be; wait, then try again.",
    ),
    (StatusCode::BAD_GATEWAY, "Whoever people sign in with does not answer, or not as agreed."),
    (
        StatusCode::SERVICE_UNAVAILABLE,
        "The storage does not answer, it took too long, or as many logins, event streams or waiting workers are there as may; wait, then try again.",
    ),
];

/// The groups of operations, in the order they are shown.
const GROUPS: [(&str, &str); 19] = [
    ("jobs", "Work on a schedule: what there is, what it did, what it will do, and steering it."),
    (
        "schedules",
        "What schedules mean, when everything fires, and what changes of the clock do to it.",
    ),
    ("messages", "Sending messages now or later, looking at them, and acting on one or on many."),
    ("dead letters", "Messages that were given up, in groups by what went wrong."),
    ("batches", "Messages that belong together."),
    ("queues", "The lines in which messages wait."),
    ("topics", "Topics, transports and subscriptions."),
    ("work", "Handling messages from any language: claim, extend, report, settle."),
    ("workers", "The processes that handle messages."),
    ("webhooks", "Requests that are sent when something happens."),
    ("events", "What happens, as it happens."),
    ("figures", "The whole at a glance, and figures over time."),
    ("storage", "Where everything is kept."),
    ("audit", "Who changed what."),
    ("session", "Logging in and out."),
    ("users", "Who may log in."),
    ("tokens", "Secrets for programs."),
    ("views", "Filters of the dashboard that somebody has saved."),
    ("settings", "The configuration in force."),
];

/// Completes a description.
pub(super) struct Everywhere {
    /// Whether callers have to say who they are.
    pub(super) closed: bool,
}

impl Modify for Everywhere {
    fn modify(&self, document: &mut OpenApi) {
        document.security = Some(securities(self.closed));
        let tags = GROUPS
            .map(|(name, about)| TagBuilder::new().name(name).description(Some(about)).build());
        document.tags = Some(tags.into());
        for (path, item) in &mut document.paths.paths {
            for (changes, operation) in operations(item) {
                named(operation, path);
                worded(operation);
                complete(operation, changes);
            }
        }
        let components = document.components.get_or_insert_default();
        add_problems(components);
        add_schemes(components);
        components.parameters.insert(KEY.to_owned(), RefOr::T(key()));
    }
}

/// The operations of a path, and whether each changes something.
fn operations(item: &mut PathItem) -> impl Iterator<Item = (bool, &mut Operation)> {
    let PathItem { get, head, options, put, post, delete, patch, .. } = item;
    let reads = [get, head, options].into_iter().flatten().map(|one| (false, one));
    reads.chain([put, post, delete, patch].into_iter().flatten().map(|one| (true, one)))
}

/// Gives an operation a name that no other has: what it does, and to what.
fn named(operation: &mut Operation, path: &str) {
    let mut parts = path.trim_start_matches("/api/v1/").split('/');
    let subject = parts.next().unwrap_or_default().replace('-', "_");
    let Some(id) = &mut operation.operation_id else { return };
    if id == "one" {
        "get".clone_into(id);
    }
    if !id.contains(subject.trim_end_matches("es").trim_end_matches('s')) {
        *id = format!("{id}_{subject}");
    }
}

/// Cuts the words of an operation after the first sentence instead of after the first line.
fn worded(operation: &mut Operation) {
    let parts = [operation.summary.take(), operation.description.take()];
    let words: Vec<String> = parts.into_iter().flatten().collect();
    let words = words.join(" ").replace('\n', " ");
    let (first, rest) = match words.split_once(". ") {
        Some((first, rest)) => (format!("{first}."), Some(rest.trim().to_owned())),
        None => (words, None),
    };
    operation.summary = Some(first).filter(|first| !first.is_empty());
    operation.description = rest;
}

fn complete(operation: &mut Operation, changes: bool) {
    if changes {
        let key = RefOr::Ref(Ref::new(format!("#/components/parameters/{KEY}")));
        operation.parameters.get_or_insert_default().push(key);
    }
    let has = |wanted: &ParameterIn| {
        let all = operation.parameters.iter().flatten();
        all.filter_map(|one| if let RefOr::T(one) = one { Some(one) } else { None })
            .any(|one| one.parameter_in == *wanted)
    };
    let (in_path, in_query) = (has(&ParameterIn::Path), has(&ParameterIn::Query));
    let has_body = operation.request_body.is_some();
    let possible = PROBLEMS.iter().map(|(status, _)| *status).filter(|status| match *status {
        StatusCode::BAD_REQUEST => in_path || in_query || has_body,
        StatusCode::NOT_FOUND => in_path,
        StatusCode::CONFLICT | StatusCode::PAYLOAD_TOO_LARGE => changes,
        StatusCode::UNSUPPORTED_MEDIA_TYPE => has_body,
        StatusCode::UNPROCESSABLE_ENTITY => changes || in_path || in_query,
        StatusCode::PRECONDITION_FAILED | StatusCode::BAD_GATEWAY => false,
        _ => true,
    });
    let responses = &mut operation.responses.responses;
    for status in possible {
        responses.entry(status.as_str().to_owned()).or_insert_with(|| refer(status));
    }
    for (code, response) in responses {
        describe(code, response);
    }
}

/// Gives a response what every one has: words, and for a problem its type.
fn describe(code: &str, response: &mut RefOr<Response>) {
    let RefOr::T(said) = response else { return };
    let Ok(status) = code.parse::<StatusCode>() else { return };
    let is_problem = status.is_client_error() || status.is_server_error();
    if is_problem && said.description.is_empty() {
        *response = refer(status);
    } else if is_problem {
        said.content.clear();
        said.content.insert(PROBLEM.to_owned(), RefOr::T(problem()));
    } else if said.description.is_empty() {
        let words = match status {
            StatusCode::CREATED => "It was made.",
            StatusCode::NO_CONTENT => "It was done; there is nothing to say.",
            _ => "It was done.",
        };
        words.clone_into(&mut said.description);
    }
}

/// The name of a problem among the responses: `NotFound`.
fn name(status: StatusCode) -> String {
    status.canonical_reason().unwrap_or("Problem").replace(' ', "")
}

fn refer(status: StatusCode) -> RefOr<Response> {
    RefOr::Ref(Ref::from_response_name(name(status)))
}

fn problem() -> Content {
    Content::new(Some(Ref::from_schema_name("Problem")))
}

fn add_problems(components: &mut Components) {
    for (status, about) in PROBLEMS {
        let mut response = ResponseBuilder::new().description(about).content(PROBLEM, problem());
        let waits =
            matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
        if waits {
            let seconds = ObjectBuilder::new().schema_type(Type::Integer).build();
            let about = Some("In how many seconds to try again.");
            let header = HeaderBuilder::new().schema(Some(seconds)).description(about).build();
            response = response.header("Retry-After", header);
        }
        components.responses.insert(name(status), RefOr::T(response.build()));
    }
}

fn add_schemes(components: &mut Components) {
    let http = |scheme: HttpAuthScheme, about: &str| {
        SecurityScheme::Http(HttpBuilder::new().scheme(scheme).description(Some(about)).build())
    };
    let bearer = http(HttpAuthScheme::Bearer, "A token, made under Settings or by POST /tokens.");
    components.add_security_scheme("token", bearer);
    let basic = http(HttpAuthScheme::Basic, "The name and the password of a user.");
    components.add_security_scheme("password", basic);
    let cookie = ApiKeyValue::with_description(
        COOKIE_NAME,
        "The session of a browser, made by POST /session.",
    );
    components.add_security_scheme("session", SecurityScheme::ApiKey(ApiKey::Cookie(cookie)));
    let csrf = ApiKeyValue::with_description(
        "X-CSRF-Token",
        "What GET /session says; changes of a session have to show it.",
    );
    components.add_security_scheme("page", SecurityScheme::ApiKey(ApiKey::Header(csrf)));
}

/// How a caller may say who it is; one of them suffices.
fn securities(closed: bool) -> Vec<SecurityRequirement> {
    let none: [&str; 0] = [];
    let mut ways = vec![
        SecurityRequirement::new("token", none),
        SecurityRequirement::new("password", none),
        SecurityRequirement::new("session", none).add("page", none),
    ];
    if !closed {
        ways.push(SecurityRequirement::default());
    }
    ways
}

fn key() -> Parameter {
    let text = ObjectBuilder::new().schema_type(Type::String).min_length(Some(1));
    ParameterBuilder::new()
        .name(KEY)
        .parameter_in(ParameterIn::Header)
        .required(Required::False)
        .schema(Some(text.max_length(Some(200))))
        .description(Some(
            "Makes the change safe to repeat: with the same key the first answer comes again. After a crash the \
             request runs again, and what is stored or was deleted here is not made twice. Repeat after 409 with \
             Retry-After, after 5xx, and without an answer. Kept for a day.",
        ))
        .build()
}
