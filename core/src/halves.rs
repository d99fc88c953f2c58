//! Halves of characters in JSON: `\ud83e` without its other half. JSON allows them, Unicode text does not, and
//! programs that cut text by UTF-16 units write them.

/// The same JSON, byte for byte as long, with U+FFFD for every half that stands alone; `None` where there is none.
#[must_use]
pub fn mended(json: &[u8]) -> Option<Vec<u8>> {
    let mut out: Option<Vec<u8>> = None;
    let mut at = 0;
    // Escapes stand in strings only, and a backslash that is escaped begins none.
    while let Some(next) = memchr::memchr(b'\\', &json[at..]) {
        at += next;
        let Some(unit) = unit_at(json, at) else {
            at = (at + 2).min(json.len());
            continue;
        };
        if is_high(unit) && unit_at(json, at + 6).is_some_and(is_low) {
            at += 12;
            continue;
        }
        if is_high(unit) || is_low(unit) {
            let out = out.get_or_insert_with(|| json.to_vec());
            out[at..at + 6].copy_from_slice(b"\\ufffd");
        }
        at += 6;
    }
    out
}

/// What the escape at this place stands for, if one begins there.
fn unit_at(json: &[u8], at: usize) -> Option<u16> {
    let digits = json.get(at..at + 6)?.strip_prefix(b"\\u")?;
    let mut unit = 0;
    for digit in digits {
        let value = char::from(*digit).to_digit(16)?;
        unit = unit << 4 | u16::try_from(value).ok()?;
    }
    Some(unit)
}

const fn is_high(unit: u16) -> bool {
    unit >= 0xd800 && unit < 0xdc00
}

const fn is_low(unit: u16) -> bool {
    unit >= 0xdc00 && unit < 0xe000
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn halves_that_stand_alone_are_replaced() {
        for (json, expected) in [
            (r#""\ud83e""#, r#""\ufffd""#),
            (r#""\udd80\uD83E x""#, r#""\ufffd\ufffd x""#),
            (r#""\ud83e\ud83e\udd80""#, r#""\ufffd\ud83e\udd80""#),
            (r#"{"\ud800":"\\\udfff"}"#, r#"{"\ufffd":"\\\ufffd"}"#),
            (r#""\ud83e\n\udd80""#, r#""\ufffd\n\ufffd""#),
        ] {
            let mended = mended(json.as_bytes()).unwrap();
            assert_eq!(String::from_utf8(mended).unwrap(), expected, "{json}");
        }
        for whole in [
            r#""\ud83e\udd80""#,
            r#""\\ud83e""#,
            r#""\u00e9 \u0000""#,
            r#""\ud83""#,
            r#""\ud8"#,
            "\"\\",
            "",
        ] {
            assert_eq!(mended(whole.as_bytes()), None, "{whole}");
        }
    }

    proptest! {
        #[test]
        fn whatever_it_is_can_be_read_afterwards(
            parts in proptest::collection::vec(
                "(\\\\u[dD][89a-fA-F][0-9a-f]{2}|\\\\\\\\|\\\\n|\\\\u00[0-9]{2}|[a-z])", 0..12)
        ) {
            let json = format!("\"{}\"", parts.concat());
            let mended = mended(json.as_bytes()).unwrap_or_else(|| json.clone().into_bytes());
            prop_assert_eq!(mended.len(), json.len());
            prop_assert!(serde_json::from_slice::<String>(&mended).is_ok(), "{}", json);
        }
    }
}
