//! Chat completions, there and back.

use proptest::prelude::*;

use super::*;
use crate::protocols::samples::{self, events, gathered, pretty};

const TO: To<'_> = To {
    model: "m",
    stream: false,
    provider: "groq",
};

proptest! {
    #[test]
    fn requests_come_back_as_they_were(request in samples::request()) {
        let written = Chat.write_request(&request, TO).unwrap();
        prop_assert_eq!(&written.dropped, &[]);
        let read = Chat.read_request(&written.body).unwrap();
        // Each result of a tool is a message of its own.
        let flat = |request: &Request| -> Vec<_> {
            let turns = request.alternating().into_iter();
            turns.map(|(role, parts)| (role, parts.into_iter().cloned().collect::<Vec<_>>())).collect()
        };
        prop_assert_eq!(flat(&read), flat(&request));
        prop_assert_eq!(Request { turns: Vec::new(), ..read }, Request { turns: Vec::new(), ..request });
    }
}

proptest! {
    #[test]
    fn answers_come_back_as_they_were(answer in samples::answer(), piece in 1_usize..9) {
        let whole = Chat.write_answer(&answer, &samples::shown());
        prop_assert_eq!(&Chat.read_answer(&whole).unwrap(), &answer);
        let streamed = samples::written(&Chat, samples::pieces(&answer, piece));
        let read = samples::read(&Chat, &events(&streamed));
        prop_assert_eq!(&gathered(read), &answer);
    }

    #[test]
    fn no_bytes_upset_it(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = (Chat.read_request(&bytes), Chat.read_answer(&bytes), Chat.usage(&bytes));
    }
}

fn refused(body: &str) -> String {
    Chat.read_request(body.as_bytes()).unwrap_err().to_string()
}

