//! Counts as they are written: mostly whole numbers, by some `5.0`.

use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// The largest whole number that floats have without a gap: 2^53.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// The whole number that this text says.
pub(super) fn whole(text: &str) -> Option<u64> {
    let exact = text.parse().ok();
    exact.or_else(|| text.parse().ok().and_then(of_float))
}

fn of_float(number: f64) -> Option<u64> {
    let is_whole = number.fract() == 0.0 && (0.0..=MAX_EXACT).contains(&number);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it was just found to be a whole number within bounds"
    )]
    is_whole.then_some(number as u64)
}

/// Reads a count of a provider's usage: what is none says nothing, and takes nothing else with it.
///
/// # Errors
/// When it is no JSON.
pub(in crate::protocols) fn count<'de, D: Deserializer<'de>>(
    json: D,
) -> Result<Option<u64>, D::Error> {
    struct Any;
    impl<'de> Visitor<'de> for Any {
        type Value = Option<u64>;

        fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            out.write_str("a count")
        }

        fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
            Ok(Some(number))
        }

        fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
            Ok(of_float(number.round()))
        }

        fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
            Ok(whole(text))
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_seq<S: SeqAccess<'de>>(self, mut list: S) -> Result<Self::Value, S::Error> {
            while list.next_element::<IgnoredAny>()?.is_some() {}
            Ok(None)
        }

        fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            Ok(None)
        }
    }
    json.deserialize_any(Any)
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    #[serde(default)]
    #[derive(Default)]
    struct Counts {
        #[serde(deserialize_with = "count")]
        n: Option<u64>,
        #[serde(deserialize_with = "count")]
        beside: Option<u64>,
    }

    #[test]
    fn a_count_is_read_as_it_was_meant() {
        for (text, expected) in [
            ("5", Some(5)),
            ("5.0", Some(5)),
            ("5e0", Some(5)),
            ("18446744073709551615", Some(u64::MAX)),
            ("\"7\"", Some(7)),
            ("-1", None),
            ("-0.2", Some(0)),
            ("1e300", None),
            ("null", None),
            ("true", None),
            ("\"many\"", None),
            ("[1,[2]]", None),
            ("{\"a\":{}}", None),
        ] {
            let json = format!("{{\"n\":{text},\"beside\":3}}");
            let counts: Counts = serde_json::from_str(&json).unwrap();
            assert_eq!((counts.n, counts.beside), (expected, Some(3)), "{text}");
        }
    }

    #[test]
    fn whole_numbers_are_told_from_others() {
        for (text, expected) in [
            ("4096", Some(4096)),
            ("4096.0", Some(4096)),
            ("4.096e3", Some(4096)),
            ("0", Some(0)),
            ("1.5", None),
            ("-1", None),
            ("1e300", None),
            ("1E400", None),
            ("\"5\"", None),
            ("true", None),
        ] {
            assert_eq!(whole(text), expected, "{text}");
        }
    }
}
