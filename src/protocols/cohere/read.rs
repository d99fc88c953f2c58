//! Requests of Cohere's chat: read from clients.

use serde_json::Number;

use crate::protocols::Malformed;
use crate::protocols::chat::{arguments_of, source};
use crate::protocols::json::{Json, Member, Object};
use crate::protocols::talk::{
    Answer, Format, Media, MediaKind, Part, Reasoning, Request, Role, Thought, Tool, ToolCall,
    ToolChoice, ToolResult, Turn,
};

/// Members that the gateway has read already, or that are its own.
const DEALT_WITH: [&str; 3] = ["model", "stream", "fallbacks"];

/// Reads a client's request.
pub(super) fn read(body: &[u8]) -> Result<Request, Malformed> {
    Request::read(body, members)
}

fn members(top: &mut Object<'_>) -> Result<Request, Malformed> {
    top.skip(&DEALT_WITH);
    if let Some(documents) = top.take("documents").filter(|member| member.raw() != "[]") {
        return Err(
            documents.wrong("cannot be passed on to this provider: put them into a message")
        );
    }
    if top.read::<bool>("logprobs", "true or false")? == Some(true) {
        let message = "cannot be had from this provider: leave it out";
        return Err(Malformed::at("logprobs", message));
    }
    let mut request = Request {
        max_tokens: top.count("max_tokens")?,
        temperature: number(top, "temperature")?,
        top_p: number(top, "p")?,
        top_k: top.count("k")?,
        seed: top.read("seed", "a whole number")?,
        frequency_penalty: number(top, "frequency_penalty")?,
        presence_penalty: number(top, "presence_penalty")?,
        stop: top
            .read("stop_sequences", "a list of strings")?
            .unwrap_or_default(),
        format: top
            .take("response_format")
            .map(format)
            .transpose()?
            .flatten(),
        reasoning: top.take("thinking").map(reasoning).transpose()?,
        tool_choice: top.take("tool_choice").map(tool_choice).transpose()?,
        ..Request::default()
    };
    let strict = top.read("strict_tools", "true or false")?;
    for message in top.need("messages")?.items()? {
        read_message(&message, &mut request)?;
    }
    if let Some(tools) = top.take("tools") {
        for tool in tools.items()? {
            request.tools.push(read_tool(&tool, strict)?);
        }
    }
    Ok(request)
}

fn number(object: &mut Object<'_>, name: &str) -> Result<Option<Number>, Malformed> {
    object.read(name, "a number")
}

fn format(member: Member<'_>) -> Result<Option<Format>, Malformed> {
    let mut format = member.object()?;
    let kind = format.need("type")?;
    let older = format.take("schema");
    let schema = format.take("json_schema").or(older);
    match (kind.text()?.as_str(), schema) {
        ("text", _) => Ok(None),
        ("json_object", None) => Ok(Some(Format::JsonObject)),
        ("json_object", Some(schema)) => Ok(Some(Format::JsonSchema {
            name: None,
            description: None,
            schema: schema.json(),
            strict: None,
        })),
        _ => Err(kind.wrong("must be text or json_object")),
    }
}

fn reasoning(member: Member<'_>) -> Result<Reasoning, Malformed> {
    let mut thinking = member.object()?;
    let kind = thinking.need("type")?;
    let budget = thinking.count("token_budget")?;
    match kind.text()?.as_str() {
        "disabled" => Ok(Reasoning::Off),
        "enabled" => Ok(budget.map_or(Reasoning::Adaptive, Reasoning::Budget)),
        _ => Err(kind.wrong("must be enabled or disabled")),
    }
}

fn tool_choice(member: Member<'_>) -> Result<ToolChoice, Malformed> {
    match member.text()?.as_str() {
        "REQUIRED" => Ok(ToolChoice::Required),
        "NONE" => Ok(ToolChoice::None),
        _ => Err(member.wrong("must be REQUIRED or NONE")),
    }
}

