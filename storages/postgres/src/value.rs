//! Values in the encoding of PostgreSQL: instants in microseconds from its own epoch, and parameters that carry
//! their type, so that no statement has to be prepared first.

use std::error::Error as StdError;

use bytes::{BufMut, BytesMut};
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

/// Parameter with its type.
pub(crate) type Param<'a> = (&'a (dyn ToSql + Sync), Type);

/// Epoch of PostgreSQL, 2000-01-01, in microseconds since 1970.
const EPOCH: i64 = 946_684_800_000_000;
/// First instant of PostgreSQL, 4714-11-24 BC, in microseconds from its epoch.
const FIRST: i64 = -211_813_488_000_000_000;

/// Instant in microseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Micros(pub(crate) i64);

impl Micros {
    /// Earliest instant of PostgreSQL.
    pub(crate) const MIN: Self = Self(FIRST + EPOCH);

    /// Returns the value of the wire format.
    pub(crate) fn wire(self) -> i64 {
        self.0.saturating_sub(EPOCH).max(FIRST)
    }
}

impl ToSql for Micros {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        out.put_i64(self.wire());
        Ok(IsNull::No)
    }

    fn accepts(of: &Type) -> bool {
        *of == Type::TIMESTAMPTZ
    }

    to_sql_checked!();
}

impl<'a> FromSql<'a> for Micros {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn StdError + Sync + Send>> {
        Ok(Self(i64::from_be_bytes(raw.try_into()?).saturating_add(EPOCH)))
    }

    fn accepts(of: &Type) -> bool {
        *of == Type::TIMESTAMPTZ
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_read_back_and_saturate_at_the_first() {
        for micros in [0, 1, -1, EPOCH, 253_402_207_200_000_000] {
            let mut out = BytesMut::new();
            Micros(micros).to_sql(&Type::TIMESTAMPTZ, &mut out).unwrap();
            assert_eq!(Micros::from_sql(&Type::TIMESTAMPTZ, &out).unwrap(), Micros(micros));
        }
        assert_eq!(Micros(i64::MIN).wire(), FIRST);
        assert_eq!(Micros::MIN.wire(), FIRST);
    }
}
