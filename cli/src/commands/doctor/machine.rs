//! This machine: time zones, and whether the file of logins is private.

use punctual::jiff::civil::date;
use punctual::schedule::Zone;

use super::Checkup;
use crate::account::Accounts;

pub(super) fn examine(checkup: &mut Checkup) {
    zones(checkup);
    match Accounts::private() {
        Ok(true) => {}
        Ok(false) => checkup.wrong(
            "permissions",
            "other users of this machine can read the file of logins",
            "chmod 600 it, then log in again: the tokens may be known",
        ),
        Err(error) => checkup.wrong("permissions", error.to_string(), "delete it and log in again"),
    }
}

/// A zone whose rules are known: its clocks go forward in March and back in October.
fn zones(checkup: &mut Checkup) {
    let fix = "install the time-zone data of the system (the package tzdata)";
    let zone = match Zone::named("Europe/Warsaw") {
        Ok(zone) => zone,
        Err(error) => return checkup.wrong("time zones", error.to_string(), fix),
    };
    let hours = |month| {
        let noon = date(2026, month, 1).at(12, 0, 0, 0).to_zoned(zone.time_zone().clone());
        noon.map(|noon| noon.offset().seconds() / 3_600).unwrap_or_default()
    };
    if (hours(1), hours(7)) == (1, 2) {
        checkup.fact("time zones", "known");
    } else {
        checkup.wrong("time zones", "the clock changes of Europe/Warsaw are not known", fix);
    }
}
