//! Common responses: the parts of the OpenAPI document that all operations share, which are security schemes, error
//! responses and the `Idempotency-Key` header.

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

/// Media type of error responses.
const PROBLEM: &str = "application/problem+json";
/// Header that makes a change safe to repeat.
const KEY: &str = "Idempotency-Key";

/// Error responses and their descriptions.
const PROBLEMS: [(StatusCode, &str); 12] = [
    (
        StatusCode::BAD_REQUEST,
        "Bad Request: the path, the query string or the JSON body is malformed.",
    ),
    (StatusCode::UNAUTHORIZED, "Unauthorized: missing or invalid credentials."),
    (
        StatusCode::FORBIDDEN,
        "Forbidden: the role or token of the caller does not allow the operation, or the request came from another site.",
    ),
    (StatusCode::NOT_FOUND, "Not Found: the resource does not exist."),
    (
        StatusCode::CONFLICT,
        "Conflict: the current state of the resource does not allow the operation, or a request with the same Idempotency-Key is in progress.",
    ),
    (
        StatusCode::PRECONDITION_FAILED,
        "Precondition Failed: the resource was changed since the given ETag.",
    ),
    (
        StatusCode::PAYLOAD_TOO_LARGE,
        "Payload Too Large: the body is larger than this server accepts.",
    ),
    (
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "Unsupported Media Type: the body is not `application/json`.",
    ),
    (
        StatusCode::UNPROCESSABLE_ENTITY,
        "Unprocessable Entity: a parameter or field is invalid; `errors` lists the fields.",
    ),
    (
        StatusCode::TOO_MANY_REQUESTS,
        "Too Many Requests: too many wrong passwords, too many pending logins from this address, or too many concurrent requests of the caller. Retry after the time in `Retry-After`.",
    ),
    (
        StatusCode::BAD_GATEWAY,
        "Bad Gateway: the identity provider is unreachable or returned an invalid response.",
    ),
    (
        StatusCode::SERVICE_UNAVAILABLE,
        "Service Unavailable: the storage is unavailable, the request timed out, or the limit of logins, event streams or waiting workers is reached. Retry after the time in `Retry-After`.",
    ),
];

/// Tags of operations, in display order, with their descriptions.
const TAGS: [(&str, &str); 19] = [
    ("jobs", "Scheduled jobs: definitions, history, upcoming runs and operations."),
    ("schedules", "Schedule previews, and a calendar of runs and clock changes."),
    ("messages", "Publish messages now or later, list them, and change one or many."),
    ("dead letters", "Messages that failed and are not retried, grouped by failure."),
    ("batches", "Groups of messages that were published together."),
    ("queues", "Queues, their counts, and pausing, resizing and purging them."),
    ("topics", "Topics, transports and subscriptions."),
    ("work", "HTTP workers: claim messages, extend leases, report progress, settle."),
    ("workers", "Processes that handle messages."),
    ("webhooks", "HTTP notifications about events."),
    ("events", "Live events as server-sent events."),
    ("metrics", "Overview, health, and metrics over time."),
    ("storage", "The storage of messages and jobs."),
    ("audit", "Audit trail of changes."),
    ("session", "Log in, log out, and the current session."),
    ("users", "Users and their roles."),
    ("tokens", "API tokens."),
    ("views", "Saved views of the dashboard."),
    ("settings", "The effective configuration."),
];

/// Adds the common parts to an OpenAPI document.
pub(super) struct CommonResponses {
    /// Whether callers must authenticate.
    pub(super) closed: bool,
}

impl Modify for CommonResponses {
    fn modify(&self, document: &mut OpenApi) {
        document.security = Some(security(self.closed));
        let tags =
            TAGS.map(|(name, about)| TagBuilder::new().name(name).description(Some(about)).build());
        document.tags = Some(tags.into());
        for (path, item) in &mut document.paths.paths {
            for (is_change, operation) in operations(item) {
                set_operation_id(operation, path);
                split_description(operation);
                add_responses(operation, is_change);
            }
        }
        let components = document.components.get_or_insert_default();
        add_error_responses(components);
        add_schemes(components);
        components.parameters.insert(KEY.to_owned(), RefOr::T(key_parameter()));
    }
}

/// Returns the operations of a path, each with whether it changes something.
fn operations(item: &mut PathItem) -> impl Iterator<Item = (bool, &mut Operation)> {
    let PathItem { get, head, options, put, post, delete, patch, .. } = item;
    let reads = [get, head, options].into_iter().flatten().map(|one| (false, one));
    reads.chain([put, post, delete, patch].into_iter().flatten().map(|one| (true, one)))
}

/// Makes the id of an operation unique: its verb and its resource, such as `list_jobs`.
fn set_operation_id(operation: &mut Operation, path: &str) {
    let mut parts = path.trim_start_matches("/api/v1/").split('/');
    let subject = parts.next().unwrap_or_default().replace('-', "_");
    let Some(id) = &mut operation.operation_id else { return };
    if !id.contains(subject.trim_end_matches("es").trim_end_matches('s')) {
        *id = format!("{id}_{subject}");
    }
}

/// Makes the first sentence the summary and the rest the description; utoipa splits after the first line.
fn split_description(operation: &mut Operation) {
    let parts = [operation.summary.take(), operation.description.take()];
    let lines: Vec<String> = parts.into_iter().flatten().collect();
    let text = lines.join(" ").replace('\n', " ");
    let (first, rest) = match text.split_once(". ") {
        Some((first, rest)) => (format!("{first}."), Some(rest.trim().to_owned())),
        None => (text, None),
    };
    operation.summary = Some(first).filter(|first| !first.is_empty());
    operation.description = rest;
}

