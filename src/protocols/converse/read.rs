//! Requests of Converse: read from clients.

use serde_json::Number;

use super::answer::{thought, tool_call};
use crate::protocols::Malformed;
use crate::protocols::json::{Json, Member, Object};
use crate::protocols::talk::{
    Format, Media, MediaKind, Part, Request, Role, Source, Tool, ToolChoice, ToolResult, Turn,
};

/// Reads a client's request.
pub(super) fn read(body: &[u8]) -> Result<Request, Malformed> {
    let mut top = Member::root(body)?.object()?;
    drop(top.take("fallbacks"));
    for name in ["guardrailConfig", "promptVariables"] {
        if let Some(member) = top.take(name) {
            return Err(member.wrong("cannot be passed on to this provider: leave it out"));
        }
    }
    let mut request = Request::default();
    if let Some(system) = top.take("system") {
        for item in system.items()? {
            let mut block = item.object()?;
            match block.text("text")? {
                Some(text) => request.system.push(text),
                None if block.take("cachePoint").is_some() => request.unplaced.push(item.path),
                None => return Err(item.wrong("must be a text")),
            }
            request.unplaced.extend(block.left());
        }
    }
    for item in top.need("messages")?.items()? {
        read_turn(&item, &mut request)?;
    }
    if let Some(config) = top.take("inferenceConfig") {
        inference(config.object()?, &mut request)?;
    }
    if let Some(config) = top.take("toolConfig") {
        tools(config.object()?, &mut request)?;
    }
    if let Some(config) = top.take("outputConfig") {
        let mut config = config.object()?;
        request.format = config.take("textFormat").map(format).transpose()?;
        request.unplaced.extend(config.left());
    }
    request.unplaced.extend(top.left());
    Ok(request)
}

fn inference(mut config: Object<'_>, request: &mut Request) -> Result<(), Malformed> {
    let number = |config: &mut Object<'_>, name: &str| config.read::<Number>(name, "a number");
    request.max_tokens = config.read("maxTokens", "a whole number")?;
    request.temperature = number(&mut config, "temperature")?;
    request.top_p = number(&mut config, "topP")?;
    request.stop = config
        .read("stopSequences", "a list of strings")?
        .unwrap_or_default();
    request.unplaced.extend(config.left());
    Ok(())
}

fn tools(mut config: Object<'_>, request: &mut Request) -> Result<(), Malformed> {
    for item in config.need("tools")?.items()? {
        let mut tool = item.object()?;
        if tool.take("cachePoint").is_some() {
            request.unplaced.push(item.path);
            continue;
        }
        let Some(spec) = tool.take("toolSpec") else {
            return Err(item.wrong("must be a toolSpec: this provider has no such tool"));
        };
        let mut spec = spec.object()?;
        let schema = spec.take("inputSchema").map(|member| member.object());
        request.tools.push(Tool {
            name: spec.need("name")?.text()?,
            description: spec.text("description")?,
            parameters: schema
                .transpose()?
                .and_then(|mut schema| schema.take("json"))
                .map(|json| json.json()),
            strict: spec.read("strict", "true or false")?,
        });
        request.unplaced.extend(spec.left());
    }
    if let Some(member) = config.take("toolChoice") {
        let mut choice = member.object()?;
        request.tool_choice = Some(if let Some(tool) = choice.take("tool") {
            ToolChoice::Named(tool.object()?.need("name")?.text()?)
        } else if choice.take("any").is_some() {
            ToolChoice::Required
        } else if choice.take("auto").is_some() {
            ToolChoice::Auto
        } else {
            return Err(member.wrong("must be auto, any or tool"));
        });
    }
    request.unplaced.extend(config.left());
    Ok(())
}

fn format(member: Member<'_>) -> Result<Format, Malformed> {
    let mut format = member.object()?;
    let mut structure = format.need("structure")?.object()?;
    let mut schema = structure.need("jsonSchema")?.object()?;
    let text = schema.need("schema")?;
    let json = Json::parse(&text.text()?).ok_or_else(|| text.wrong("must be the text of JSON"))?;
    Ok(Format::JsonSchema {
        name: schema.text("name")?,
        description: schema.text("description")?,
        schema: json,
        strict: None,
    })
}

