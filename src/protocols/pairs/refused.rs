//! Requests that cannot be meant, or that are made to hurt, are refused by the name of their field, in
//! every protocol.

use super::Protocol;
use crate::protocols::json::MAX_DEPTH;

fn refusal(protocol: Protocol, body: &str) -> String {
    let read = protocol.spoken().read_request(body.as_bytes());
    read.expect_err("it is refused").to_string()
}

#[test]
fn a_member_that_stands_twice_is_refused() {
    for (protocol, body, path) in [
        (
            Protocol::Chat,
            r#"{"temperature":0,"messages":[],"temperature":1}"#,
            "temperature",
        ),
        (
            Protocol::Chat,
            r#"{"messages":[{"role":"user","content":"x","content":"y"}]}"#,
            "messages[0].content",
        ),
        (
            Protocol::Responses,
            r#"{"input":"x","reasoning":{"effort":"low","effort":"high"}}"#,
            "reasoning.effort",
        ),
        (
            Protocol::Messages,
            r#"{"messages":[{"role":"user","content":[{"type":"text","text":"a","t\u0065xt":"b"}]}]}"#,
            "messages[0].content[0].text",
        ),
        (
            Protocol::Generate,
            r#"{"contents":[],"generationConfig":{"topK":1,"topK":1}}"#,
            "generationConfig.topK",
        ),
        (
            Protocol::Converse,
            r#"{"messages":[],"inferenceConfig":{"topP":1,"topP":0}}"#,
            "inferenceConfig.topP",
        ),
        (
            Protocol::Cohere,
            r#"{"messages":[{"role":"user","role":"system","content":"x"}]}"#,
            "messages[0].role",
        ),
    ] {
        let expected = format!("`{path}` stands twice: send it once");
        assert_eq!(refusal(protocol, body), expected);
    }
}

/// Arguments and schemas pass as they are: what stands twice in them is their reader's.
#[test]
fn a_member_that_stands_twice_in_arguments_passes() {
    let body = r#"{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{"x":1,"x":2}}]}]}"#;
    assert!(
        Protocol::Messages
            .spoken()
            .read_request(body.as_bytes())
            .is_ok()
    );
}

#[test]
fn json_in_text_is_not_nested_without_end() {
    let deep = |levels: usize| {
        let (open, close) = ("{\\\"a\\\":".repeat(levels), "}".repeat(levels));
        format!("{open}1{close}")
    };
    let call = |levels: usize| {
        format!(
            r#"{{"messages":[{{"role":"assistant","tool_calls":[{{"id":"a","type":"function","function":{{"name":"f","arguments":"{}"}}}}]}}]}}"#,
            deep(levels)
        )
    };
    let arguments =
        "`messages[0].tool_calls[0].function.arguments` is nested more than 128 levels deep";
    for protocol in [Protocol::Chat, Protocol::Cohere] {
        assert_eq!(refusal(protocol, &call(MAX_DEPTH + 1)), arguments);
        assert!(
            protocol
                .spoken()
                .read_request(call(MAX_DEPTH).as_bytes())
                .is_ok()
        );
    }
    let body = format!(
        r#"{{"input":[{{"type":"function_call","call_id":"a","name":"f","arguments":"{}"}}]}}"#,
        deep(200_000)
    );
    let expected = "`input[0].arguments` is nested more than 128 levels deep";
    assert_eq!(refusal(Protocol::Responses, &body), expected);
    let body = format!(
        r#"{{"messages":[],"outputConfig":{{"textFormat":{{"type":"json_schema","structure":{{"jsonSchema":{{"schema":"{}"}}}}}}}}}}"#,
        deep(MAX_DEPTH + 1)
    );
    let expected =
        "`outputConfig.textFormat.structure.jsonSchema.schema` is nested more than 128 levels deep";
    assert_eq!(refusal(Protocol::Converse, &body), expected);
}

#[test]
fn lists_and_objects_do_not_go_on_without_end() {
    for (protocol, name) in [
        (Protocol::Chat, "messages"),
        (Protocol::Responses, "input"),
        (Protocol::Messages, "messages"),
        (Protocol::Generate, "contents"),
        (Protocol::Converse, "messages"),
        (Protocol::Cohere, "messages"),
    ] {
        let body = format!("{{\"{name}\":[{}0]}}", "0,".repeat(100_000));
        let expected = format!("`{name}` has more than 100000 elements");
        assert_eq!(refusal(protocol, &body), expected);
        let members: Vec<_> = (0..1_001).map(|n| format!("\"{n}\":0")).collect();
        let body = format!("{{\"{name}\":[{{{}}}]}}", members.join(","));
        let expected = format!("`{name}[0]` has more than 1000 members");
        assert_eq!(refusal(protocol, &body), expected);
    }
}

/// What only one side can say reached the provider in the other side's words.
#[test]
fn what_only_the_other_side_can_say_is_refused() {
    let image = r#"{"type":"image_url","image_url":{"url":"https://h/x.png"}}"#;
    let cases = [
        (
            Protocol::Chat,
            format!(r#"{{"messages":[{{"role":"assistant","content":[{image}]}}]}}"#),
            "messages[0].content",
        ),
        (
            Protocol::Chat,
            r#"{"messages":[{"role":"user","content":[{"type":"thinking","thinking":[]}]}]}"#.to_owned(),
            "messages[0].content",
        ),
        (
            Protocol::Cohere,
            format!(r#"{{"messages":[{{"role":"assistant","content":[{image}]}}]}}"#),
            "messages[0].content",
        ),
        (
            Protocol::Generate,
            r#"{"contents":[{"role":"user","parts":[{"text":"hm","thought":true}]}]}"#.to_owned(),
            "contents[0].parts[0]",
        ),
        (
            Protocol::Converse,
            r#"{"messages":[{"role":"user","content":[{"toolUse":{"toolUseId":"a","name":"f","input":{}}}]}]}"#.to_owned(),
            "messages[0].content[0]",
        ),
        (
            Protocol::Converse,
            r#"{"messages":[{"role":"assistant","content":[{"toolResult":{"toolUseId":"a","content":[]}}]}]}"#.to_owned(),
            "messages[0].content[0]",
        ),
        (
            Protocol::Messages,
            r#"{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"tool_result","tool_use_id":"b"}]}]}]}"#.to_owned(),
            "messages[0].content[0].content",
        ),
    ];
    for (protocol, body, path) in cases {
        let expected = format!("`{path}` has a part that cannot stand in a message of this role");
        assert_eq!(refusal(protocol, &body), expected);
    }
}
