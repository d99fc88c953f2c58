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
