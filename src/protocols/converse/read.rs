//! Requests of Converse: read from clients.

use serde_json::Number;

use super::answer::{thought, tool_call};
use crate::protocols::Malformed;
use crate::protocols::json::{Member, Object};
use crate::protocols::messages::reasoning;
use crate::protocols::talk::{
    Format, Media, MediaKind, Part, Request, Role, Source, Tool, ToolChoice, ToolResult, Turn,
};

/// Reads a client's request.
pub(super) fn read(body: &[u8]) -> Result<Request, Malformed> {
    Request::read(body, members)
}

fn members(top: &mut Object<'_>) -> Result<Request, Malformed> {
    top.skip(&["fallbacks"]);
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
                None if block.has("cachePoint") => {}
                None => return Err(item.wrong("must be a text")),
            }
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
    if let Some(more) = top.take("additionalModelRequestFields") {
        of_vendor(more.object()?, &mut request)?;
    }
    if let Some(config) = top.take("outputConfig") {
        let mut config = config.object()?;
        request.format = config.take("textFormat").map(format).transpose()?;
    }
    Ok(request)
}

/// What Anthropic's models are told beyond the protocol. All else is only its vendor's.
fn of_vendor(mut more: Object<'_>, request: &mut Request) -> Result<(), Malformed> {
    request.top_k = more.count("top_k")?;
    request.reasoning = more
        .take("thinking")
        .map(|member| reasoning(&member))
        .transpose()?;
    Ok(())
}

fn inference(mut config: Object<'_>, request: &mut Request) -> Result<(), Malformed> {
    let number = |config: &mut Object<'_>, name: &str| config.read::<Number>(name, "a number");
    request.max_tokens = config.count("maxTokens")?;
    request.temperature = number(&mut config, "temperature")?;
    request.top_p = number(&mut config, "topP")?;
    request.stop = config
        .read("stopSequences", "a list of strings")?
        .unwrap_or_default();
    Ok(())
}

fn tools(mut config: Object<'_>, request: &mut Request) -> Result<(), Malformed> {
    for item in config.need("tools")?.items()? {
        let mut tool = item.object()?;
        if tool.has("cachePoint") {
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
    }
    if let Some(member) = config.take("toolChoice") {
        let mut choice = member.object()?;
        request.tool_choice = Some(if let Some(tool) = choice.take("tool") {
            ToolChoice::Named(tool.object()?.need("name")?.text()?)
        } else if let Some(any) = choice.take("any") {
            any.object()?;
            ToolChoice::Required
        } else if let Some(auto) = choice.take("auto") {
            auto.object()?;
            ToolChoice::Auto
        } else {
            return Err(member.wrong("must be auto, any or tool"));
        });
    }
    Ok(())
}

fn format(member: Member<'_>) -> Result<Format, Malformed> {
    let mut format = member.object()?;
    format.skip(&["type"]);
    let mut structure = format.need("structure")?.object()?;
    let mut schema = structure.need("jsonSchema")?.object()?;
    Ok(Format::JsonSchema {
        name: schema.text("name")?,
        description: schema.text("description")?,
        schema: schema.need("schema")?.json_text("JSON")?,
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
        let found = part(&item)?;
        if found.as_ref().is_some_and(|part| !part.fits(role)) {
            return Err(item.misplaced());
        }
        parts.extend(found);
    }
    request.turns.push(Turn { role, parts });
    Ok(())
}

/// A block; none for a mark that a cache may begin.
fn part(item: &Member<'_>) -> Result<Option<Part>, Malformed> {
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
            return media(kind, &member).map(Some);
        }
    }
    if let Some(member) = block.take("toolUse") {
        return Ok(Some(Part::ToolCall(tool_call(&member)?)));
    }
    if let Some(member) = block.take("toolResult") {
        let mut result = member.object()?;
        let mut parts = Vec::new();
        for item in result.need("content")?.items()? {
            let found = part(&item)?;
            if found.as_ref().is_some_and(|part| !part.fits_result()) {
                return Err(item.misplaced());
            }
            parts.extend(found);
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
    if block.has("cachePoint") {
        return Ok(None);
    }
    Err(item.wrong("must be text, image, document, toolUse, toolResult or reasoningContent"))
}

fn media(kind: MediaKind, member: &Member<'_>) -> Result<Part, Malformed> {
    let mut medium = member.object()?;
    let format = medium.need("format")?.text()?;
    let mut source = medium.need("source")?.object()?;
    if let Some(location) = source.take("s3Location") {
        return Err(location.wrong("can be read by Bedrock alone: send the bytes"));
    }
    let source = Source::Base64 {
        media_type: media_type(kind, &format),
        data: source.need("bytes")?.text()?,
    };
    let name = medium.text("name")?;
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
