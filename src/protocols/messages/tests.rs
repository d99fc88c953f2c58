//! Messages, there and back.

use proptest::prelude::*;

use super::*;
use crate::protocols::chat::Chat;
use crate::protocols::samples::{self, events, gathered, pretty};

const TO: To<'_> = To {
    model: "m",
    stream: false,
    provider: "anthropic",
};

proptest! {
    #[test]
    fn requests_come_back_as_they_were(request in samples::request()) {
        let written = Messages.write_request(&request, TO).unwrap();
        prop_assert_eq!(&written.dropped, &[]);
        let read = Messages.read_request(&written.body).unwrap();
        let flat = |request: &Request| -> Vec<_> {
            let turns = request.alternating().into_iter();
            turns
                .map(|(role, parts)| {
                    let mut parts: Vec<_> = parts.into_iter().cloned().collect();
                    // Results of tools go first.
                    parts.sort_by_key(|p| !matches!(p, crate::protocols::talk::Part::ToolResult(_)));
                    (role, parts)
                })
                .collect()
        };
        prop_assert_eq!(flat(&read), flat(&request));
        prop_assert_eq!(Request { turns: Vec::new(), ..read }, Request { turns: Vec::new(), ..request });
    }
}

proptest! {
    #[test]
    fn answers_come_back_as_they_were(answer in samples::answer(), piece in 1_usize..9) {
        let whole = Messages.write_answer(&answer, &samples::shown());
        prop_assert_eq!(&Messages.read_answer(&whole).unwrap(), &answer);
        let streamed = samples::written(&Messages, samples::pieces(&answer, piece));
        let read = samples::read(&Messages, &events(&streamed));
        prop_assert_eq!(&gathered(read), &answer);
    }

    #[test]
    fn no_bytes_upset_it(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = (Messages.read_request(&bytes), Messages.read_answer(&bytes), Messages.usage(&bytes));
    }
}

/// As a coding agent sends it.
const RECORDED: &str = r#"{"model":"claude-sonnet-4-5","max_tokens":32000,"stream":true,
    "system":[{"type":"text","text":"You are an agent.","cache_control":{"type":"ephemeral"}},{"type":"text","text":"Be brief."}],
    "messages":[
      {"role":"user","content":[{"type":"text","text":"Look at this."},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aWY="}}]},
      {"role":"assistant","content":[{"type":"thinking","thinking":"I should look.","signature":"c2ln"},{"type":"redacted_thinking","data":"cmVk"},
        {"type":"text","text":"Looking."},{"type":"tool_use","id":"toolu_1","name":"Read","input":{"path":"/a","n":1.10,"id":12345678901234567890}}]},
      {"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","is_error":true,"content":[{"type":"text","text":"no such file"},
        {"type":"image","source":{"type":"url","url":"https://example.com/x.png"}}]},{"type":"text","text":"Well?","cache_control":{"type":"ephemeral"}}]}],
    "tools":[{"name":"Read","description":"Reads.","input_schema":{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}}],
    "tool_choice":{"type":"auto","disable_parallel_tool_use":true},"thinking":{"type":"enabled","budget_tokens":31999},
    "metadata":{"user_id":"u-1"},"stop_sequences":["END"],"temperature":1,"top_k":40,"service_tier":"auto"}"#;

#[test]
fn a_request_reaches_chat_providers() {
    let request = Messages.read_request(RECORDED.as_bytes()).unwrap();
    let to = To {
        model: "gpt-5",
        stream: true,
        provider: "openai",
    };
    let written = Chat.write_request(&request, to).unwrap();
    let dropped = format!("{:?}\n{:?}", request.unplaced, written.dropped);
    insta::assert_snapshot!(format!("{}\n{dropped}", pretty(&written.body)));
}

