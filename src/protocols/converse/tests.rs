//! Converse, there and back.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::protocols::event_stream::EventStreamReader;
use crate::protocols::talk::{
    Delta, Format, Media, Part, Reasoning, Source, Stop, Thought, ToolCall, ToolChoice,
};
use crate::protocols::{Protocol, samples};

const CLAUDE: To<'_> = To {
    model: "eu.anthropic.claude-sonnet-4-v1:0",
    stream: false,
    provider: "bedrock",
};

const NOVA: To<'_> = To {
    model: "amazon.nova-pro-v1:0",
    ..CLAUDE
};

/// A chat request as Converse is asked it, with the names of what was dropped.
fn from_chat(body: &Value, to: To<'_>) -> (Value, Vec<Field>) {
    let request = Protocol::Chat
        .spoken()
        .read_request(body.to_string().as_bytes());
    let written = Converse.write_request(&request.unwrap(), to).unwrap();
    (
        serde_json::from_slice(&written.body).unwrap(),
        written.dropped,
    )
}

fn refused(body: &Value) -> Unsupported {
    let request = Protocol::Chat
        .spoken()
        .read_request(body.to_string().as_bytes());
    Converse
        .write_request(&request.unwrap(), CLAUDE)
        .unwrap_err()
}

fn conversation() -> Value {
    json!([
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [
            {"type": "text", "text": "What is this?"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
            {"type": "file", "file": {"filename": "a b.pdf", "file_data": "data:application/pdf;base64,BBBB"}},
            {"type": "file", "file": {"filename": "a b.pdf", "file_data": "data:application/pdf;base64,CCCC"}}
        ]},
        {"role": "assistant", "content": "", "tool_calls": [
            {"id": "call:1", "type": "function", "function": {"name": "look", "arguments": "{\"at\":1.50}"}}
        ]},
        {"role": "tool", "tool_call_id": "call:1", "content": "a cat"},
        {"role": "user", "content": "And?"}
    ])
}

#[test]
fn a_conversation_with_tools_is_written() {
    let body = json!({
        "model": "m", "messages": conversation(), "max_tokens": 99, "temperature": 0.50, "top_p": 0.9, "top_k": 7,
        "seed": 1, "user": "u", "stop": "END", "parallel_tool_calls": false, "tool_choice": "required",
        "tools": [{"type": "function", "function": {"name": "look", "description": "Looks.", "strict": true,
                   "parameters": {"type": "object", "properties": {"at": {"type": "number"}}}}}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}
    });
    let (written, dropped) = from_chat(&body, CLAUDE);
    insta::assert_json_snapshot!(written);
    assert_eq!(
        dropped,
        [Field::Seed, Field::User, Field::ParallelToolCalls]
    );
}

#[test]
fn reasoning_is_said_in_the_words_of_the_models_vendor() {
    let body = json!({
        "model": "m", "messages": [{"role": "user", "content": "hi"}],
        "reasoning_effort": "low", "max_tokens": 10_000, "temperature": 0.5, "top_k": 3
    });
    let (claude, dropped) = from_chat(&body, CLAUDE);
    assert_eq!(
        claude["additionalModelRequestFields"],
        json!({"thinking": {"type": "enabled", "budget_tokens": 1_500}})
    );
    assert_eq!(claude["inferenceConfig"], json!({"maxTokens": 10_000}));
    assert_eq!(dropped, [Field::TopK, Field::Temperature]);
    let open_ai = To {
        model: "openai.gpt-oss-120b-1:0",
        ..CLAUDE
    };
    let (open_ai, dropped) = from_chat(&body, open_ai);
    assert_eq!(
        open_ai["additionalModelRequestFields"],
        json!({"reasoning_effort": "low"})
    );
    assert_eq!(dropped, [Field::TopK]);
    let (nova, dropped) = from_chat(&body, NOVA);
    assert_eq!(nova.get("additionalModelRequestFields"), None);
    assert_eq!(dropped, [Field::Reasoning, Field::TopK]);
}

