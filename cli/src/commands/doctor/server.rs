//! A server: whether it answers, whether it knows who asks, and whether its clock agrees with this one.

use std::path::Path;

use anyhow::Result;
use axum::http::header::DATE;
use punctual::clock::{Clock, SystemClock};

use super::Checkup;
use crate::client::Call;
use crate::desk::Reach;
use crate::render::length;

/// Clocks may be this far apart: the server tells its time in whole seconds.
const SKEW_MS_MAX: u64 = 3_000;

pub(super) async fn examine(
    checkup: &mut Checkup,
    address: &str,
    ca_file: Option<&Path>,
) -> Result<()> {
    let ca_file = ca_file.map(ToOwned::to_owned);
    let reach = Reach { server: Some(address.to_owned()), ca_file, ..Reach::default() };
    let client = reach.client().await?;
    checkup.fact("server", client.base());
    if client.is_plain() {
        checkup.wrong(
            "encryption",
            format!("passwords and tokens travel unencrypted to {}", client.base()),
            "give the server a certificate ([server.tls]), or a proxy that ends TLS, and use https",
        );
    }
    let answer = match client.answer(Call::get(&["jobs"]).with("limit", Some(1))).await {
        Ok(answer) => answer,
        Err(error) => {
            checkup.wrong(
                "server",
                error.to_string(),
                "start it with `punctual serve`, or check the address",
            );
            return Ok(());
        }
    };
    match answer.status.as_u16() {
        200 => checkup.fact("answers", "yes"),
        401 | 403 => checkup.wrong(
            "login",
            format!("the server answers {} and does not know you", answer.status),
            "log in with `punctual login`, or give a token in PUNCTUAL_TOKEN",
        ),
        _ => checkup.wrong(
            "server",
            format!("it answers {}", answer.status),
            "look into its log; check that this is a Punctual server of this version",
        ),
    }
    if answer.headers.contains_key(DATE) {
        let apart = client.now().as_millisecond().abs_diff(SystemClock.now().as_millisecond());
        if apart > SKEW_MS_MAX {
            checkup.wrong(
                "clock",
                format!("the clocks of the server and of this machine are {} apart", length(apart)),
                "let both machines keep time, for example by chrony or systemd-timesyncd",
            );
        } else {
            checkup.fact("clock", "agrees with this machine");
        }
    }
    Ok(())
}