fn read_message(member: &Member<'_>, request: &mut Request) -> Result<(), Malformed> {
    let mut message = member.object()?;
    let role = message.need("role")?;
    let (role, parts) = match role.text()?.as_str() {
        "system" => {
            let member = message.need("content")?;
            for part in content(&member)? {
                match part {
                    Part::Text(text) => request.system.push(text),
                    Part::Media(_) | Part::Thought(_) | Part::ToolCall(_) | Part::ToolResult(_) => {
                        return Err(member.wrong("can only be text for this role"));
                    }
                }
            }
            return Ok(());
        }
        "user" => {
            let member = message.need("content")?;
            (Role::User, content_of(Role::User, &member)?)
        }
        "assistant" => (Role::Assistant, assistant(&mut message)?),
        "tool" => {
            let member = message.need("content")?;
            let result = ToolResult {
                call_id: message.need("tool_call_id")?.text()?,
                parts: content_of(Role::User, &member)?,
                is_error: false,
            };
            (Role::User, vec![Part::ToolResult(result)])
        }
        _ => return Err(role.wrong("must be system, user, assistant or tool")),
    };
    request.turns.push(Turn { role, parts });
    Ok(())
}

fn assistant(message: &mut Object<'_>) -> Result<Vec<Part>, Malformed> {
    let plan = message.text("tool_plan")?.filter(|plan| !plan.is_empty());
    let mut parts: Vec<Part> = plan.map(thought).into_iter().collect();
    if let Some(member) = message.take("content") {
        let said = content_of(Role::Assistant, &member)?.into_iter();
        parts.extend(said.filter(|part| *part != Part::Text(String::new())));
    }
    parts.extend(tool_calls(message, false)?);
    Ok(parts)
}

fn thought(text: String) -> Part {
    Part::Thought(Thought {
        text,
        ..Thought::default()
    })
}

/// The calls of a message, in requests and answers; see [`Answer::call`].
pub(super) fn tool_calls(message: &mut Object<'_>, is_cut: bool) -> Result<Vec<Part>, Malformed> {
    let Some(calls) = message.take("tool_calls") else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    for member in calls.items()? {
        found.extend(Answer::call(&member, is_cut, tool_call(&member))?);
    }
    Ok(found)
}

fn tool_call(member: &Member<'_>) -> Result<ToolCall, Malformed> {
    let mut call = member.object()?;
    call.skip(&["type"]);
    let mut function = call.need("function")?.object()?;
    Ok(ToolCall {
        id: call.text("id")?.unwrap_or_default(),
        name: function.need("name")?.text()?,
        arguments: match function.take("arguments") {
            Some(arguments) => arguments_of(&arguments)?,
            None => Json::empty_object(),
        },
    })
}

/// The content of a message of this role.
fn content_of(role: Role, member: &Member<'_>) -> Result<Vec<Part>, Malformed> {
    let parts = content(member)?;
    if parts.iter().all(|part| part.fits(role)) {
        return Ok(parts);
    }
    Err(member.misplaced())
}

/// The content of a message: a string, or parts.
pub(super) fn content(content: &Member<'_>) -> Result<Vec<Part>, Malformed> {
    if content.is_text() {
        return Ok(vec![Part::Text(content.text()?)]);
    }
    let mut found = Vec::new();
    for item in content.items()? {
        let mut part = item.object()?;
        let kind = part.need("type")?;
        found.push(match kind.text()?.as_str() {
            "text" => Part::Text(part.need("text")?.text()?),
            "thinking" => thought(part.need("thinking")?.text()?),
            "image_url" => {
                let mut image = part.need("image_url")?.object()?;
                let source = source(&image.need("url")?)?;
                Part::Media(Media {
                    kind: MediaKind::Image,
                    source,
                    name: None,
                })
            }
            "document" => Part::Text(document(&part.need("document")?)?),
            _ => return Err(kind.wrong("must be text, thinking, image_url or document")),
        });
    }
    Ok(found)
}

/// What a tool found, as text: of its data the JSON.
fn document(member: &Member<'_>) -> Result<String, Malformed> {
    let data = member.object()?.need("data")?;
    if data.is_text() {
        return data.text();
    }
    Ok(data.raw().to_owned())
}

fn read_tool(member: &Member<'_>, strict: Option<bool>) -> Result<Tool, Malformed> {
    let mut tool = member.object()?;
    tool.skip(&["type"]);
    let mut function = tool.need("function")?.object()?;
    Ok(Tool {
        name: function.need("name")?.text()?,
        description: function.text("description")?,
        parameters: function.take("parameters").map(|m| m.json()),
        strict,
    })
}
