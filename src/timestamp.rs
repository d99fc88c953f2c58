//! Times as people read them: RFC 3339, UTC, always with milliseconds.

use holdline_core::time::WallMs;
use serde::{Serialize, Serializer};
use time::OffsetDateTime;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;

const FORMAT: &[BorrowedFormatItem<'_>] =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");

/// A time as text. Texts of this form sort as the times do.
#[must_use]
pub fn rfc3339(time: OffsetDateTime) -> String {
    let utc = time.to_offset(time::UtcOffset::UTC);
    utc.format(&FORMAT).unwrap_or_default()
}

/// A wall-clock instant as text; one that no calendar has is the epoch.
#[must_use]
pub fn wall_text(wall: WallMs) -> String {
    let nanos = i128::from(wall.0).saturating_mul(1_000_000);
    let time = OffsetDateTime::from_unix_timestamp_nanos(nanos);
    rfc3339(time.unwrap_or(OffsetDateTime::UNIX_EPOCH))
}

/// For `#[serde(serialize_with)]`.
///
/// # Errors
/// When the serializer fails.
pub fn serialize_wall<S: Serializer>(wall: &WallMs, serializer: S) -> Result<S::Ok, S::Error> {
    wall_text(*wall).serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_milliseconds_and_a_zone() {
        assert_eq!(wall_text(WallMs(0)), "1970-01-01T00:00:00.000Z");
        assert_eq!(
            wall_text(WallMs(1_764_450_000_007)),
            "2025-11-29T21:00:00.007Z"
        );
        assert_eq!(wall_text(WallMs(u64::MAX)), "1970-01-01T00:00:00.000Z");
    }
}
