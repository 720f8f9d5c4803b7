//! Values: parameters of a statement, whatever the driver.

use std::borrow::Cow;

use punctual::uuid::Uuid;
use rusqlite::ToSql;
use rusqlite::types::{ToSqlOutput, ValueRef};

/// Parameter of a statement.
#[derive(Clone, Debug)]
pub(crate) enum Param<'a> {
    Null,
    Integer(i64),
    Text(Cow<'a, str>),
    Blob(&'a [u8]),
    Id([u8; 16]),
}

impl ToSql for Param<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Integer(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Blob(bytes) => ValueRef::Blob(bytes),
            Self::Id(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

macro_rules! from_numbers {
    ($($number:ty)*) => {$(
        impl From<$number> for Param<'_> {
            fn from(number: $number) -> Self {
                Self::Integer(number.into())
            }
        }
    )*};
}

from_numbers! { bool u8 i16 u32 i32 i64 }

impl<'a> From<&'a str> for Param<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl<'a> From<Cow<'a, str>> for Param<'a> {
    fn from(text: Cow<'a, str>) -> Self {
        Self::Text(text)
    }
}

impl From<String> for Param<'_> {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}

impl<'a> From<&'a [u8]> for Param<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Blob(bytes)
    }
}

impl From<[u8; 16]> for Param<'_> {
    fn from(id: [u8; 16]) -> Self {
        Self::Id(id)
    }
}

impl From<Uuid> for Param<'_> {
    fn from(id: Uuid) -> Self {
        Self::Id(id.into_bytes())
    }
}

impl<'a, T: Into<Param<'a>>> From<Option<T>> for Param<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// Builds the parameters of a statement.
macro_rules! values {
    ($($value:expr),* $(,)?) => { [$($crate::value::Param::from($value)),*] };
}
pub(crate) use values;