/// Adds the `Idempotency-Key` parameter and every error response that is possible for the operation.
fn add_responses(operation: &mut Operation, is_change: bool) {
    if is_change {
        let key = RefOr::Ref(Ref::new(format!("#/components/parameters/{KEY}")));
        operation.parameters.get_or_insert_default().push(key);
    }
    let has = |location: &ParameterIn| {
        let all = operation.parameters.iter().flatten();
        all.filter_map(|one| if let RefOr::T(one) = one { Some(one) } else { None })
            .any(|one| one.parameter_in == *location)
    };
    let (in_path, in_query) = (has(&ParameterIn::Path), has(&ParameterIn::Query));
    let has_body = operation.request_body.is_some();
    let possible = PROBLEMS.iter().map(|(status, _)| *status).filter(|status| match *status {
        StatusCode::BAD_REQUEST => in_path || in_query || has_body,
        StatusCode::NOT_FOUND => in_path,
        StatusCode::CONFLICT | StatusCode::PAYLOAD_TOO_LARGE => is_change,
        StatusCode::UNSUPPORTED_MEDIA_TYPE => has_body,
        StatusCode::UNPROCESSABLE_ENTITY => is_change || in_path || in_query,
        StatusCode::PRECONDITION_FAILED | StatusCode::BAD_GATEWAY => false,
        _ => true,
    });
    let responses = &mut operation.responses.responses;
    for status in possible {
        responses.entry(status.as_str().to_owned()).or_insert_with(|| reference(status));
    }
    for (code, response) in responses {
        describe(code, response);
    }
}

/// Adds a missing description to a response, and to an error response its content type.
fn describe(code: &str, response: &mut RefOr<Response>) {
    let RefOr::T(known) = response else { return };
    let Ok(status) = code.parse::<StatusCode>() else { return };
    let is_problem = status.is_client_error() || status.is_server_error();
    if is_problem && known.description.is_empty() {
        *response = reference(status);
    } else if is_problem {
        known.content.clear();
        known.content.insert(PROBLEM.to_owned(), RefOr::T(problem()));
    } else if known.description.is_empty() {
        let text = match status {
            StatusCode::CREATED => "Created.",
            StatusCode::ACCEPTED => "Accepted.",
            StatusCode::NO_CONTENT => "No Content.",
            StatusCode::SEE_OTHER => "See Other.",
            _ => "OK.",
        };
        text.clone_into(&mut known.description);
    }
}

/// Returns the name of an error response in the components, such as `NotFound`.
fn response_name(status: StatusCode) -> String {
    status.canonical_reason().unwrap_or("Problem").replace(' ', "")
}

fn reference(status: StatusCode) -> RefOr<Response> {
    RefOr::Ref(Ref::from_response_name(response_name(status)))
}

fn problem() -> Content {
    Content::new(Some(Ref::from_schema_name("Problem")))
}

fn add_error_responses(components: &mut Components) {
    for (status, about) in PROBLEMS {
        let mut response = ResponseBuilder::new().description(about).content(PROBLEM, problem());
        let has_retry_after =
            matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
        if has_retry_after {
            let seconds = ObjectBuilder::new().schema_type(Type::Integer).build();
            let about = Some("Seconds to wait before the next try.");
            let header = HeaderBuilder::new().schema(Some(seconds)).description(about).build();
            response = response.header("Retry-After", header);
        }
        components.responses.insert(response_name(status), RefOr::T(response.build()));
    }
}

fn add_schemes(components: &mut Components) {
    let http = |scheme: HttpAuthScheme, about: &str| {
        SecurityScheme::Http(HttpBuilder::new().scheme(scheme).description(Some(about)).build())
    };
    let bearer = http(
        HttpAuthScheme::Bearer,
        "API token, created in the dashboard under Settings or by POST /tokens.",
    );
    components.add_security_scheme("token", bearer);
    let basic = http(HttpAuthScheme::Basic, "Name and password of a user.");
    components.add_security_scheme("password", basic);
    let cookie = ApiKeyValue::with_description(
        COOKIE_NAME,
        "Session of a browser, created by POST /session.",
    );
    components.add_security_scheme("session", SecurityScheme::ApiKey(ApiKey::Cookie(cookie)));
    let csrf = ApiKeyValue::with_description(
        "X-CSRF-Token",
        "The `csrf` value of GET /session; required for changes with a session cookie.",
    );
    components.add_security_scheme("page", SecurityScheme::ApiKey(ApiKey::Header(csrf)));
}

/// Returns the accepted authentication methods, of which one suffices.
fn security(closed: bool) -> Vec<SecurityRequirement> {
    let none: [&str; 0] = [];
    let mut methods = vec![
        SecurityRequirement::new("token", none),
        SecurityRequirement::new("password", none),
        SecurityRequirement::new("session", none).add("page", none),
    ];
    if !closed {
        methods.push(SecurityRequirement::default());
    }
    methods
}

fn key_parameter() -> Parameter {
    let text = ObjectBuilder::new().schema_type(Type::String).min_length(Some(1));
    ParameterBuilder::new()
        .name(KEY)
        .parameter_in(ParameterIn::Header)
        .required(Required::False)
        .schema(Some(text.max_length(Some(200))))
        .description(Some(
            "Makes the change safe to retry: a request with the same key returns the first response. After a crash \
             the request runs again without creating anything twice. Retry after 409 with Retry-After, after 5xx, \
             and when no response arrived. Keys are kept for a day.",
        ))
        .build()
}
