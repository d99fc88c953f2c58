//! Cohere's chat, there and back.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::protocols::sse::SseReader;
use crate::protocols::talk::{Delta, Part, Role, Stop};
use crate::protocols::{Protocol, samples};

const TO: To<'_> = To {
    model: "command-a-03-2025",
    stream: false,
    provider: "cohere",
};

/// A chat request as Cohere is asked it, with the names of what was dropped.
fn from_chat(body: &Value) -> Result<(Value, Vec<Field>), Unsupported> {
    let request = Protocol::Chat
        .spoken()
        .read_request(body.to_string().as_bytes());
    let written = Cohere.write_request(&request.unwrap(), TO)?;
    Ok((
        serde_json::from_slice(&written.body).unwrap(),
        written.dropped,
    ))
}

#[test]
fn a_conversation_with_tools_is_written() {
    let body = json!({
        "model": "m", "max_tokens": 99, "temperature": 0.50, "top_p": 0.9, "top_k": 7, "seed": 1, "user": "u",
        "stop": ["END"], "frequency_penalty": 0.1, "presence_penalty": 0.2, "parallel_tool_calls": false,
        "reasoning_effort": "medium",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [
                {"type": "text", "text": "What is this?"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
            ]},
            {"role": "assistant", "reasoning_content": "I will look.", "content": null, "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{\"at\":1.50}"}}
            ]},
            {"role": "tool", "tool_call_id": "call_1", "content": "a cat"},
            {"role": "assistant", "content": "A cat."},
            {"role": "user", "content": "And?"}
        ],
        "tools": [{"type": "function", "function": {"name": "look", "description": "Looks.", "strict": true,
                   "parameters": {"type": "object"}}},
                  {"type": "function", "function": {"name": "listen"}}],
        "tool_choice": {"type": "function", "function": {"name": "look"}},
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}
    });
    let (written, dropped) = from_chat(&body).unwrap();
    insta::assert_json_snapshot!(written);
    assert_eq!(
        dropped,
        [Field::User, Field::ParallelToolCalls, Field::FormatName]
    );
}

#[test]
fn what_cannot_be_said_is_refused_by_its_field() {
    let user =
        |content: Value| json!({"model": "m", "messages": [{"role": "user", "content": content}]});
    let file = json!([{"type": "file", "file": {"file_data": "data:application/pdf;base64,AAAA"}}]);
    assert_eq!(from_chat(&user(file)).unwrap_err().field, Field::Media);
    let choice = json!({
        "model": "m", "messages": [], "tools": [],
        "tool_choice": {"type": "function", "function": {"name": "look"}}
    });
    assert_eq!(from_chat(&choice).unwrap_err().field, Field::ToolChoice);
}

/// As Cohere answers with a plan and a call.
const ANSWER: &str = r#"{
    "id": "c14c80c3",
    "message": {
        "role": "assistant",
        "tool_plan": "I will look.",
        "tool_calls": [{"id": "look_1", "type": "function", "function": {"name": "look", "arguments": "{\"at\": 1.50}"}}]
    },
    "finish_reason": "TOOL_CALL",
    "usage": {"billed_units": {"input_tokens": 4.0, "output_tokens": 6}, "tokens": {"input_tokens": 42.0, "output_tokens": 7.0}, "cached_tokens": 30}
}"#;

#[test]
fn an_answer_is_read_and_written_back() {
    let read = Cohere.read_answer(ANSWER.as_bytes()).unwrap();
    insta::assert_debug_snapshot!(read);
    assert_eq!(Cohere.usage(ANSWER.as_bytes()), Some(read.usage));
    let written = Cohere.write_answer(&read, &shown());
    assert_eq!(Cohere.read_answer(&written).unwrap(), read);
}