#[test]
fn what_has_no_counterpart_is_refused_by_name() {
    let with = |more: &str| {
        format!(r#"{{"model":"m","messages":[{{"role":"user","content":"x"}}],{more}}}"#)
    };
    let refusals = [
        with(r#""n":2"#),
        with(r#""logprobs":true"#),
        with(r#""modalities":["text","audio"]"#),
        with(r#""functions":[]"#),
        with(r#""tools":[{"type":"custom","custom":{}}]"#),
        with(r#""response_format":{"type":"grammar"}"#),
        with(r#""temperature":"hot""#),
        with(r#""stop":[1]"#),
        r#"{"model":"m"}"#.to_owned(),
        r#"{"messages":[{"role":"function","content":"x"}]}"#.to_owned(),
        r#"{"messages":[{"role":"user","content":[{"type":"video"}]}]}"#.to_owned(),
        r#"{"messages":[{"role":"user","content":[{"type":"file","file":{"file_id":"f"}}]}]}"#.to_owned(),
        r#"{"messages":[{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":"{"}}]}]}"#.to_owned(),
    ]
    .map(|body| refused(&body));
    insta::assert_snapshot!(refusals.join("\n"));
    assert!(
        Chat.read_request(with(r#""n":1.0,"logprobs":false,"modalities":["text"]"#).as_bytes())
            .is_ok()
    );
}

#[test]
fn what_only_tunes_is_named() {
    let body = r#"{"messages":[{"role":"user","name":"eve","content":[{"type":"text","text":"x","cache_control":{}},
        {"type":"image_url","image_url":{"url":"https://h/x.png","detail":"high"}}]}],"logit_bias":{},"metadata":{"a":1},"store":null}"#;
    let request = Chat.read_request(body.as_bytes()).unwrap();
    assert_eq!(
        request.unplaced,
        [
            "messages[0].content[0].cache_control",
            "messages[0].content[1].image_url.detail",
            "messages[0].name",
            "logit_bias",
            "metadata",
        ]
    );
}

/// Groq, DeepSeek, Mistral and Ollama differ from OpenAI in these.
#[test]
fn other_providers_streams_are_read() {
    let stream = br#"data: {"id":"x","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":null,"reasoning":"hm"}}]}

data: {"id":"x","model":"m","choices":[{"index":0,"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"so"}]},{"type":"text","text":"yes"}]}}]}

data: {"id":"x","model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":{"x":1}}}]}}]}

data: {"id":"x","model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"b","function":{"name":"g","arguments":""}}]}}]}

data: {"id":"x","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"total_tokens":3}}

data: [DONE]

"#;
    let read = gathered(samples::read(&Chat, &events(stream)));
    insta::assert_debug_snapshot!(read);
}

#[test]
fn an_error_is_in_the_gateways_shape() {
    let error = ApiError::caller(http::StatusCode::BAD_REQUEST, "no");
    let mut out = BytesMut::new();
    Chat.error_event(&error, 1, &mut out);
    assert!(out.starts_with(b"data: {\"is_bifrost_error\":false") && out.ends_with(b"}\n\n"));
}

/// What OpenAI's models that reason are told, and no others.
#[test]
fn how_much_to_think_is_told_to_those_who_take_it() {
    let request = Request {
        reasoning: Some(crate::protocols::talk::Reasoning::Budget(20_000)),
        max_tokens: Some(9),
        top_k: Some(3),
        seed: Some(7),
        user: Some("u-1".to_owned()),
        ..Request::default()
    };
    let told = |provider: &str, model: &str| {
        let to = To {
            model,
            stream: true,
            provider,
        };
        let written = Chat.write_request(&request, to).unwrap();
        format!(
            "{} {:?}",
            String::from_utf8_lossy(&written.body),
            written.dropped
        )
    };
    let all = [
        told("openai", "gpt-4o"),
        told("openai", "o3-mini"),
        told("azure", "gpt-5.1"),
        told("openrouter", "x/y"),
        told("mistral", "large"),
    ];
    insta::assert_snapshot!(all.join("\n"));
}

#[test]
fn an_answer_as_clients_read_it() {
    let answer = Chat.read_answer(RECORDED.as_bytes()).unwrap();
    insta::assert_snapshot!(pretty(&Chat.write_answer(&answer, &samples::shown())));
}

/// Found by fuzzing: an empty id reached clients, and no result could refer to it.
#[test]
fn calls_without_an_id_get_one() {
    let nameless = RECORDED.replace("\"id\":\"call_1\",", "");
    let answer = Chat.read_answer(nameless.as_bytes()).unwrap();
    assert!(
        matches!(&answer.parts[..], [crate::protocols::talk::Part::ToolCall(call)] if call.id == "call_0")
    );
}

const RECORDED: &str = r#"{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"gpt-4o-2024-08-06","choices":[{"index":0,"message":
    {"role":"assistant","content":null,"refusal":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"weather",
    "arguments":"{\"city\":\"Köln\",\"n\":1.10}"}}]},"logprobs":null,"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":82,
    "completion_tokens":17,"total_tokens":99,"prompt_tokens_details":{"cached_tokens":64},"completion_tokens_details":{"reasoning_tokens":3}}}"#;

/// The limit came in the middle of the last call: the rest of the answer is served.
#[test]
fn half_a_call_is_none_where_the_token_limit_cut_it() {
    let cut = RECORDED
        .replace(r#"\"n\":1.10}"#, r#"\"n\":1."#)
        .replace("\"tool_calls\"}", "\"length\"}")
        .replace("\"content\":null", "\"content\":\"Let me see\"");
    let answer = Chat.read_answer(cut.as_bytes()).unwrap();
    assert_eq!(answer.stop, crate::protocols::talk::Stop::Length);
    assert!(matches!(
        &answer.parts[..],
        [crate::protocols::talk::Part::Text(_)]
    ));
    assert_eq!(answer.unplaced, ["choices[0].message.tool_calls[0]"]);
    let broken = cut.replace("\"length\"}", "\"tool_calls\"}");
    assert!(Chat.read_answer(broken.as_bytes()).is_err());
}

#[test]
fn files_are_read_however_they_are_written() {
    use crate::protocols::talk::{Media, Part, Source};
    let read = |part: &str| {
        let body = format!(r#"{{"messages":[{{"role":"user","content":[{part}]}}]}}"#);
        let request = Chat.read_request(body.as_bytes()).unwrap();
        match request.turns[0].parts[0].clone() {
            Part::Media(Media {
                source: Source::Base64 { media_type, data },
                ..
            }) => format!("{media_type} {data}"),
            Part::Media(Media {
                source: Source::Url(url),
                ..
            }) => url,
            other
            @ (Part::Text(_) | Part::Thought(_) | Part::ToolCall(_) | Part::ToolResult(_)) => {
                panic!("{other:?}")
            }
        }
    };
    let image = |url: &str| {
        read(&format!(
            r#"{{"type":"image_url","image_url":{{"url":"{url}"}}}}"#
        ))
    };
    let file = |data: &str| {
        read(&format!(
            r#"{{"type":"file","file":{{"file_data":"{data}"}}}}"#
        ))
    };
    for (read, expected) in [
        (image("data:image/png;base64,AA=="), "image/png AA=="),
        (image("DATA:image/PNG;base64,AA=="), "image/png AA=="),
        (
            image("data:image/png;charset=utf-8;base64,AA=="),
            "image/png AA==",
        ),
        (image("https://x/a.png"), "https://x/a.png"),
        (file("data:text/plain;base64,AA=="), "text/plain AA=="),
        (file("JVBERi0="), "application/pdf JVBERi0="),
        (file("https://x/a.pdf"), "https://x/a.pdf"),
    ] {
        assert_eq!(read, expected);
    }
}
