//! Origin checks: the address of a caller, cross-site requests of browsers, and the host name of a request. Forwarded
//! addresses are read in `forwarded.rs`.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};

use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::header::{HOST, ORIGIN};
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{Extensions, Method, StatusCode};
use subtle::ConstantTimeEq;

use crate::caller::Caller;
use crate::problem::{ApiResult, Problem};

/// The header with the CSRF token that changing requests of a session need.
const CSRF: &str = "x-csrf-token";

/// The address of the caller; none for a call in process. Set on every request before authentication.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallAddress(pub(crate) Option<IpAddr>);

impl<S: Sync> FromRequestParts<S> for CallAddress {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get::<Self>().copied().unwrap_or(Self(peer(&parts.extensions))))
    }
}

/// Returns the peer address of the connection; none in process.
pub(super) fn peer(extensions: &Extensions) -> Option<IpAddr> {
    extensions.get::<ConnectInfo<SocketAddr>>().map(|info| info.0.ip().to_canonical())
}

/// Refuses cross-site changes by a browser. Programs send neither header.
pub(super) fn check(parts: &Parts, caller: Option<&Caller>) -> ApiResult<()> {
    if matches!(parts.method, Method::GET | Method::HEAD | Method::OPTIONS) {
        return Ok(());
    }
    let text = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
    let is_foreign = match (text("sec-fetch-site"), text(ORIGIN.as_str())) {
        (Some(site), _) => !matches!(site, "same-origin" | "none"),
        (None, Some(origin)) => {
            let host = text(HOST.as_str()).unwrap_or_default();
            origin.split_once("://").is_none_or(|(_, from)| !from.eq_ignore_ascii_case(host))
        }
        (None, None) => false,
    };
    if is_foreign {
        return Err(refused("a cross-site request was refused; nothing was changed"));
    }
    let Some(expected) = caller.and_then(|caller| caller.csrf.as_deref()) else { return Ok(()) };
    let sent = text(CSRF).unwrap_or_default();
    if bool::from(sent.as_bytes().ct_eq(expected.as_bytes())) {
        return Ok(());
    }
    Err(refused("the header X-CSRF-Token is missing or outdated; read it from GET /api/v1/session"))
}

/// Refuses foreign host names without authentication: by DNS rebinding, a page of another site could otherwise reach
/// this machine.
pub(super) fn check_host(parts: &Parts, over_socket: bool) -> ApiResult<()> {
    let headers =
        parts.headers.get_all(HOST).iter().map(|value| value.to_str().unwrap_or_default());
    // HTTP/2 sends it in the target instead.
    let authority = parts.uri.authority().map(Authority::as_str);
    let mut names: Vec<&str> = headers.chain(authority).collect();
    names.dedup();
    match names.as_slice() {
        [] if !over_socket => Ok(()),
        [name] => check_name(name),
        _ => Err(refused(
            "without authentication a request must name this machine in exactly one Host header; set auth.mode",
        )),
    }
}

fn check_name(host: &str) -> ApiResult<()> {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    let is_local = bare.eq_ignore_ascii_case("localhost")
        || bare.to_ascii_lowercase().ends_with(".localhost")
        || bare.parse::<IpAddr>().is_ok();
    if is_local {
        return Ok(());
    }
    Err(refused(&format!(
        "without authentication only requests to names of this machine are accepted, not to {name:?}; set auth.mode"
    )))
}

fn refused(sentence: &str) -> Problem {
    Problem::new(StatusCode::FORBIDDEN, sentence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::Request;

    fn posted(headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::post("/api/v1/jobs/x/trigger");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    // spec: C-6
    #[test]
    fn cross_site_changes_are_refused() {
        for (headers, is_good) in [
            (vec![], true),
            (vec![("sec-fetch-site", "same-origin")], true),
            (vec![("sec-fetch-site", "none")], true),
            (vec![("sec-fetch-site", "cross-site")], false),
            (vec![("sec-fetch-site", "same-site")], false),
            (vec![("origin", "http://localhost:8080"), ("host", "localhost:8080")], true),
            (vec![("origin", "http://evil.example"), ("host", "localhost:8080")], false),
            (vec![("origin", "null"), ("host", "localhost:8080")], false),
        ] {
            assert_eq!(check(&posted(&headers), None).is_ok(), is_good, "{headers:?}");
        }
    }

    #[test]
    fn only_names_of_this_machine_are_accepted_without_authentication() {
        for (host, is_good) in [
            ("localhost:8080", true),
            ("127.0.0.1:8080", true),
            ("[::1]:8080", true),
            ("app.localhost", true),
            ("evil.example:8080", false),
        ] {
            let by_header = Request::get("/").header(HOST, host).body(()).unwrap();
            let by_target = Request::get(format!("http://{host}/")).body(()).unwrap();
            for request in [by_header, by_target] {
                let parts = request.into_parts().0;
                assert_eq!(check_host(&parts, true).is_ok(), is_good, "{host}");
            }
        }
        let twice = Request::get("/").header(HOST, "localhost").header(HOST, "evil.example");
        let none = Request::get("/").body(()).unwrap().into_parts().0;
        assert!(check_host(&twice.body(()).unwrap().into_parts().0, true).is_err());
        assert!(check_host(&none, true).is_err() && check_host(&none, false).is_ok());
    }
}
