//! Requests of messages: read from clients.

use crate::protocols::Malformed;
use crate::protocols::json::{Member, Object};
use crate::protocols::talk::{
    Effort, Format, Media, MediaKind, Part, Reasoning, Request, Role, Source, Thought, Tool,
    ToolCall, ToolChoice, ToolResult, Turn,
};

/// Members that the gateway has read already, or that are its own.
const DEALT_WITH: [&str; 3] = ["model", "stream", "fallbacks"];

/// A conversation that the provider keeps.
pub(super) const THREAD: &str = "thread";

/// Reads a client's request.
pub(super) fn read(body: &[u8]) -> Result<Request, Malformed> {
    Request::read(body, members)
}

fn members(top: &mut Object<'_>) -> Result<Request, Malformed> {
    top.skip(&DEALT_WITH);
    for name in ["mcp_servers", "container"] {
        if top.take(name).is_some() {
            let message = "cannot be passed on to this provider: leave it out";
            return Err(Malformed::at(name, message));
        }
    }
    // Taken for a new conversation, what goes on with one would lose all that was said before.
    if top.take(THREAD).is_some() {
        let message = "is kept by Anthropic alone: send all messages, without it";
        return Err(Malformed::at(THREAD, message));
    }
    let mut request = Request {
        max_tokens: top.count("max_tokens")?,
        temperature: top.read("temperature", "a number")?,
        top_p: top.read("top_p", "a number")?,
        top_k: top.count("top_k")?,
        stop: top
            .read("stop_sequences", "a list of strings")?
            .unwrap_or_default(),
        ..Request::default()
    };
    if let Some(system) = top.take("system") {
        request.system = system_texts(&system)?;
    }
    for message in top.need("messages")?.items()? {
        read_message(&message, &mut request)?;
    }
    if let Some(tools) = top.take("tools") {
        for tool in tools.items()? {
            request.tools.push(read_tool(&tool)?);
        }
    }
    if let Some(choice) = top.take("tool_choice") {
        tool_choice(&choice, &mut request)?;
    }
    output(top, &mut request)?;
    if let Some(metadata) = top.take("metadata") {
        let mut metadata = metadata.object()?;
        request.user = metadata.text("user_id")?;
    }
    Ok(request)
}

/// `thinking`, `output_config`, and the older `output_format`.
fn output(top: &mut Object<'_>, request: &mut Request) -> Result<(), Malformed> {
    let mut effort = None;
    if let Some(config) = top.take("output_config") {
        let mut config = config.object()?;
        let format = config.take("format");
        request.format = format.map(|format| read_format(&format)).transpose()?;
        effort = config.take("effort");
    }
    if request.format.is_none() {
        let format = top.take("output_format");
        request.format = format.map(|format| read_format(&format)).transpose()?;
    }
    if let Some(effort) = &effort {
        request.reasoning = Some(Reasoning::Effort(effort_named(effort)?));
    }
    let Some(member) = top.take("thinking") else {
        return Ok(());
    };
    match (reasoning(&member)?, &effort) {
        (Reasoning::Adaptive, Some(_)) => {}
        (exactly, effort) => {
            request.reasoning = Some(exactly);
            // A count of tokens says more than a word.
            if let Some(effort) = effort {
                effort.not_passed_on();
            }
        }
    }
    Ok(())
}

/// `thinking`, as Bedrock has it too.
pub(in crate::protocols) fn reasoning(member: &Member<'_>) -> Result<Reasoning, Malformed> {
    let mut thinking = member.object()?;
    let kind = thinking.need("type")?;
    match kind.text()?.as_str() {
        "enabled" => {
            let tokens = thinking.need("budget_tokens")?.count()?;
            Ok(Reasoning::Budget(tokens))
        }
        "adaptive" => Ok(Reasoning::Adaptive),
        "disabled" => Ok(Reasoning::Off),
        _ => Err(kind.wrong("must be enabled, adaptive or disabled")),
    }
}

fn effort_named(member: &Member<'_>) -> Result<Effort, Malformed> {
    match member.text()?.as_str() {
        "low" => Ok(Effort::Low),
        "medium" => Ok(Effort::Medium),
        "high" => Ok(Effort::High),
        "xhigh" | "max" => Ok(Effort::Max),
        _ => Err(member.wrong("must be low, medium, high or max")),
    }
}

fn read_format(member: &Member<'_>) -> Result<Format, Malformed> {
    let mut format = member.object()?;
    let kind = format.need("type")?;
    if kind.text()? != "json_schema" {
        return Err(kind.wrong("must be json_schema"));
    }
    Ok(Format::JsonSchema {
        name: format.text("name")?,
        description: None,
        schema: format.need("schema")?.json(),
        strict: Some(true),
    })
}

fn system_texts(member: &Member<'_>) -> Result<Vec<String>, Malformed> {
    if member.is_text() {
        return Ok(vec![member.text()?]);
    }
    let mut texts = Vec::new();
    for item in member.items()? {
        let mut block = item.object()?;
        let kind = block.need("type")?;
        if kind.text()? != "text" {
            return Err(kind.wrong("must be text"));
        }
        texts.push(block.need("text")?.text()?);
    }
    Ok(texts)
}