#[test]
fn an_answer_that_the_model_broke_off_is_none() {
    for reason in ["ERROR", "TIMEOUT"] {
        let broken = ANSWER.replace("TOOL_CALL", reason);
        let error = Cohere.read_answer(broken.as_bytes()).unwrap_err();
        assert_eq!(error.path, "finish_reason");
    }
    let text = r#"{"id":"x","finish_reason":"MAX_TOKENS","message":{"role":"assistant","content":[
        {"type":"thinking","thinking":"Hm."},{"type":"text","text":"Yes"}]}}"#;
    let read = Cohere.read_answer(text.as_bytes()).unwrap();
    assert_eq!((read.parts.len(), read.stop), (2, Stop::Length));
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

/// As Cohere streams a plan, a text and two calls.
const STREAM: &str = r#"event: message-start
data: {"id":"29f14a5a","type":"message-start","delta":{"message":{"role":"assistant","content":[],"tool_plan":"","tool_calls":[],"citations":[]}}}

event: tool-plan-delta
data: {"type":"tool-plan-delta","delta":{"message":{"tool_plan":"I will"}}}

event: tool-plan-delta
data: {"type":"tool-plan-delta","delta":{"message":{"tool_plan":" look."}}}

event: tool-call-start
data: {"type":"tool-call-start","index":0,"delta":{"message":{"tool_calls":{"id":"look_1","type":"function","function":{"name":"look","arguments":""}}}}}

event: tool-call-delta
data: {"type":"tool-call-delta","index":0,"delta":{"message":{"tool_calls":{"function":{"arguments":"{\"at\":"}}}}}

event: tool-call-delta
data: {"type":"tool-call-delta","index":0,"delta":{"message":{"tool_calls":{"function":{"arguments":" 1}"}}}}}

event: tool-call-end
data: {"type":"tool-call-end","index":0}

event: tool-call-start
data: {"type":"tool-call-start","index":1,"delta":{"message":{"tool_calls":{"id":"look_2","type":"function","function":{"name":"look","arguments":"{}"}}}}}

event: tool-call-end
data: {"type":"tool-call-end","index":1}

event: content-start
data: {"type":"content-start","index":0,"delta":{"message":{"content":{"type":"text","text":""}}}}

event: content-delta
data: {"type":"content-delta","index":0,"delta":{"message":{"content":{"text":"Wait."}}}}

event: content-end
data: {"type":"content-end","index":0}

event: message-end
data: {"type":"message-end","delta":{"finish_reason":"TOOL_CALL","usage":{"billed_units":{"input_tokens":4,"output_tokens":6},"tokens":{"input_tokens":42,"output_tokens":7}}}}

data: [DONE]

"#;

fn events(text: &[u8]) -> Vec<Event> {
    let mut reader = SseReader::default();
    reader.push(text);
    let mut events = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        events.push(event);
    }
    events
}

fn deltas(events: &[Event]) -> Vec<Delta> {
    let mut reader = Cohere.stream_reader().unwrap();
    let mut out = Vec::new();
    for event in events {
        reader.read(event, &mut out).unwrap();
    }
    out
}

#[test]
fn a_stream_is_read_and_written_back() {
    let read = deltas(&events(STREAM.as_bytes()));
    insta::assert_debug_snapshot!(read);
    let mut writer = Cohere.stream_writer(shown()).unwrap();
    let mut out = BytesMut::new();
    for delta in read.clone() {
        writer.write(delta, &mut out);
    }
    writer.end(None, &mut out);
    assert_eq!(deltas(&events(&out)), read);
}

#[test]
fn startup_output_and_end_are_told_apart() {
    let kinds: Vec<_> = events(STREAM.as_bytes())
        .iter()
        .map(|event| {
            let seen = Cohere.seen(event, false);
            (event.kind().to_owned(), seen.output, seen.ends)
        })
        .collect();
    let silent: Vec<_> = kinds
        .iter()
        .filter(|(_, output, _)| !output)
        .map(|(kind, ..)| kind.as_str())
        .collect();
    assert_eq!(silent, ["message-start", "content-start"]);
    let ends: Vec<_> = kinds.iter().filter(|(.., ends)| *ends).collect();
    assert_eq!(ends.len(), 1);
    assert_eq!(ends[0].0, "message-end");
    let end = events(STREAM.as_bytes()).into_iter().rev().nth(1).unwrap();
    for committed in [false, true] {
        let usage = Cohere.seen(&end, committed).usage.unwrap();
        assert_eq!((usage.input, usage.output), (42, 7));
    }
}