#[test]
fn tools_that_were_called_are_declared_whether_or_not_they_may_be_called_again() {
    let body = json!({"model": "m", "messages": conversation()});
    let (written, _) = from_chat(&body, CLAUDE);
    let tool = json!({"toolSpec": {"name": "look", "inputSchema": {"json": {"type": "object", "properties": {}}}}});
    assert_eq!(written["toolConfig"], json!({"tools": [tool]}));
    let none = json!({"model": "m", "messages": conversation(), "tool_choice": "none"});
    assert_eq!(refused(&none).field, Field::ToolChoice);
    let unused = json!({
        "model": "m", "messages": [{"role": "user", "content": "hi"}], "tool_choice": "none",
        "tools": [{"type": "function", "function": {"name": "look"}}]
    });
    assert_eq!(from_chat(&unused, CLAUDE).0.get("toolConfig"), None);
}

#[test]
fn what_cannot_be_said_is_refused_by_its_field() {
    let with =
        |content: Value| json!({"model": "m", "messages": [{"role": "user", "content": content}]});
    let image = |url: &str| with(json!([{"type": "image_url", "image_url": {"url": url}}]));
    for (body, field) in [
        (image("https://example.com/x.png"), Field::Media),
        (image("data:image/tiff;base64,AAAA"), Field::Media),
        (
            with(
                json!([{"type": "input_audio", "input_audio": {"format": "mp3", "data": "AAAA"}}]),
            ),
            Field::Media,
        ),
        (
            json!({"model": "m", "messages": [], "temperature": 1.5}),
            Field::Temperature,
        ),
        (
            json!({"model": "m", "messages": [], "response_format": {"type": "json_object"}}),
            Field::Format,
        ),
    ] {
        assert_eq!(refused(&body).field, field, "{body}");
    }
    let (s3, _) = from_chat(&image("s3://bucket/x.jpg"), CLAUDE);
    assert_eq!(
        s3["messages"][0]["content"][0],
        json!({"image": {"format": "jpeg", "source": {"s3Location": {"uri": "s3://bucket/x.jpg"}}}})
    );
}

/// As Bedrock answers a model of Anthropic that thinks and calls a tool.
const ANSWER: &str = r#"{
    "metrics": {"latencyMs": 1275},
    "output": {"message": {"content": [
        {"reasoningContent": {"reasoningText": {"signature": "c2ln", "text": "Hm."}}},
        {"reasoningContent": {"redactedContent": "cmVk"}},
        {"text": "Let me look."},
        {"toolUse": {"input": {"at": 1.50}, "name": "look", "toolUseId": "tooluse_1"}}
    ], "role": "assistant"}},
    "stopReason": "tool_use",
    "usage": {"cacheReadInputTokens": 30, "cacheWriteInputTokens": 2, "inputTokens": 10, "outputTokens": 7, "totalTokens": 49}
}"#;

