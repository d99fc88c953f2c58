//! Bodies byte for byte.

use proptest::prelude::*;
use serde_json::Value;

use super::*;

const CHAT: Edits = Edits {
    model: true,
    stream: true,
    ask_for_usage: true,
    form: false,
};

fn parse(text: &str) -> Result<JsonBody, EditError> {
    JsonBody::parse(Bytes::copy_from_slice(text.as_bytes()), CHAT)
}

fn sent(text: &str, model: &str) -> String {
    let body = parse(text).unwrap();
    String::from_utf8(body.for_upstream(model).to_vec()).unwrap()
}

#[test]
fn only_the_models_name_changes() {
    let text = r#"{
  "zebra" : {"b":1,"a":[ ],"c":{}} ,"model"
 : "p/m","temperature":1.10, "n":"\u00e9 \/ caf","big":1e400,"neg":-0,"id":1234567890123456789,
  "metadata":{"model":"left/alone","fallbacks":["left alone"]},"top_p":0.1,"top_p":0.2 } "#;
    assert_eq!(sent(text, "m"), text.replace("p/m", "m"));
    let body = parse(text).unwrap();
    assert_eq!(
        (body.model.as_str(), body.stream, body.fallbacks.len()),
        ("p/m", false, 0)
    );
}

#[test]
fn fallbacks_stay_here_wherever_they_stand() {
    let cases = [
        (
            r#"{"fallbacks":["a/b"],"model":"m","n":1.0}"#,
            r#"{"model":"m","n":1.0}"#,
        ),
        (
            r#"{"model":"m","fallbacks":["a/b"],"n":1.0}"#,
            r#"{"model":"m","n":1.0}"#,
        ),
        (
            r#"{"model":"m","n":1.0 , "fallbacks" : [] }"#,
            r#"{"model":"m","n":1.0 }"#,
        ),
        (
            r#"{ "fallbacks":[] , "fallbacks":["x"], "model":"m"}"#,
            r#"{ "model":"m"}"#,
        ),
        (
            r#"{"model":"m","\u0066allbacks":["a/b"]}"#,
            r#"{"model":"m"}"#,
        ),
    ];
    for (given, expected) in cases {
        assert_eq!(sent(given, "m"), expected);
    }
}

