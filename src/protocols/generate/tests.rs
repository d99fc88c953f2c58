//! generateContent, there and back, and as it is on the wire.

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::protocols::json::Json;
use crate::protocols::samples;
use crate::protocols::talk::{
    Delta, Format, Part, Reasoning, Role, Stop, Thought, Tool, ToolCall, ToolChoice,
};

const TO: To<'_> = To {
    model: "gemini-2.5-flash",
    stream: false,
    provider: "gemini",
};

fn shown() -> Shown {
    Shown {
        id: "x".to_owned(),
        model: "m".to_owned(),
        created: 7,
        include_usage: false,
        text_tools: Vec::new(),
    }
}

/// What the protocol cannot say: ids of calls, and schemas without content.
fn without_ids(mut request: Request) -> Request {
    let mut ids = Vec::new();
    for turn in &mut request.turns {
        for part in &mut turn.parts {
            match part {
                Part::ToolCall(call) => {
                    let id = std::mem::take(&mut call.id);
                    ids.push((id, call.name.clone()));
                }
                Part::ToolResult(result) => {
                    let name = ids.iter().find(|(id, _)| *id == result.call_id);
                    result.call_id = name.map_or(String::new(), |(_, name)| name.clone());
                }
                Part::Text(_) | Part::Media(_) | Part::Thought(_) => {}
            }
        }
    }
    for tool in &mut request.tools {
        tool.parameters = tool
            .parameters
            .take()
            .filter(|schema| *schema != Json::empty_object());
    }
    request
}

proptest! {
    #[test]
    fn requests_come_back_as_they_were(request in samples::request()) {
        let written = Generate.write_request(&request, TO).unwrap();
        prop_assert_eq!(&written.dropped, &[]);
        let read = without_ids(Generate.read_request(&written.body).unwrap());
        let request = without_ids(request);
        let flat = |request: &Request| -> Vec<_> {
            let turns = request.alternating().into_iter();
            turns
                .map(|(role, parts)| {
                    let mut parts: Vec<_> = parts.into_iter().cloned().collect();
                    // Results of tools go first.
                    parts.sort_by_key(|part| !matches!(part, Part::ToolResult(_)));
                    (role, parts)
                })
                .collect()
        };
        prop_assert_eq!(flat(&read), flat(&request));
        prop_assert_eq!(Request { turns: Vec::new(), ..read }, Request { turns: Vec::new(), ..request });
    }
}

fn read(body: &Value) -> Request {
    Generate.read_request(body.to_string().as_bytes()).unwrap()
}

#[test]
fn a_clients_request_is_read_by_either_name() {
    let request = read(&json!({
        "system_instruction": {"parts": [{"text": "Be brief."}]},
        "contents": [
            {"parts": [{"text": "weather?"}, {"inline_data": {"mime_type": "image/png", "data": "AAAA"}}]},
            {"role": "model", "parts": [
                {"text": "hm", "thought": true},
                {"functionCall": {"name": "weather", "args": {"a": 1}}, "thoughtSignature": "seal"},
                {"functionCall": {"name": "weather", "args": {"a": 2}}},
            ]},
            {"role": "user", "parts": [
                {"functionResponse": {"name": "weather", "response": {"output": "sunny"}}},
                {"functionResponse": {"name": "weather", "response": {"error": "dark"}}},
            ]},
        ],
        "tools": [{"function_declarations": [{"name": "weather", "description": "d",
            "parameters": {"type": "OBJECT", "properties": {"a": {"type": "INTEGER"}}}}]}],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["weather"]}},
        "generationConfig": {"maxOutputTokens": 99, "temperature": 0.5, "top_p": 0.9, "topK": 40.0, "stopSequences": ["END"],
            "responseMimeType": "application/json", "thinkingConfig": {"thinkingBudget": -1, "includeThoughts": true}},
        "safetySettings": [{"category": "c", "threshold": "t"}],
    }));
    assert_eq!(request.system, ["Be brief."]);
    assert_eq!(request.max_tokens, Some(99));
    assert_eq!(request.top_k, Some(40));
    assert_eq!(request.stop, ["END"]);
    assert_eq!(request.format, Some(Format::JsonObject));
    assert_eq!(request.reasoning, Some(Reasoning::Adaptive));
    assert_eq!(
        request.tool_choice,
        Some(ToolChoice::Named("weather".to_owned()))
    );
    let schema = r#"{"type":"object","properties":{"a":{"type":"integer"}}}"#;
    assert_eq!(request.tools[0].parameters, Json::parse(schema));
    assert_eq!(request.unplaced, ["safetySettings"]);
    let thought = Part::Thought(Thought {
        text: "hm".to_owned(),
        signature: Some("seal".to_owned()),
        redacted: None,
    });
    assert_eq!(request.turns[1].parts[0], thought);
    let Part::ToolResult(second) = &request.turns[2].parts[1] else {
        panic!("{:?}", request.turns[2]);
    };
    assert_eq!(second.call_id, "call_1");
    assert!(second.is_error);
    assert_eq!(request.turns[2].role, Role::User);
}

