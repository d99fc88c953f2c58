//! The last edit of a body: what one provider wants different from the protocol's author.

use bytes::{BufMut, Bytes, BytesMut};

use super::members::{Field, Members};
use super::{EditError, after_comma};
use crate::providers::Reshape;

/// The body without and with what its provider says; all other bytes as they are.
pub(in crate::pipeline) fn reshaped(
    body: Bytes,
    reshape: &Reshape<'_>,
) -> Result<Bytes, EditError> {
    if *reshape == Reshape::default() {
        return Ok(body);
    }
    let mut cuts = Vec::new();
    let (mut kept, mut first_is_gone, mut has_version) = (false, false, false);
    let end = Members::visit(&body, |member| {
        let goes = match member.field {
            Field::Model => reshape.without_model,
            Field::StreamOptions => reshape.without_stream_options,
            Field::Stream
            | Field::IncludeUsage
            | Field::Fallbacks
            | Field::AnthropicVersion
            | Field::Other => false,
        };
        if goes {
            first_is_gone |= !kept;
            cuts.push(member.after..member.value.end);
            return;
        }
        // What was second stands first, without the comma before it.
        if first_is_gone && !kept {
            cuts.push(member.after..after_comma(&body, member.after));
        }
        kept = true;
        has_version |= member.field == Field::AnthropicVersion;
    })?;
    let version = reshape.anthropic_version.as_deref();
    let version = version.filter(|_| !has_version).map(|version| {
        let comma = if kept { "," } else { "" };
        let quoted = serde_json::Value::from(version);
        format!("{comma}\"anthropic_version\":{quoted}")
    });
    let mut out = BytesMut::with_capacity(body.len() + 64);
    let mut copied = 0;
    for cut in cuts {
        out.put_slice(&body[copied..cut.start]);
        copied = cut.end;
    }
    out.put_slice(&body[copied..end]);
    out.put_slice(version.unwrap_or_default().as_bytes());
    out.put_slice(&body[end..]);
    Ok(out.freeze())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn for_vertex(body: &str) -> String {
        written(
            body,
            &Reshape {
                without_model: true,
                anthropic_version: Some("v-1".into()),
                ..Reshape::default()
            },
        )
    }

    fn written(body: &str, reshape: &Reshape<'_>) -> String {
        let out = reshaped(Bytes::copy_from_slice(body.as_bytes()), reshape).unwrap();
        String::from_utf8(out.to_vec()).unwrap()
    }

    #[test]
    fn options_of_streams_go() {
        let reshape = Reshape {
            without_stream_options: true,
            ..Reshape::default()
        };
        for (body, expected) in [
            (
                r#"{"model":"m","stream":true,"stream_options":{"include_usage":true}}"#,
                r#"{"model":"m","stream":true}"#,
            ),
            (
                r#"{"stream_options":null , "stream_options":{} ,"a":1.0}"#,
                r#"{"a":1.0}"#,
            ),
            (
                r#"{"a":{"stream_options":1}}"#,
                r#"{"a":{"stream_options":1}}"#,
            ),
        ] {
            assert_eq!(written(body, &reshape), expected);
        }
    }

    #[test]
    fn the_model_goes_and_the_version_comes() {
        const VERSION: &str = r#""anthropic_version":"v-1""#;
        for (body, expected) in [
            (
                r#"{"model":"m","a":1.10}"#,
                format!(r#"{{"a":1.10,{VERSION}}}"#),
            ),
            (
                r#"{ "a" : 1 , "model":"m" }"#,
                format!(r#"{{ "a" : 1,{VERSION} }}"#),
            ),
            (
                r#"{"a":1,"model":"m","b":"\u00e9"}"#,
                format!(r#"{{"a":1,"b":"\u00e9",{VERSION}}}"#),
            ),
            (r#"{"model":"m"}"#, format!(r#"{{{VERSION}}}"#)),
            (
                r#"{"model":"m" , "model":"n" ,"a":1}"#,
                format!(r#"{{"a":1,{VERSION}}}"#),
            ),
            ("{}", format!("{{{VERSION}}}")),
            (
                r#"{"anthropic_version":"own","model":"m"}"#,
                r#"{"anthropic_version":"own"}"#.to_owned(),
            ),
            (
                r#"{"b":{"model":"m","anthropic_version":1}}"#,
                format!(r#"{{"b":{{"model":"m","anthropic_version":1}},{VERSION}}}"#),
            ),
        ] {
            assert_eq!(for_vertex(body), expected, "{body}");
        }
    }

    #[test]
    fn a_body_that_needs_nothing_is_not_even_read() {
        let odd = Bytes::from_static(b"no JSON");
        assert_eq!(reshaped(odd.clone(), &Reshape::default()), Ok(odd));
    }

    proptest! {
        #[test]
        fn whatever_stands_in_a_body_stays_there(
            members in proptest::collection::vec(("(model|a|b|anthropic_version)", 0_u8..9), 0..8),
            blanks in "[ \n]{0,2}",
        ) {
            let texts: Vec<String> = members
                .iter()
                .map(|(name, n)| format!("{blanks}\"{name}\"{blanks}:{blanks}{n}{blanks}"))
                .collect();
            let body = format!("{{{}}}", texts.join(","));
            let read: Value = serde_json::from_str(&for_vertex(&body)).unwrap();
            let mut expected: Value = serde_json::from_str(&body).unwrap();
            let fields = expected.as_object_mut().unwrap();
            fields.shift_remove("model");
            if !fields.contains_key("anthropic_version") {
                fields.insert("anthropic_version".to_owned(), json!("v-1"));
            }
            prop_assert_eq!(read, expected);
        }
    }
}