fn read_turn(member: &Member<'_>, request: &mut Request) -> Result<(), Malformed> {
    let mut turn = member.object()?;
    let role = turn.need("role")?;
    let role = match role.text()?.as_str() {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        _ => return Err(role.wrong("must be user or assistant")),
    };
    let mut parts = Vec::new();
    for item in turn.need("content")?.items()? {
        parts.extend(part(&item, &mut request.unplaced)?);
    }
    request.unplaced.extend(turn.left());
    request.turns.push(Turn { role, parts });
    Ok(())
}

/// A block; none for a mark that a cache may begin.
fn part(item: &Member<'_>, unplaced: &mut Vec<String>) -> Result<Option<Part>, Malformed> {
    let mut block = item.object()?;
    if let Some(text) = block.text("text")? {
        return Ok(Some(Part::Text(text)));
    }
    if let Some(json) = block.take("json") {
        return Ok(Some(Part::Text(json.raw().to_owned())));
    }
    for (name, kind) in [
        ("image", MediaKind::Image),
        ("document", MediaKind::Document),
    ] {
        if let Some(member) = block.take(name) {
            return media(kind, &member, unplaced).map(Some);
        }
    }
    if let Some(member) = block.take("toolUse") {
        return Ok(Some(Part::ToolCall(tool_call(&member)?)));
    }
    if let Some(member) = block.take("toolResult") {
        let mut result = member.object()?;
        let mut parts = Vec::new();
        for item in result.need("content")?.items()? {
            parts.extend(part(&item, unplaced)?);
        }
        return Ok(Some(Part::ToolResult(ToolResult {
            call_id: result.need("toolUseId")?.text()?,
            parts,
            is_error: result.text("status")?.as_deref() == Some("error"),
        })));
    }
    if let Some(member) = block.take("reasoningContent") {
        return Ok(Some(Part::Thought(thought(&mut member.object()?)?)));
    }
    if block.take("cachePoint").is_some() {
        unplaced.push(item.path.clone());
        return Ok(None);
    }
    Err(item.wrong("must be text, image, document, toolUse, toolResult or reasoningContent"))
}

fn media(
    kind: MediaKind,
    member: &Member<'_>,
    unplaced: &mut Vec<String>,
) -> Result<Part, Malformed> {
    let mut medium = member.object()?;
    let format = medium.need("format")?.text()?;
    let mut source = medium.need("source")?.object()?;
    let source = if let Some(location) = source.take("s3Location") {
        Source::Url(location.object()?.need("uri")?.text()?)
    } else {
        Source::Base64 {
            media_type: media_type(kind, &format),
            data: source.need("bytes")?.text()?,
        }
    };
    let name = medium.text("name")?;
    unplaced.extend(medium.left());
    Ok(Part::Media(Media { kind, source, name }))
}

/// The formats of documents, with their media types.
const DOCUMENTS: [(&str, &str); 9] = [
    ("pdf", "application/pdf"),
    ("csv", "text/csv"),
    ("doc", "application/msword"),
    (
        "docx",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ),
    ("xls", "application/vnd.ms-excel"),
    (
        "xlsx",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ),
    ("html", "text/html"),
    ("txt", "text/plain"),
    ("md", "text/markdown"),
];

fn media_type(kind: MediaKind, format: &str) -> String {
    let document = DOCUMENTS.iter().find(|(name, _)| *name == format);
    match document {
        Some((_, media_type)) if kind == MediaKind::Document => (*media_type).to_owned(),
        Some(_) | None => format!("image/{format}"),
    }
}

/// The format that a media type is called here.
pub(super) fn format_of(kind: MediaKind, media_type: &str) -> Option<&'static str> {
    let plain = media_type.split(';').next().unwrap_or_default().trim();
    let plain = plain.to_ascii_lowercase();
    match kind {
        MediaKind::Image => match plain.as_str() {
            "image/png" => Some("png"),
            "image/jpeg" | "image/jpg" => Some("jpeg"),
            "image/gif" => Some("gif"),
            "image/webp" => Some("webp"),
            _ => None,
        },
        MediaKind::Document => DOCUMENTS
            .iter()
            .find(|(_, name)| *name == plain)
            .map(|(format, _)| *format),
        MediaKind::Audio => None,
    }
}
