//! Responses, there and back, and as they are on the wire.

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::protocols::samples;
use crate::protocols::talk::{
    Delta, Effort, Part, Reasoning, Role, Stop, Thought, ToolCall, ToolChoice,
};

const TO: To<'_> = To {
    model: "m",
    stream: false,
    provider: "openai",
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

fn thought(text: &str, signature: Option<&str>) -> Part {
    Part::Thought(Thought {
        text: text.to_owned(),
        signature: signature.map(str::to_owned),
        redacted: None,
    })
}

fn call(id: &str, arguments: &str) -> Part {
    Part::ToolCall(ToolCall {
        id: id.to_owned(),
        name: "weather".to_owned(),
        arguments: crate::protocols::json::Json::parse(arguments).unwrap(),
    })
}

proptest! {
    #[test]
    fn requests_come_back_as_they_were(request in samples::request()) {
        // The protocol has no such texts, and says of every function whether it is strict.
        let request = Request { stop: Vec::new(), ..request };
        let written = Responses.write_request(&request, TO).unwrap();
        prop_assert_eq!(&written.dropped, &[]);
        let mut read = Responses.read_request(&written.body).unwrap();
        for tool in &mut read.tools {
            prop_assert_eq!(tool.strict.take(), Some(false));
        }
        let flat = |request: &Request| -> Vec<_> {
            let turns = request.alternating().into_iter();
            turns.map(|(role, parts)| (role, parts.into_iter().cloned().collect::<Vec<_>>())).collect()
        };
        prop_assert_eq!(flat(&read), flat(&request));
        prop_assert_eq!(Request { turns: Vec::new(), ..read }, Request { turns: Vec::new(), ..request });
    }
}