/// Coding agents put them behind the user's words where the model is new to them.
#[test]
fn instructions_between_turns_move_to_the_front() {
    let body = r#"{"system":"Be brief.","messages":[{"role":"user","content":"hi"},{"role":"system","content":"Be kind."},
        {"role":"assistant","content":"hello"},{"role":"system","content":[{"type":"text","text":"Be quick.","cache_control":{"type":"ephemeral"}}]}]}"#;
    let request = Messages.read_request(body.as_bytes()).unwrap();
    assert_eq!(request.system, ["Be brief.", "Be kind.", "Be quick."]);
    assert_eq!(request.turns.len(), 2);
    assert_eq!(request.unplaced, ["messages[3].content[0].cache_control"]);
}

#[test]
fn a_request_of_a_chat_client_arrives() {
    let body = r#"{"model":"x/claude","messages":[{"role":"system","content":"Be brief."},{"role":"developer","content":[{"type":"text","text":"Be kind."}]},
        {"role":"user","content":[{"type":"text","text":"Look."},{"type":"image_url","image_url":{"url":"data:image/png;base64,aWY="}},
          {"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,cGRm"}}]},
        {"role":"assistant","content":"","reasoning_content":"hm","reasoning_details":[{"type":"reasoning.text","text":"hm","signature":"c2ln"}],
          "tool_calls":[{"id":"call:1","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Köln\"}"}},
            {"id":"call:2","type":"function","function":{"name":"time","arguments":""}}]},
        {"role":"tool","tool_call_id":"call:1","content":"sunny"},{"role":"tool","tool_call_id":"call:2","content":"noon"},
        {"role":"user","content":"And?"}],
        "tools":[{"type":"function","function":{"name":"weather","parameters":{"type":"object"},"strict":true}},{"type":"function","function":{"name":"time"}}],
        "tool_choice":"auto","parallel_tool_calls":false,"reasoning_effort":"high","max_completion_tokens":8000,"stop":"END","seed":7,"user":"u-1",
        "temperature":0.5,"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"}}}}"#;
    let request = Chat.read_request(body.as_bytes()).unwrap();
    let written = Messages.write_request(&request, TO).unwrap();
    let told = format!("{}\n{:?}", pretty(&written.body), written.dropped);
    insta::assert_snapshot!(told);
}