fn recorded() -> Answer {
    Answer {
        id: String::new(),
        model: String::new(),
        parts: vec![
            Part::Thought(Thought {
                text: "Hm.".to_owned(),
                signature: Some("c2ln".to_owned()),
                redacted: None,
            }),
            Part::Thought(Thought {
                redacted: Some("cmVk".to_owned()),
                ..Thought::default()
            }),
            Part::Text("Let me look.".to_owned()),
            Part::ToolCall(ToolCall {
                id: "tooluse_1".to_owned(),
                name: "look".to_owned(),
                arguments: crate::protocols::json::Json::parse(r#"{"at": 1.50}"#).unwrap(),
            }),
        ],
        stop: Stop::ToolCalls,
        usage: Usage {
            input: 42,
            output: 7,
            cached: 30,
            cache_written: 2,
            reasoning: 0,
        },
        ..Answer::default()
    }
}

#[test]
fn an_answer_is_read_and_written_back() {
    let read = Converse.read_answer(ANSWER.as_bytes()).unwrap();
    assert_eq!(read, recorded());
    assert_eq!(Converse.usage(ANSWER.as_bytes()), Some(read.usage));
    let written = Converse.write_answer(&read, &shown());
    assert_eq!(Converse.read_answer(&written).unwrap(), read);
    for broken in [
        "{}",
        "[]",
        r#"{"output":{}}"#,
        r#"{"output":{"message":{"content":[7]}}}"#,
    ] {
        assert!(Converse.read_answer(broken.as_bytes()).is_err(), "{broken}");
    }
}

fn shown() -> Shown {
    Shown {
        id: "id".to_owned(),
        model: "m".to_owned(),
        created: 0,
        include_usage: false,
        text_tools: Vec::new(),
    }
}

fn event(name: &'static str, data: Value) -> Event {
    Event {
        data: data.to_string().into(),
        name: Some(bytes::Bytes::from_static(name.as_bytes())),
        ..Event::default()
    }
}

fn deltas(events: &[Event]) -> Vec<Delta> {
    let mut reader = Converse.stream_reader().unwrap();
    let mut out = Vec::new();
    for event in events {
        reader.read(event, &mut out).unwrap();
    }
    out
}

fn stream() -> Vec<Event> {
    let delta = |index: u64, delta: Value| {
        event(
            "contentBlockDelta",
            json!({"contentBlockIndex": index, "delta": delta, "p": "abc"}),
        )
    };
    let stop = |index: u64| event("contentBlockStop", json!({"contentBlockIndex": index}));
    vec![
        event("messageStart", json!({"role": "assistant", "p": "abcd"})),
        delta(0, json!({"reasoningContent": {"text": "Hm."}})),
        delta(0, json!({"reasoningContent": {"signature": "c2ln"}})),
        stop(0),
        delta(1, json!({"text": "Let me "})),
        delta(1, json!({"text": "look."})),
        stop(1),
        event(
            "contentBlockStart",
            json!({"contentBlockIndex": 2, "start": {"toolUse": {"name": "look", "toolUseId": "tooluse_1"}}}),
        ),
        delta(2, json!({"toolUse": {"input": "{\"at\":"}})),
        delta(2, json!({"toolUse": {"input": " 1.50}"}})),
        stop(2),
        event("messageStop", json!({"stopReason": "tool_use"})),
        event(
            "metadata",
            json!({"metrics": {"latencyMs": 9}, "usage": {"inputTokens": 10, "outputTokens": 7, "totalTokens": 17}}),
        ),
    ]
}

#[test]
fn a_stream_is_read_and_written_back() {
    let read = deltas(&stream());
    insta::assert_debug_snapshot!(read);
    let mut writer = Converse.stream_writer(shown()).unwrap();
    let mut out = BytesMut::new();
    for delta in read.clone() {
        writer.write(delta, &mut out);
    }
    writer.end(None, &mut out);
    let mut frames = EventStreamReader::default();
    frames.push(&out);
    let mut again = Vec::new();
    while let Some(event) = frames.next_event().unwrap() {
        again.push(event);
    }
    assert_eq!(deltas(&again), read);
}

#[test]
fn startup_output_and_end_are_told_apart() {
    let seen: Vec<_> = stream()
        .iter()
        .map(|event| {
            let seen = Converse.seen(event, false);
            (seen.output, seen.complete, seen.ends)
        })
        .collect();
    assert_eq!(seen[0], (false, false, false), "the start says nothing");
    assert_eq!(
        seen[3],
        (false, false, false),
        "nor does the end of a block"
    );
    assert_eq!(seen[7], (true, false, false), "a call is output");
    assert_eq!(seen[11], (true, true, false), "only usage may follow");
    assert_eq!(seen[12], (true, false, true));
    let empty = event(
        "contentBlockDelta",
        json!({"contentBlockIndex": 0, "delta": {"text": ""}}),
    );
    assert!(!Converse.seen(&empty, false).output);
    let usage = Converse.seen(&stream()[12], true).usage.unwrap();
    assert_eq!((usage.input, usage.output), (10, 7));
}

#[test]
fn a_refusal_ends_a_stream_as_an_exception() {
    let status = http::StatusCode::TOO_MANY_REQUESTS;
    let error = ApiError::new(status, "x", "x", "slow down");
    let mut out = BytesMut::new();
    Converse.error_event(&error, 0, &mut out);
    let mut frames = EventStreamReader::default();
    frames.push(&out);
    let event = frames.next_event().unwrap().unwrap();
    assert!(event.exception);
    assert_eq!(event.kind(), "throttlingException");
    assert_eq!(
        event.data,
        r#"{"__type":"ThrottlingException","message":"slow down"}"#
    );
}

#[test]
fn what_clients_say_beyond_the_common_is_told() {
    let body = json!({
        "messages": [{"role": "user", "content": [{"text": "hi"}, {"cachePoint": {"type": "default"}}]}],
        "system": [{"text": "s"}, {"cachePoint": {"type": "default"}}],
        "performanceConfig": {"latency": "optimized"}
    });
    let read = Converse.read_request(body.to_string().as_bytes()).unwrap();
    assert_eq!(
        read.unplaced,
        [
            "system[1].cachePoint",
            "messages[0].content[1].cachePoint",
            "performanceConfig"
        ]
    );
    for (body, path) in [
        (
            json!({"messages": [], "guardrailConfig": {}}),
            "guardrailConfig",
        ),
        (
            json!({"messages": [{"role": "system", "content": []}]}),
            "messages[0].role",
        ),
        (
            json!({"messages": [{"role": "user", "content": [{"video": {}}]}]}),
            "messages[0].content[0]",
        ),
        (json!({}), "messages"),
    ] {
        let error = Converse
            .read_request(body.to_string().as_bytes())
            .unwrap_err();
        assert_eq!(error.path, path);
    }
}

/// Images as Bedrock takes them.
fn with_data(mut request: Request) -> Request {
    for part in request.turns.iter_mut().flat_map(|turn| &mut turn.parts) {
        if let Part::Media(Media { source, .. }) = part {
            *source = Source::Base64 {
                media_type: "image/png".to_owned(),
                data: "iVBORw0KGgo=".to_owned(),
            };
        }
    }
    request
}

proptest! {
    #[test]
    fn requests_come_back_as_they_were(request in samples::request().prop_map(with_data)) {
        let written = Converse.write_request(&request, NOVA).unwrap();
        prop_assert_eq!(&written.dropped, &[]);
        let read = Converse.read_request(&written.body).unwrap();
        let flat = |request: &Request| -> Vec<_> {
            let turns = request.alternating().into_iter();
            turns
                .map(|(role, parts)| {
                    let mut parts: Vec<_> = parts.into_iter().cloned().collect();
                    // Results of tools go first.
                    parts.sort_by_key(|p| !matches!(p, Part::ToolResult(_)));
                    (role, parts)
                })
                .collect()
        };
        prop_assert_eq!(flat(&read), flat(&request));
        // Tools that were called are declared.
        let tools = if request.tools.is_empty() { Vec::new() } else { read.tools.clone() };
        let read = Request { turns: Vec::new(), tools, ..read };
        prop_assert_eq!(read, Request { turns: Vec::new(), ..request });
    }

    /// Whatever a provider sends is read or refused.
    #[test]
    fn no_answer_and_no_event_breaks_the_reader(
        name in "(messageStart|contentBlockStart|contentBlockDelta|messageStop|metadata|x)",
        text in r#"[{}\[\]",:a-z0-9]{0,40}"#,
    ) {
        let _ = Converse.read_answer(text.as_bytes());
        let event = Event { data: text.into(), name: Some(name.into_bytes().into()), ..Event::default() };
        let _ = Converse.seen(&event, false);
        let _ = Converse.stream_reader().unwrap().read(&event, &mut Vec::new());
    }
}

#[test]
fn forms_and_choices_come_back() {
    let request = Request {
        format: Some(Format::JsonSchema {
            name: Some("n".to_owned()),
            description: None,
            schema: crate::protocols::json::Json::parse(r#"{"type":"object"}"#).unwrap(),
            strict: None,
        }),
        tool_choice: Some(ToolChoice::Named("look".to_owned())),
        tools: vec![crate::protocols::talk::Tool {
            name: "look".to_owned(),
            description: None,
            parameters: Some(crate::protocols::json::Json::empty_object()),
            strict: Some(true),
        }],
        reasoning: Some(Reasoning::Off),
        ..Request::default()
    };
    let written = Converse.write_request(&request, CLAUDE).unwrap();
    let read = Converse.read_request(&written.body).unwrap();
    assert_eq!(
        read,
        Request {
            reasoning: None,
            ..request
        }
    );
}