#[test]
fn a_stream_that_the_model_broke_off_is_broken() {
    for end in [
        r#"{"type":"message-end","delta":{"finish_reason":"ERROR","error":"out of luck"}}"#,
        r#"{"type":"message-end","delta":{"finish_reason":"TIMEOUT"}}"#,
    ] {
        let event = Event {
            data: end.into(),
            ..Event::default()
        };
        let mut reader = Cohere.stream_reader().unwrap();
        assert!(reader.read(&event, &mut Vec::new()).is_err(), "{end}");
    }
}

#[test]
fn what_clients_say_beyond_the_common_is_told() {
    let body = json!({
        "model": "m", "safety_mode": "STRICT", "k": 3, "p": 0.5,
        "messages": [
            {"role": "user", "content": "hi"},
            {"role": "tool", "tool_call_id": "1", "content": [{"type": "document", "document": {"data": {"a": 1}}}]}
        ]
    });
    let read = Cohere.read_request(body.to_string().as_bytes()).unwrap();
    assert_eq!(read.unplaced, ["safety_mode"]);
    assert_eq!(read.top_k, Some(3));
    let Part::ToolResult(result) = &read.turns[1].parts[0] else {
        panic!("{:?}", read.turns);
    };
    assert_eq!(result.parts, [Part::Text(r#"{"a":1}"#.to_owned())]);
    for (body, path) in [
        (json!({"messages": [], "documents": ["x"]}), "documents"),
        (json!({"messages": [{"role": "x"}]}), "messages[0].role"),
        (
            json!({"messages": [], "tool_choice": "MAYBE"}),
            "tool_choice",
        ),
    ] {
        let error = Cohere
            .read_request(body.to_string().as_bytes())
            .unwrap_err();
        assert_eq!(error.path, path);
    }
}

proptest! {
    #[test]
    fn requests_come_back_as_they_were(request in samples::request()) {
        let named = matches!(request.tool_choice, Some(crate::protocols::talk::ToolChoice::Named(_)));
        prop_assume!(!named);
        let written = Cohere.write_request(&request, TO).unwrap();
        prop_assert_eq!(&written.dropped, &[]);
        let read = Cohere.read_request(&written.body).unwrap();
        // Each result of a tool is a message of its own.
        let flat = |request: &Request| -> Vec<(Role, Vec<Part>)> {
            let turns = request.alternating().into_iter();
            turns.map(|(role, parts)| (role, parts.into_iter().cloned().collect())).collect()
        };
        prop_assert_eq!(flat(&read), flat(&request));
        let strict = request.tools.iter().any(|tool| tool.strict == Some(true));
        prop_assert!(!strict);
        // That the model may choose is what is not said.
        let choice = request.tool_choice.clone().filter(|c| *c != crate::protocols::talk::ToolChoice::Auto);
        let request = Request { turns: Vec::new(), tool_choice: choice, ..request };
        prop_assert_eq!(Request { turns: Vec::new(), ..read }, request);
    }

    /// Whatever a provider sends is read or refused.
    #[test]
    fn no_answer_and_no_event_breaks_the_reader(
        kind in "(message-start|content-start|content-delta|tool-call-start|tool-call-delta|message-end|x)",
        text in r#"[{}\[\]",:a-z0-9]{0,40}"#,
    ) {
        let _ = Cohere.read_answer(text.as_bytes());
        let typed = format!(r#"{{"type":"{kind}","delta":{text}}}"#);
        for data in [text, typed] {
            let event = Event { data: data.into(), ..Event::default() };
            let _ = Cohere.seen(&event, false);
            let _ = Cohere.stream_reader().unwrap().read(&event, &mut Vec::new());
        }
    }
}