#[test]
fn what_only_google_knows_is_refused_by_name() {
    let said = |part: Value| json!({"contents": [{"role": "user", "parts": [part]}]});
    for (more, path) in [
        (json!({"cachedContent": "c"}), "cachedContent"),
        (
            json!({"tools": [{"googleSearch": {}}]}),
            "tools[0].googleSearch",
        ),
        (
            json!({"generationConfig": {"candidateCount": 2}}),
            "generationConfig.candidateCount",
        ),
        (
            json!({"generation_config": {"response_modalities": ["IMAGE"]}}),
            "generation_config.response_modalities",
        ),
        (
            json!({"generationConfig": {"maxOutputTokens": "x"}}),
            "generationConfig.maxOutputTokens",
        ),
        (
            said(json!({"executableCode": {}})),
            "contents[0].parts[0].executableCode",
        ),
        (
            said(json!({"fileData": {"fileUri": "gs://b/x.png"}})),
            "contents[0].parts[0].fileData.fileUri",
        ),
        (
            said(json!({"inlineData": {"mimeType": "video/mp4", "data": ""}})),
            "contents[0].parts[0].inlineData.mimeType",
        ),
        (
            said(json!({"functionResponse": {"name": "f"}})),
            "contents[0].parts[0].functionResponse",
        ),
        (
            json!({"contents": [{"role": "system", "parts": []}]}),
            "contents[0].role",
        ),
        (json!({"contents": "hi"}), "contents"),
    ] {
        let mut body = said(json!({"text": "hi"}));
        body.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let refused = Generate
            .read_request(body.to_string().as_bytes())
            .unwrap_err();
        assert_eq!(refused.path, path, "{refused}");
    }
}

fn wrote(request: &Request, model: &str) -> Value {
    let written = Generate.write_request(request, To { model, ..TO }).unwrap();
    serde_json::from_slice(&written.body).unwrap()
}

fn call(id: &str, arguments: &str) -> Part {
    Part::ToolCall(ToolCall {
        id: id.to_owned(),
        name: "weather".to_owned(),
        arguments: Json::parse(arguments).unwrap(),
    })
}

#[test]
fn newer_models_get_a_seal_for_calls_that_others_made() {
    let request = Request {
        turns: vec![crate::protocols::talk::Turn {
            role: Role::Assistant,
            parts: vec![call("c1", "{}"), call("c2", "{}")],
        }],
        ..Request::default()
    };
    let newer = wrote(&request, "gemini-3-pro-preview");
    let parts = &newer["contents"][0]["parts"];
    assert_eq!(
        parts[0]["thoughtSignature"],
        "skip_thought_signature_validator"
    );
    assert!(parts[1].get("thoughtSignature").is_none());
    let older = wrote(&request, "gemini-2.5-flash");
    assert!(!older.to_string().contains("thoughtSignature"));
}

#[test]
fn a_result_needs_its_call() {
    let result = crate::protocols::talk::ToolResult {
        call_id: "nowhere".to_owned(),
        parts: Vec::new(),
        is_error: false,
    };
    let request = Request {
        turns: vec![crate::protocols::talk::Turn {
            role: Role::User,
            parts: vec![Part::ToolResult(result)],
        }],
        ..Request::default()
    };
    let refused = Generate.write_request(&request, TO).unwrap_err();
    assert_eq!(refused.field, Field::Turns);
}