/// As Codex sends it: what the model did before stands in items of its own.
#[test]
fn a_coding_agents_request_is_read() {
    let body = json!({
        "model": "gpt-5", "instructions": "Be brief.", "stream": true, "store": false,
        "include": ["reasoning.encrypted_content"], "prompt_cache_key": "k",
        "reasoning": {"effort": "high", "summary": "auto"}, "tool_choice": "auto", "parallel_tool_calls": false,
        "tools": [
            {"type": "function", "name": "weather", "description": "d", "strict": false, "parameters": {"type": "object"}},
            {"type": "namespace", "name": "agents", "tools": [{"type": "function", "name": "spawn"}]},
            {"type": "web_search_preview", "external_web_access": true},
        ],
        "text": {"verbosity": "low"},
        "input": [
            {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Rules."}]},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "weather?"}]},
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "seal"},
            {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
             "content": [{"type": "output_text", "text": "I look.", "annotations": [], "logprobs": []}]},
            {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "weather", "arguments": "{\"a\":1.10}"},
            {"type": "function_call", "call_id": "c2", "name": "weather", "arguments": ""},
            {"type": "function_call_output", "call_id": "c1", "output": "sunny"},
            {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "dark"}]},
            {"role": "user", "content": "thanks"},
        ],
    });
    let request = Responses.read_request(body.to_string().as_bytes()).unwrap();
    assert_eq!(request.system, ["Be brief.", "Rules."]);
    assert_eq!(request.tool_choice, Some(ToolChoice::Auto));
    assert_eq!(request.parallel_tool_calls, Some(false));
    assert_eq!(request.reasoning, Some(Reasoning::Effort(Effort::High)));
    let roles: Vec<Role> = request.turns.iter().map(|turn| turn.role).collect();
    assert_eq!(roles, [Role::User, Role::Assistant, Role::User, Role::User]);
    let text = Part::Text("I look.".to_owned());
    let calls = [call("c1", r#"{"a":1.10}"#), call("c2", "{}")];
    let [first, second] = calls;
    assert_eq!(
        request.turns[1].parts,
        [thought("hm", Some("seal")), text, first, second]
    );
    assert_eq!(request.turns[2].parts.len(), 2);
    assert_eq!(request.tools.len(), 1);
    let left_out = ["tools[1]", "tools[2]", "text.verbosity", "prompt_cache_key"];
    assert_eq!(request.unplaced, left_out);
}

#[test]
fn what_only_openai_knows_is_refused_by_name() {
    for (more, path) in [
        (
            json!({"previous_response_id": "resp_1"}),
            "previous_response_id",
        ),
        (json!({"conversation": {"id": "c"}}), "conversation"),
        (json!({"prompt": {"id": "p"}}), "prompt"),
        (json!({"store": true}), "store"),
        (json!({"background": true}), "background"),
        (json!({"top_logprobs": 3}), "top_logprobs"),
        (json!({"truncation": "auto"}), "truncation"),
        (
            json!({"include": ["file_search_call.results"]}),
            "include[0]",
        ),
        (json!({"tools": [{"type": "web_search"}]}), "tools[0].type"),
        (
            json!({"tools": [{"type": "function", "name": "f"}, {"type": "mcp"}]}),
            "tools[1].type",
        ),
        (
            json!({"tool_choice": {"type": "allowed_tools"}}),
            "tool_choice.type",
        ),
        (
            json!({"input": [{"type": "item_reference", "id": "x"}]}),
            "input[0].type",
        ),
        (
            json!({"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}]}),
            "input[0].content[0].file_id",
        ),
        (json!({"reasoning": {"effort": "huge"}}), "reasoning.effort"),
        (json!({"input": 5}), "input"),
    ] {
        let mut body = json!({"model": "m", "input": "hi"});
        body.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let refused = Responses
            .read_request(body.to_string().as_bytes())
            .unwrap_err();
        assert_eq!(refused.path, path, "{refused}");
    }
    let fine = json!({"input": "hi", "store": false, "background": false, "truncation": "disabled",
        "previous_response_id": null, "top_logprobs": 0});
    let request = Responses.read_request(fine.to_string().as_bytes()).unwrap();
    assert_eq!(request.unplaced, Vec::<String>::new());
}

#[test]
fn texts_that_end_an_answer_cannot_be_said() {
    let request = Request {
        stop: vec!["END".to_owned()],
        ..Request::default()
    };
    let refused = Responses.write_request(&request, TO).unwrap_err();
    assert_eq!(refused.field, Field::Stop);
}

fn answer(parts: Vec<Part>, stop: Stop) -> Answer {
    Answer {
        id: "msg_1".to_owned(),
        model: "claude".to_owned(),
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

#[test]
fn whole_answers_come_back_as_they_were() {
    let redacted = Part::Thought(Thought {
        redacted: Some("data".to_owned()),
        ..Thought::default()
    });
    let parts = vec![
        thought("hm", Some("seal")),
        redacted,
        Part::Text("ja \"世\"".to_owned()),
        call("c1", r#"{"a":1.10}"#),
    ];
    for (parts, stop) in [
        (parts.clone(), Stop::ToolCalls),
        (parts, Stop::Length),
        (vec![Part::Text("no".to_owned())], Stop::Filtered),
        (Vec::new(), Stop::End),
    ] {
        let answer = answer(parts, stop);
        let written = Responses.write_answer(&answer, &shown());
        let read = Responses.read_answer(&written).unwrap();
        let expected = Answer {
            id: "resp_msg_1".to_owned(),
            ..answer
        };
        assert_eq!(read, expected);
        assert_eq!(Responses.usage(&written), Some(expected.usage));
    }
}

#[test]
fn an_answer_on_the_wire() {
    let answer = answer(vec![Part::Text("hi".to_owned())], Stop::Length);
    let written = Responses.write_answer(&answer, &shown());
    insta::assert_snapshot!(String::from_utf8(written).unwrap());
}

fn events(deltas: Vec<Delta>) -> (String, Vec<Value>) {
    let mut writer = Responses.stream_writer(shown()).unwrap();
    let mut out = BytesMut::new();
    for delta in deltas {
        writer.write(delta, &mut out);
    }
    writer.end(None, &mut out);
    let wire = String::from_utf8(out.to_vec()).unwrap();
    let data = wire.lines().filter_map(|line| line.strip_prefix("data: "));
    let values: Vec<Value> = data
        .map(|data| serde_json::from_str(data).unwrap())
        .collect();
    assert_eq!(writer.events(), values.len() as u64);
    (wire, values)
}

fn deltas() -> Vec<Delta> {
    let text = |text: &str| text.to_owned();
    let start = |call, id: &str| Delta::ToolCall {
        call,
        id: id.to_owned(),
        name: "weather".to_owned(),
    };
    let more = |call, json: &str| Delta::Arguments {
        call,
        json: json.to_owned(),
    };
    vec![
        Delta::Start {
            id: text("msg_1"),
            model: text("claude"),
        },
        Delta::Thought(text("h")),
        Delta::Thought(text("m")),
        Delta::Signature(text("seal")),
        Delta::Text(text("Grüße")),
        Delta::Text(text(" 世")),
        start(0, "c1"),
        start(1, "c2"),
        more(0, "{\"a\":"),
        more(0, "1}"),
        Delta::Stop(Stop::ToolCalls),
        Delta::Usage(answer(Vec::new(), Stop::End).usage),
    ]
}

#[test]
fn a_stream_on_the_wire() {
    let (wire, values) = events(deltas());
    insta::assert_snapshot!(wire);
    for (n, value) in values.iter().enumerate() {
        assert_eq!(value["sequence_number"], n);
    }
}

#[test]
fn streams_come_back_as_they_were() {
    let (wire, _) = events(deltas());
    let mut reader = Responses.stream_reader().unwrap();
    let mut read = Vec::new();
    for data in wire.lines().filter_map(|line| line.strip_prefix("data: ")) {
        let event = Event {
            data: Bytes::copy_from_slice(data.as_bytes()),
            ..Event::default()
        };
        reader.read(&event, &mut read).unwrap();
    }
    let mut expected = deltas();
    expected[0] = Delta::Start {
        id: "resp_msg_1".to_owned(),
        model: "claude".to_owned(),
    };
    // A call without arguments gets an empty object.
    expected.insert(
        10,
        Delta::Arguments {
            call: 1,
            json: "{}".to_owned(),
        },
    );
    assert_eq!(read, expected);
}

#[test]
fn a_stream_that_ran_out_of_tokens_is_incomplete() {
    let start = Delta::Start {
        id: String::new(),
        model: String::new(),
    };
    let (wire, values) = events(vec![start, Delta::Stop(Stop::Length)]);
    assert!(wire.contains("event: response.incomplete\n"));
    assert!(!wire.contains("response.completed"));
    let last = values.last().unwrap();
    assert_eq!(last["response"]["id"], "resp_x");
    assert_eq!(
        last["response"]["incomplete_details"]["reason"],
        "max_output_tokens"
    );
}

#[test]
fn an_error_ends_a_stream_in_a_form_that_all_clients_read() {
    let error = ApiError::caller(http::StatusCode::BAD_REQUEST, "no");
    let mut out = BytesMut::new();
    Responses.error_event(&error, 4, &mut out);
    insta::assert_snapshot!(String::from_utf8(out.to_vec()).unwrap());
}

/// With a tool `patch` that takes a text.
fn shown_with_text_tool() -> Shown {
    Shown {
        text_tools: vec!["patch".to_owned()],
        ..shown()
    }
}

fn patch_call(arguments: &crate::protocols::json::Json) -> Part {
    Part::ToolCall(ToolCall {
        id: "c1".to_owned(),
        name: "patch".to_owned(),
        arguments: arguments.clone(),
    })
}

/// The events of a call whose arguments come in such pieces.
fn text_call_events(arguments: &str, piece: usize) -> Vec<Value> {
    let mut writer = Responses.stream_writer(shown_with_text_tool()).unwrap();
    let mut out = BytesMut::new();
    let begun = Delta::ToolCall {
        call: 0,
        id: "c1".to_owned(),
        name: "patch".to_owned(),
    };
    writer.write(begun, &mut out);
    let letters: Vec<char> = arguments.chars().collect();
    for piece in letters.chunks(piece) {
        let json = piece.iter().collect();
        writer.write(Delta::Arguments { call: 0, json }, &mut out);
    }
    writer.end(None, &mut out);
    let wire = String::from_utf8(out.to_vec()).unwrap();
    let data = wire.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).unwrap())
        .collect()
}

proptest! {
    /// From the client into a function's arguments, and out of such arguments to the client, whole and streamed.
    #[test]
    fn the_text_of_a_tool_comes_back_as_it_was(text in any::<String>(), piece in 1_usize..9) {
        let item = json!({"type": "custom_tool_call", "call_id": "c1", "name": "patch", "input": text});
        let output = json!({"type": "custom_tool_call_output", "call_id": "c1", "output": "done"});
        let body = json!({"input": [item, output]}).to_string();
        let request = Responses.read_request(body.as_bytes()).unwrap();
        prop_assert!(matches!(&request.turns[1].parts[0], Part::ToolResult(_)));
        let Part::ToolCall(call) = &request.turns[0].parts[0] else { panic!("no call") };
        prop_assert!(call.arguments.is_object());

        let answer = answer(vec![patch_call(&call.arguments)], Stop::ToolCalls);
        let written = Responses.write_answer(&answer, &shown_with_text_tool());
        let written: Value = serde_json::from_slice(&written).unwrap();
        let item = &written["output"][0];
        prop_assert_eq!(
            (&item["type"], &item["call_id"], &item["input"], &item["arguments"]),
            (&json!("custom_tool_call"), &json!("c1"), &json!(text), &Value::Null)
        );

        let events = text_call_events(call.arguments.text(), piece);
        let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
        prop_assert_eq!(kinds, [
            "response.output_item.added",
            "response.custom_tool_call_input.delta",
            "response.custom_tool_call_input.done",
            "response.output_item.done",
            "response.completed",
        ]);
        prop_assert_eq!(&events[0]["item"]["input"], "");
        prop_assert_eq!(&events[1]["delta"], &json!(text));
        prop_assert_eq!(&events[2]["input"], &json!(text));
        prop_assert_eq!(&events[3]["item"]["input"], &json!(text));
        prop_assert_eq!(&events[4]["response"]["output"][0], &events[3]["item"]);
    }
}

#[test]
fn arguments_that_are_no_text_are_shown_as_they_are() {
    for (arguments, expected) in [
        (r#"{"input":"a\u00e9"}"#, "aé"),
        (r#"{"input":"a","also":1}"#, r#"{"input":"a","also":1}"#),
        (r#"{"patch":"a"}"#, r#"{"patch":"a"}"#),
        ("{}", ""),
        ("", ""),
    ] {
        let events = text_call_events(arguments, 3);
        assert_eq!(events[2]["input"], expected, "{arguments}");
    }
}

#[test]
fn a_tool_that_takes_a_text_becomes_a_function() {
    let read = |format: Value| {
        let tool =
            json!({"type": "custom", "name": "patch", "description": "Patches.", "format": format});
        let choice = json!({"type": "custom", "name": "patch"});
        let body =
            json!({"input": "a", "tools": [tool, {"type": "web_search"}], "tool_choice": choice});
        Responses.read_request(body.to_string().as_bytes())
    };
    let plain = read(json!({"type": "text"})).unwrap();
    assert_eq!(plain.text_tools, ["patch"]);
    assert_eq!(
        plain.tool_choice,
        Some(ToolChoice::Named("patch".to_owned()))
    );
    let [tool] = &plain.tools[..] else {
        panic!("{:?}", plain.tools)
    };
    assert_eq!(tool.description.as_deref(), Some("Patches."));
    let parameters: Value = serde_json::from_str(tool.parameters.as_ref().unwrap().text()).unwrap();
    assert_eq!(parameters["required"], json!(["input"]));
    assert_eq!(plain.unplaced, ["tools[1]"]);
    let grammar = json!({"type": "grammar", "syntax": "lark", "definition": "start: \"a\""});
    let held = read(grammar).unwrap();
    let described = held.tools[0].description.as_deref().unwrap();
    assert!(described.ends_with("(lark):\nstart: \"a\""), "{described}");
    assert_eq!(held.unplaced, ["tools[0].format", "tools[1]"]);
    let wrong = read(json!({"type": "other"})).unwrap_err();
    assert_eq!(
        wrong.to_string(),
        "`tools[0].format.type` must be text or grammar"
    );
}