#[test]
fn fallbacks_are_read_leniently() {
    let text = r#"{"model":"m","fallbacks":["a/b",7,{"provider":"p","model":"x/y"},null,"",{"model":"q"},"c"]}"#;
    assert_eq!(parse(text).unwrap().fallbacks, ["a/b", "p/x/y", "c"]);
    assert!(
        parse(r#"{"model":"m","fallbacks":"a/b"}"#)
            .unwrap()
            .fallbacks
            .is_empty()
    );
}

#[test]
fn streams_are_asked_for_their_usage() {
    let cases = [
        (
            r#"{"model":"m","stream":true }"#,
            r#"{"model":"m","stream":true,"stream_options":{"include_usage":true} }"#,
            false,
        ),
        (
            r#"{"stream_options":{ },"stream":true,"model":"m"}"#,
            r#"{"stream_options":{"include_usage":true },"stream":true,"model":"m"}"#,
            false,
        ),
        (
            r#"{"stream_options":{"x":[1]},"stream":true,"model":"m"}"#,
            r#"{"stream_options":{"x":[1],"include_usage":true},"stream":true,"model":"m"}"#,
            false,
        ),
        (
            r#"{"stream_options":{"include_usage": false,"x":1},"stream":true,"model":"m"}"#,
            r#"{"stream_options":{"include_usage": true,"x":1},"stream":true,"model":"m"}"#,
            false,
        ),
        (
            r#"{"stream_options":null,"stream":true,"model":"m"}"#,
            r#"{"stream_options":{"include_usage":true},"stream":true,"model":"m"}"#,
            false,
        ),
        (
            r#"{"stream":true,"model":"m","stream_options":{"include_usage":true}}"#,
            r#"{"stream":true,"model":"m","stream_options":{"include_usage":true}}"#,
            true,
        ),
        (
            r#"{"stream":false,"model":"m"}"#,
            r#"{"stream":false,"model":"m"}"#,
            false,
        ),
    ];
    for (given, expected, asked) in cases {
        assert_eq!(sent(given, "m"), expected);
        assert_eq!(parse(given).unwrap().include_usage, asked, "{given}");
    }
}

#[test]
fn fallbacks_before_an_appended_member_leave_valid_json() {
    let text = r#"{"model":"m","stream":true,"fallbacks":["a/b"]}"#;
    let value: Value = serde_json::from_str(&sent(text, "x")).unwrap();
    assert_eq!(
        value,
        serde_json::json!({"model":"x","stream":true,"stream_options":{"include_usage":true}})
    );
}

#[test]
fn the_last_of_two_models_counts_and_both_are_replaced() {
    let text = r#"{"model":"first","model":"second"}"#;
    assert_eq!(parse(text).unwrap().model, "second");
    assert_eq!(sent(text, "x"), r#"{"model":"x","model":"x"}"#);
}

#[test]
fn model_names_are_escaped() {
    assert_eq!(sent(r#"{"model":"m"}"#, "a\"b\\"), r#"{"model":"a\"b\\"}"#);
}

#[test]
fn refusals_say_what_is_wrong() {
    let error = |text: &str| parse(text).unwrap_err();
    assert!(matches!(error("{"), EditError::NotJson(_)));
    assert!(matches!(error(""), EditError::NotJson(_)));
    assert!(matches!(error("{}{}"), EditError::NotJson(_)));
    assert!(matches!(error(r#"{"model":"m",}"#), EditError::NotJson(_)));
    assert_eq!(error("[]"), EditError::NotAnObject);
    assert_eq!(error("null"), EditError::NotAnObject);
    assert_eq!(error(r#"{"messages":[]}"#), EditError::NoModel);
    assert_eq!(error(r#"{"model":7}"#), EditError::BadModel);
    assert_eq!(error(r#"{"model":" "}"#), EditError::BadModel);
    assert_eq!(
        error(r#"{"model":"m","stream":"yes"}"#),
        EditError::BadStream
    );
    let nested = |depth: usize| {
        format!(
            r#"{{"model":"m","x":{}{}}}"#,
            "[".repeat(depth),
            "]".repeat(depth)
        )
    };
    assert!(parse(&nested(127)).is_ok());
    assert_eq!(error(&nested(128)), EditError::TooDeep);
    assert_eq!(error(&"[".repeat(1_000_000)), EditError::TooDeep);
    let many = format!("{{{}\"a\":1}}", r#""model":"m","#.repeat(1_000));
    assert_eq!(error(&many), EditError::TooManyCuts);
    assert!(JsonBody::parse(Bytes::from_static(b"{\"model\":\"\xff\"}"), CHAT).is_err());
}

#[test]
fn brackets_in_strings_are_no_depth() {
    let text = format!(r#"{{"model":"m","x":"\"{}"}}"#, "[".repeat(500));
    assert!(parse(&text).is_ok());
}

/// Any JSON value, not too large.
fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".*".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((".{0,6}", inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    /// Whatever else a body holds, in whatever order: the model is replaced, the rest is the same value.
    #[test]
    fn edits_touch_nothing_else(
        others in prop::collection::vec(("[a-z\"\\\\]{0,4}", json()), 0..5),
        at in any::<prop::sample::Index>(),
        fallbacks_at in any::<prop::sample::Index>(),
        stream in any::<bool>(),
        pretty in any::<bool>(),
    ) {
        let mut members: Vec<(String, Value)> = others;
        members.insert(at.index(members.len() + 1), ("model".into(), "p/m".into()));
        members.push(("stream".into(), stream.into()));
        let mut expected: serde_json::Map<String, Value> = members.iter().cloned().collect();
        expected.insert("model".into(), "new".into());
        if stream {
            expected.insert("stream_options".into(), serde_json::json!({"include_usage": true}));
        }
        let place = fallbacks_at.index(members.len() + 1);
        members.insert(place, ("fallbacks".into(), serde_json::json!(["a/b", 1])));
        let given = Value::Object(members.into_iter().collect());
        let text = if pretty { format!("{given:#}") } else { given.to_string() };
        let body = parse(&text).unwrap();
        let sent: Value = serde_json::from_slice(&body.for_upstream("new")).unwrap();
        prop_assert_eq!(sent, Value::Object(expected));
    }

    /// No bytes make it panic.
    #[test]
    fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = JsonBody::parse(bytes.into(), CHAT);
    }

    /// Nor do bytes that look like a body.
    #[test]
    fn any_body_like_text_is_answered(text in r#"\{("(model|stream|fallbacks|stream_options)":("m"|true|\{"include_usage":1\}|null|\[\]),? ?){0,6}\}"#) {
        if let Ok(body) = parse(&text) {
            let sent = body.for_upstream("x");
            prop_assert!(serde_json::from_slice::<Value>(&sent).is_ok());
        }
    }
}

mod forms {
    use super::*;

    const FORM: Edits = Edits { form: true, ..CHAT };

    fn form(parts: &[(&str, &str)]) -> String {
        let parts = parts.iter().map(|(head, value)| {
            format!("--x-Y\r\nContent-Disposition: form-data; {head}\r\n\r\n{value}\r\n")
        });
        parts.collect::<String>() + "--x-Y--\r\n"
    }

    fn parse(text: &str) -> Result<JsonBody, EditError> {
        let bytes = Bytes::copy_from_slice(text.as_bytes());
        JsonBody::parse_form(
            bytes,
            FORM,
            "multipart/form-data; charset=x; boundary=\"x-Y\"",
        )
    }

    #[test]
    fn only_the_model_changes_and_fallbacks_stay_here() {
        let sound = "RIFF\r\n--x-\r\n\r\nname=\"model\"";
        let given = form(&[
            (r#"name="file"; filename="model.wav""#, sound),
            (r#"name="fallbacks""#, r#"["groq/whisper"]"#),
            (r#"name="model""#, "openai/whisper-1"),
            ("name=stream", "true"),
        ]);
        let body = parse(&given).unwrap();
        assert_eq!(
            (body.model.as_str(), body.stream),
            ("openai/whisper-1", true)
        );
        assert_eq!(body.fallbacks, ["groq/whisper"]);
        let expected = form(&[
            (r#"name="file"; filename="model.wav""#, sound),
            (r#"name="model""#, "w"),
            ("name=stream", "true"),
        ]);
        assert_eq!(body.for_upstream("w"), expected);
    }

    #[test]
    fn forms_without_a_model_or_an_end_are_refused() {
        assert_eq!(parse(&form(&[])).unwrap_err(), EditError::NoModel);
        assert_eq!(
            parse(&form(&[("name=model", " ")])).unwrap_err(),
            EditError::BadModel
        );
        for broken in [
            "",
            "--x-Y",
            "--x-Y\r\nContent-Disposition: form-data; name=model\r\n\r\nm",
        ] {
            assert!(parse(broken).is_err(), "{broken}");
        }
        let bytes = Bytes::from_static(b"--x--");
        let none = JsonBody::parse_form(bytes, FORM, "application/json");
        assert_eq!(none.unwrap_err(), EditError::NotAForm);
    }

    proptest! {
        #[test]
        fn no_bytes_upset_it(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut form = b"--x-Y\r\nContent-Disposition: form-data; name=model\r\n\r\n".to_vec();
            form.extend(bytes);
            let _ = JsonBody::parse_form(form.into(), FORM, "multipart/form-data; boundary=x-Y");
        }
    }
}

#[test]
fn a_model_that_the_path_names_is_put_into_the_body() {
    for (body, expected) in [
        (r#"{"a":1}"#, r#"{"a":1,"model":"m\"x"}"#),
        (
            r#"{ "model" : "other", "a":1}"#,
            r#"{ "model" : "m\"x", "a":1}"#,
        ),
        (r#"{"model":""}"#, r#"{"model":"m\"x"}"#),
        (r#"{"fallbacks":["a/b"]}"#, r#"{"model":"m\"x"}"#),
        ("{}", r#"{"model":"m\"x"}"#),
        (
            r#"{"stream":true}"#,
            r#"{"stream":true,"model":"m\"x","stream_options":{"include_usage":true}}"#,
        ),
    ] {
        let bytes = Bytes::copy_from_slice(body.as_bytes());
        assert!(JsonBody::parse(bytes.clone(), CHAT).is_err() || body.contains("other"));
        let read = JsonBody::parse_named(bytes, CHAT).unwrap();
        assert_eq!(read.for_upstream("m\"x"), expected, "{body}");
    }
}

#[test]
fn half_a_character_in_a_name_passes() {
    let text =
        r#"{"\ud800":1,"model":"p/m","x":{"\udc00":"\ud83e"},"stream":true,"fallbacks":["a/b"]}"#;
    let expected = r#"{"\ud800":1,"model":"m","x":{"\udc00":"\ud83e"},"stream":true,"stream_options":{"include_usage":true}}"#;
    assert_eq!(sent(text, "m"), expected);
    assert_eq!(parse(text).unwrap().fallbacks, ["a/b"]);
    assert!(matches!(
        parse(r#"{"\ud800":1,"model":"p/m",}"#),
        Err(EditError::NotJson(_))
    ));
}
