//! View of a time of a schedule, with a note about the effect of a clock change.

use jiff::Timestamp;
use jiff::tz::Offset;
use punctual::analysis::ScheduledTime;
use serde::Serialize;
use utoipa::ToSchema;

/// A time of a schedule.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct TimeView {
    /// The time in UTC.
    at: Timestamp,
    /// Local time in its time zone.
    local: String,
    /// IANA name of the time zone; UTC for schedules without one.
    zone: String,
    /// Offset from UTC at this time.
    offset: String,
    /// Effect of a clock change on this time; null when there is none.
    note: Option<String>,
}

impl From<ScheduledTime> for TimeView {
    fn from(time: ScheduledTime) -> Self {
        let ScheduledTime { at, zone, note } = time;
        Self {
            at,
            local: zone.wall(at).to_string(),
            zone: zone.name().to_owned(),
            offset: offset_text(zone.offset(at)),
            note,
        }
    }
}

fn offset_text(offset: Offset) -> String {
    let (sign, seconds) = (if offset.seconds() < 0 { '-' } else { '+' }, offset.seconds().abs());
    format!("{sign}{:02}:{:02}", seconds / 3_600, seconds / 60 % 60)
}