fn read_message(member: &Member<'_>, request: &mut Request) -> Result<(), Malformed> {
    let mut message = member.object()?;
    let role = message.need("role")?;
    let content = message.need("content")?;
    let role = match role.text()?.as_str() {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        // Instructions between turns, a beta of 2026 that coding agents use.
        "system" => {
            request.system.extend(system_texts(&content)?);
            return Ok(());
        }
        _ => return Err(role.wrong("must be user, assistant or system")),
    };
    let parts = blocks(&content, role)?;
    request.turns.push(Turn { role, parts });
    Ok(())
}

fn blocks(content: &Member<'_>, role: Role) -> Result<Vec<Part>, Malformed> {
    if content.is_text() {
        return Ok(vec![Part::Text(content.text()?)]);
    }
    if !content.is_list() {
        return Err(content.wrong("must be a string or a list of blocks"));
    }
    let items = content.items()?.into_iter();
    items.map(|item| block(&item, role)).collect()
}

fn block(item: &Member<'_>, role: Role) -> Result<Part, Malformed> {
    let mut block = item.object()?;
    let kind = block.need("type")?;
    let part = match (kind.text()?.as_str(), role) {
        ("text", _) => Part::Text(block.need("text")?.text()?),
        ("image", Role::User) => {
            let source = source(&block.need("source")?)?;
            media(MediaKind::Image, source, None)
        }
        ("document", Role::User) => document(&mut block)?,
        ("thinking", Role::Assistant) => Part::Thought(Thought {
            text: block.need("thinking")?.text()?,
            // What was never sealed is shown to clients with an empty one.
            signature: block.text("signature")?.filter(|seal| !seal.is_empty()),
            redacted: None,
        }),
        ("redacted_thinking", Role::Assistant) => Part::Thought(Thought {
            redacted: Some(block.need("data")?.text()?),
            ..Thought::default()
        }),
        ("tool_use", Role::Assistant) => {
            let arguments = block.need("input")?.json_object()?;
            Part::ToolCall(ToolCall {
                id: block.need("id")?.text()?,
                name: block.need("name")?.text()?,
                arguments,
            })
        }
        ("tool_result", Role::User) => Part::ToolResult(ToolResult {
            call_id: block.need("tool_use_id")?.text()?,
            parts: match block.take("content") {
                Some(content) => result(&content)?,
                None => Vec::new(),
            },
            is_error: block.read("is_error", "true or false")?.unwrap_or(false),
        }),
        _ => {
            let message = "is a block that cannot be passed on to this provider";
            return Err(kind.wrong(message));
        }
    };
    Ok(part)
}

/// What a tool's result holds.
fn result(content: &Member<'_>) -> Result<Vec<Part>, Malformed> {
    let parts = blocks(content, Role::User)?;
    if parts.iter().all(Part::fits_result) {
        return Ok(parts);
    }
    Err(content.misplaced())
}

/// A text file is as good as text; the rest is a medium.
fn document(block: &mut Object<'_>) -> Result<Part, Malformed> {
    let mut source = block.need("source")?.object()?;
    let kind = source.need("type")?;
    if kind.text()? == "text" {
        source.skip(&["media_type"]);
        return Ok(Part::Text(source.need("data")?.text()?));
    }
    let source = source_of(&kind, &mut source)?;
    Ok(media(MediaKind::Document, source, block.text("title")?))
}

fn media(kind: MediaKind, source: Source, name: Option<String>) -> Part {
    Part::Media(Media { kind, source, name })
}

fn source(member: &Member<'_>) -> Result<Source, Malformed> {
    let mut source = member.object()?;
    let kind = source.need("type")?;
    source_of(&kind, &mut source)
}

fn source_of(kind: &Member<'_>, source: &mut Object<'_>) -> Result<Source, Malformed> {
    match kind.text()?.as_str() {
        "base64" => Ok(Source::Base64 {
            media_type: source.need("media_type")?.text()?,
            data: source.need("data")?.text()?,
        }),
        "url" => Ok(Source::Url(source.need("url")?.text()?)),
        _ => Err(kind.wrong("must be base64 or url: this provider does not know other sources")),
    }
}

fn read_tool(member: &Member<'_>) -> Result<Tool, Malformed> {
    let mut tool = member.object()?;
    if let Some(kind) = tool.take("type")
        && kind.text()? != "custom"
    {
        return Err(kind.wrong("must be \"custom\": this provider has no such tool"));
    }
    let read = Tool {
        name: tool.need("name")?.text()?,
        description: tool.text("description")?,
        parameters: tool.take("input_schema").map(|m| m.json()),
        strict: tool.read("strict", "true or false")?,
    };
    Ok(read)
}

fn tool_choice(member: &Member<'_>, request: &mut Request) -> Result<(), Malformed> {
    let mut choice = member.object()?;
    let kind = choice.need("type")?;
    request.tool_choice = Some(match kind.text()?.as_str() {
        "auto" => ToolChoice::Auto,
        "any" => ToolChoice::Required,
        "none" => ToolChoice::None,
        "tool" => ToolChoice::Named(choice.need("name")?.text()?),
        _ => return Err(kind.wrong("must be auto, any, tool or none")),
    });
    let disabled: Option<bool> = choice.read("disable_parallel_tool_use", "true or false")?;
    request.parallel_tool_calls = disabled.map(|disabled| !disabled);
    Ok(())
}