#[test]
fn what_the_provider_would_refuse_to_combine_is_left_out() {
    let asked = |more: &str| {
        let body = format!(
            r#"{{"messages":[{{"role":"user","content":"x"}}],"tools":[{{"type":"function","function":{{"name":"f"}}}}],{more}}}"#
        );
        let request = Chat.read_request(body.as_bytes()).unwrap();
        match Messages.write_request(&request, TO) {
            Ok(written) => {
                let body: Value = serde_json::from_slice(&written.body).unwrap();
                let limits = (&body["max_tokens"], &body["thinking"], &body["temperature"]);
                format!("{limits:?} {:?}", written.dropped)
            }
            Err(refused) => format!("{:?}: {}", refused.field, refused.message),
        }
    };
    let all = [
        asked(r#""reasoning_effort":"medium""#),
        asked(r#""reasoning_effort":"none","temperature":0.2"#),
        asked(r#""reasoning_effort":"low","max_tokens":500"#),
        asked(r#""reasoning_effort":"low","tool_choice":"required""#),
        asked(r#""reasoning":{"max_tokens":20000}"#),
        asked(r#""reasoning_effort":"high","temperature":0.2,"top_k":3"#),
        asked(r#""temperature":1.5"#),
        asked(r#""response_format":{"type":"json_object"}"#),
    ];
    insta::assert_snapshot!(all.join("\n"));
}

#[test]
fn what_only_anthropic_knows_is_refused_by_name() {
    let with = |more: &str| {
        let body = format!(r#"{{"messages":[{{"role":"user","content":"x"}}],{more}}}"#);
        Messages
            .read_request(body.as_bytes())
            .unwrap_err()
            .to_string()
    };
    let block = |block: &str| {
        let body = format!(r#"{{"messages":[{{"role":"user","content":[{block}]}}]}}"#);
        Messages
            .read_request(body.as_bytes())
            .unwrap_err()
            .to_string()
    };
    let refusals = [
        with(r#""tools":[{"type":"web_search_20250305","name":"web_search"}]"#),
        with(r#""mcp_servers":[]"#),
        with(r#""thinking":{"type":"enabled"}"#),
        with(r#""tool_choice":{"type":"some"}"#),
        block(r#"{"type":"search_result"}"#),
        block(r#"{"type":"tool_use","id":"x","name":"f","input":{}}"#),
        block(r#"{"type":"document","source":{"type":"file","file_id":"f"}}"#),
    ];
    insta::assert_snapshot!(refusals.join("\n"));
    let thread = with(r#""thread":{"type":"continue","previous_message_id":"msg_1"}"#);
    assert!(thread.starts_with("`thread` is kept"), "{thread}");
}

/// As Anthropic streams it.
const STREAM: &[u8] = br#"event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":10,"cache_read_input_tokens":90,"cache_creation_input_tokens":5,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}

event: ping
data: {"type": "ping"}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Let me \"message_\" see."}}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

event: content_block_start
data: {"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"toolu_1","name":"f","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"a\": 1}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":2}

event: content_block_start
data: {"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"toolu_2","name":"g","input":{}}}

event: content_block_stop
data: {"type":"content_block_stop","index":3}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":89}}

event: message_stop
data: {"type":"message_stop"}

"#;

#[test]
fn a_stream_reaches_chat_clients() {
    let deltas = samples::read(&Messages, &events(STREAM));
    let written = samples::written(&Chat, deltas);
    insta::assert_snapshot!(String::from_utf8_lossy(&written));
}

#[test]
fn a_chat_stream_reaches_anthropics_clients() {
    let deltas = samples::read(&Messages, &events(STREAM));
    let chat = samples::written(&Chat, deltas);
    let written = samples::written(&Messages, samples::read(&Chat, &events(&chat)));
    insta::assert_snapshot!(String::from_utf8_lossy(&written));
}

#[test]
fn startup_is_told_from_output_and_the_end_is_seen() {
    let seen = |committed: bool| -> Vec<_> {
        let all = events(STREAM).into_iter();
        all.map(|event| {
            let seen = Messages.seen(&event, committed);
            (
                seen.output,
                seen.ends,
                seen.usage.map(|u| (u.input, u.output)),
            )
        })
        .collect()
    };
    let before = seen(false);
    assert_eq!(before[0], (false, false, Some((105, 1))));
    assert_eq!(before[1..3], [(false, false, None); 2]);
    assert_eq!(before[3], (true, false, None));
    let after = seen(true);
    assert_eq!(
        after[after.len() - 2..],
        [(true, false, Some((0, 89))), (true, true, None)]
    );
    assert!(
        after
            .iter()
            .all(|(_, _, usage)| usage.is_none_or(|(_, out)| out < 90))
    );
}

#[test]
fn errors_have_the_type_that_clients_know() {
    let told = |status: u16, kind: &str| {
        let mut error = ApiError::caller(http::StatusCode::from_u16(status).unwrap(), "no");
        error.error.kind = Some(kind.to_owned());
        String::from_utf8(Messages.error(&error)).unwrap()
    };
    let all = [
        told(400, "invalid_request_error"),
        told(401, "invalid_request_error"),
        told(429, "tokens"),
        told(500, "overloaded_error"),
        told(529, "x"),
        told(504, "request_timed_out"),
        told(502, "network_error"),
    ];
    insta::assert_snapshot!(all.join("\n"));
    let mut error = ApiError::caller(http::StatusCode::BAD_REQUEST, "no");
    error.error.param = Some("thread".to_owned());
    let told: Value = serde_json::from_slice(&Messages.error(&error)).unwrap();
    let expected = serde_json::json!({"error_code": "thread_unsupported_request", "unsupported": ["provider"]});
    assert_eq!(told["error"]["details"], expected);
    let mut out = BytesMut::new();
    let error = ApiError::caller(http::StatusCode::BAD_REQUEST, "no");
    Messages.error_event(&error, 1, &mut out);
    assert!(out.starts_with(b"event: error\ndata: {\"type\":\"error\""));
}