#[test]
fn schemas_go_where_they_are_taken() {
    let tool = |schema: &str| Tool {
        name: "f".to_owned(),
        description: None,
        parameters: Json::parse(schema),
        strict: Some(true),
    };
    let strict =
        r#"{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}"#;
    let request = Request {
        tools: vec![
            tool(r#"{"type":"object","properties":{"a":{"type":"string"}}}"#),
            tool(strict),
            tool("{}"),
        ],
        format: Some(Format::JsonSchema {
            name: Some("n".to_owned()),
            description: None,
            schema: Json::parse(strict).unwrap(),
            strict: None,
        }),
        ..Request::default()
    };
    let body = wrote(&request, "gemini-2.5-flash");
    let declared = &body["tools"][0]["functionDeclarations"];
    assert!(declared[0]["parameters"].is_object());
    assert!(declared[1]["parametersJsonSchema"]["additionalProperties"] == false);
    assert_eq!(declared[2], json!({"name": "f"}));
    let config = &body["generationConfig"];
    assert_eq!(config["responseMimeType"], "application/json");
    assert!(config["responseJsonSchema"].is_object());
}

fn answer(parts: Vec<Part>, stop: Stop) -> Answer {
    Answer {
        id: "r1".to_owned(),
        model: "gemini".to_owned(),
        parts,
        stop,
        usage: Usage {
            input: 5,
            output: 7,
            cached: 3,
            cache_written: 0,
            reasoning: 2,
        },
        ..Answer::default()
    }
}

fn thought(text: &str, signature: &str) -> Part {
    Part::Thought(Thought {
        text: text.to_owned(),
        signature: Some(signature.to_owned()),
        redacted: None,
    })
}

#[test]
fn whole_answers_come_back_as_they_were() {
    let redacted = Part::Thought(Thought {
        redacted: Some("data".to_owned()),
        ..Thought::default()
    });
    let parts = vec![
        thought("hm", "seal"),
        Part::Text("ja \"世\"".to_owned()),
        redacted,
        call("c1", r#"{"a":1.10}"#),
        thought("", "last"),
    ];
    for (parts, stop) in [
        (parts.clone(), Stop::ToolCalls),
        (parts, Stop::Length),
        (vec![Part::Text("no".to_owned())], Stop::Filtered),
        (Vec::new(), Stop::End),
    ] {
        let answer = answer(parts, stop);
        let written = Generate.write_answer(&answer, &shown());
        assert_eq!(Generate.read_answer(&written).unwrap(), answer);
        assert_eq!(Generate.usage(&written), Some(answer.usage));
    }
}

#[test]
fn a_question_that_was_blocked_is_filtered() {
    let body = br#"{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":5},"modelVersion":"g"}"#;
    let answer = Generate.read_answer(body).unwrap();
    assert_eq!((answer.stop, answer.usage.input), (Stop::Filtered, 5));
    let cut = Generate.read_answer(br#"{"candidates":[{"content":{"parts":[{"text":"x"}]}}]}"#);
    assert_eq!(cut.unwrap_err().path, "candidates");
}

#[test]
fn calls_without_an_id_get_one_of_their_own() {
    let ids = |body: &str| -> Vec<String> {
        let answer = Generate.read_answer(body.as_bytes()).unwrap();
        let calls = answer.parts.into_iter().filter_map(|part| match part {
            Part::ToolCall(call) => Some(call.id),
            Part::Text(_) | Part::Media(_) | Part::Thought(_) | Part::ToolResult(_) => None,
        });
        calls.collect()
    };
    let one = |more: &str, args: &str| {
        let parts = r#"{"functionCall":{"name":"f","args":ARGS}},{"functionCall":{"name":"f"}}"#;
        let parts = parts.replace("ARGS", args);
        format!(
            r#"{{{more}"candidates":[{{"content":{{"parts":[{parts}]}},"finishReason":"STOP"}}]}}"#
        )
    };
    assert_eq!(
        ids(&one(r#""responseId":"a/b-1","#, "{}")),
        ["call_ab-1_0", "call_ab-1_1"]
    );
    let (first, other) = (ids(&one("", "{}")), ids(&one("", r#"{"a":1}"#)));
    assert_ne!(first[0], first[1]);
    assert_ne!(first[0], other[0]);
}

fn read_stream(wire: &str) -> Vec<Delta> {
    let mut reader = Generate.stream_reader().unwrap();
    let mut read = Vec::new();
    for data in wire.lines().filter_map(|line| line.strip_prefix("data: ")) {
        let event = Event {
            data: Bytes::copy_from_slice(data.as_bytes()),
            ..Event::default()
        };
        reader.read(&event, &mut read).unwrap();
    }
    read
}

fn deltas() -> Vec<Delta> {
    let text = |text: &str| text.to_owned();
    let start = |call, id: &str| Delta::ToolCall {
        call,
        id: id.to_owned(),
        name: "weather".to_owned(),
    };
    vec![
        Delta::Start {
            id: text("r1"),
            model: text("gemini"),
        },
        Delta::Thought(text("hm")),
        Delta::Signature(text("seal")),
        Delta::Text(text("Grüße")),
        Delta::Text(text(" 世")),
        Delta::Redacted(text("data")),
        start(0, "c1"),
        Delta::Arguments {
            call: 0,
            json: text("{\"a\":1.10}"),
        },
        start(1, "c2"),
        Delta::Stop(Stop::ToolCalls),
        Delta::Usage(answer(Vec::new(), Stop::End).usage),
    ]
}

fn written_stream(deltas: Vec<Delta>) -> String {
    let mut writer = Generate.stream_writer(shown()).unwrap();
    let mut out = BytesMut::new();
    for delta in deltas {
        writer.write(delta, &mut out);
    }
    writer.end(None, &mut out);
    String::from_utf8(out.to_vec()).unwrap()
}

#[test]
fn streams_come_back_as_they_were() {
    let wire = written_stream(deltas());
    insta::assert_snapshot!(wire);
    assert_eq!(read_stream(&wire), deltas());
}

/// Arguments that come in turns, and arguments that the model got wrong.
#[test]
fn calls_are_written_when_they_are_whole() {
    let start = |call| Delta::ToolCall {
        call,
        id: format!("c{call}"),
        name: "f".to_owned(),
    };
    let more = |call, json: &str| Delta::Arguments {
        call,
        json: json.to_owned(),
    };
    let wire = written_stream(vec![
        start(0),
        start(1),
        more(1, "{\"b\""),
        more(0, "{}"),
        more(1, ":2}"),
        Delta::Text("between".to_owned()),
        start(2),
        more(2, "{\"cut"),
    ]);
    assert!(wire.contains(r#""args":{"b":2}"#), "{wire}");
    assert!(wire.contains(r#""args":{"arguments":"{\"cut"}"#), "{wire}");
    assert_eq!(wire.matches("functionCall").count(), 3);
    assert_eq!(wire.matches("finishReason").count(), 1);
}

/// As Gemini streams: thoughts, text, a seal with an empty text at the end, usage in every event.
/// Google puts the seal where it happens to be: beside the last piece, or beside the first.
#[test]
fn a_seal_does_not_cut_a_text_in_two() {
    let event = |part: Value| {
        let body = json!({"candidates": [{"content": {"role": "model", "parts": [part]}}]});
        format!("data: {body}\n\n")
    };
    let thought = || event(json!({"text": "hm", "thought": true}));
    let sealed = |text: &str| event(json!({"text": text, "thoughtSignature": "seal"}));
    let text = |text: &str| event(json!({"text": text}));
    let (seal, said) = (Delta::Signature("seal".to_owned()), |text: &str| {
        Delta::Text(text.to_owned())
    });
    let late = read_stream(&[thought(), text("a"), sealed("b")].concat());
    assert_eq!(late[2..], [said("a"), said("b"), seal.clone()]);
    let early = read_stream(&[thought(), sealed("a"), text("b")].concat());
    assert_eq!(early[2..], [seal, said("a"), said("b")]);
}

#[test]
fn a_recorded_stream_is_read() {
    let wire = r#"data: {"candidates":[{"content":{"parts":[{"text":"**Plan**","thought":true}],"role":"model"},"index":0}],"usageMetadata":{"promptTokenCount":5,"totalTokenCount":9,"thoughtsTokenCount":4},"modelVersion":"gemini-2.5-flash","responseId":"r1"}
data: {"candidates":[{"content":{"parts":[{"text":"Hi"}],"role":"model"},"index":0}],"usageMetadata":{"promptTokenCount":5,"candidatesTokenCount":1,"totalTokenCount":10,"thoughtsTokenCount":4},"modelVersion":"gemini-2.5-flash","responseId":"r1"}
data: {"candidates":[{"content":{"parts":[{"text":"","thoughtSignature":"seal"}],"role":"model"},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":5,"candidatesTokenCount":3,"totalTokenCount":12,"thoughtsTokenCount":4},"modelVersion":"gemini-2.5-flash","responseId":"r1"}
"#;
    insta::assert_debug_snapshot!(read_stream(wire));
}

#[test]
fn errors_have_googles_names() {
    for (status, kind, expected) in [
        (400, None, "INVALID_ARGUMENT"),
        (400, Some("FAILED_PRECONDITION"), "FAILED_PRECONDITION"),
        (429, Some("tokens"), "RESOURCE_EXHAUSTED"),
        (413, None, "INVALID_ARGUMENT"),
        (502, None, "UNAVAILABLE"),
        (504, Some("INVALID_ARGUMENT"), "DEADLINE_EXCEEDED"),
    ] {
        let mut error = ApiError::caller(http::StatusCode::BAD_REQUEST, "no");
        error.status_code = status;
        error.error.kind = kind.map(str::to_owned);
        error.extra_fields.retry_after_ms = Some(1_500);
        let told: Value = serde_json::from_slice(&Generate.error(&error)).unwrap();
        assert_eq!(told["error"]["status"], expected);
        assert_eq!(told["error"]["code"], status);
        assert_eq!(told["error"]["details"][0]["retryDelay"], "2s");
    }
}
