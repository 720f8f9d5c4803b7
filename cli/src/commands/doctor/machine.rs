//! Machine: checks the time-zone data, and whether the file of logins is private.

use punctual::jiff::civil::date;
use punctual::schedule::Zone;

use super::Diagnosis;
use crate::account::Accounts;

pub(super) fn check(diagnosis: &mut Diagnosis) {
    check_zones(diagnosis);
    match Accounts::is_private() {
        Ok(true) => {}
        Ok(false) => diagnosis.problem(
            "permissions",
            "other users of this machine can read the file of logins",
            "change its mode to 600, then log in again, because the tokens may have been read",
        ),
        Err(error) => {
            diagnosis.problem("permissions", error.to_string(), "delete it and log in again");
        }
    }
}

/// Checks the offsets of a zone with daylight saving time.
fn check_zones(diagnosis: &mut Diagnosis) {
    let fix = "install the time-zone data of the system (the package tzdata)";
    let zone = match Zone::named("Europe/Warsaw") {
        Ok(zone) => zone,
        Err(error) => return diagnosis.problem("time zones", error.to_string(), fix),
    };
    let hours = |month| {
        let noon = date(2026, month, 1).at(12, 0, 0, 0).to_zoned(zone.time_zone().clone());
        noon.map(|noon| noon.offset().seconds() / 3_600).unwrap_or_default()
    };
    if (hours(1), hours(7)) == (1, 2) {
        diagnosis.fact("time zones", "ok");
    } else {
        diagnosis.problem(
            "time zones",
            "the daylight saving time of Europe/Warsaw is missing",
            fix,
        );
    }
}
