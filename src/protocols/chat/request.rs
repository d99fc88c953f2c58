//! Requests of chat completions: read from clients.

use serde_json::Number;

use crate::protocols::Malformed;
use crate::protocols::json::{Json, Member, Object};
use crate::protocols::talk::{
    Effort, Format, Media, MediaKind, Part, Reasoning, Request, Role, Source, Thought, Tool,
    ToolCall, ToolChoice, ToolResult, Turn,
};

/// Members that the gateway has read already, or that are its own.
const DEALT_WITH: [&str; 3] = ["model", "stream", "fallbacks"];

/// Reads a client's request.
pub(super) fn read(body: &[u8]) -> Result<Request, Malformed> {
    Request::read(body, members)
}

fn members(top: &mut Object<'_>) -> Result<Request, Malformed> {
    top.skip(&DEALT_WITH);
    if let Some(options) = top.take("stream_options") {
        options.object()?.skip(&["include_usage"]);
    }
    refuse_what_has_no_counterpart(top)?;
    let mut request = Request {
        max_tokens: max_tokens(top)?,
        temperature: number(top, "temperature")?,
        top_p: number(top, "top_p")?,
        top_k: top.count("top_k")?,
        seed: top.read("seed", "a whole number")?,
        frequency_penalty: number(top, "frequency_penalty")?,
        presence_penalty: number(top, "presence_penalty")?,
        parallel_tool_calls: top.read("parallel_tool_calls", "true or false")?,
        stop: stop(top)?,
        format: format(top)?,
        reasoning: reasoning(top)?,
        user: top.text("user")?,
        ..Request::default()
    };
    for message in top.need("messages")?.items()? {
        read_message(&message, &mut request)?;
    }
    if let Some(tools) = top.take("tools") {
        for tool in tools.items()? {
            request.tools.push(read_tool(&tool)?);
        }
    }
    request.tool_choice = top.take("tool_choice").map(tool_choice).transpose()?;
    Ok(request)
}

fn number(object: &mut Object<'_>, name: &str) -> Result<Option<Number>, Malformed> {
    object.read(name, "a number")
}

fn refuse_what_has_no_counterpart(top: &mut Object<'_>) -> Result<(), Malformed> {
    let n = top.read::<Number>("n", "a whole number")?;
    if n.is_some_and(|n| n.as_f64() != Some(1.0)) {
        return Err(Malformed::at(
            "n",
            "must be 1: this provider gives one choice",
        ));
    }
    if top.read::<bool>("logprobs", "true or false")? == Some(true) {
        let message = "cannot be had from this provider: leave it out";
        return Err(Malformed::at("logprobs", message));
    }
    let modalities: Option<Vec<String>> = top.read("modalities", "a list of names")?;
    if modalities.is_some_and(|all| all.iter().any(|one| one != "text")) {
        let message = "can only be [\"text\"] with this provider";
        return Err(Malformed::at("modalities", message));
    }
    for (name, instead) in [
        ("functions", "use `tools`"),
        ("function_call", "use `tool_choice`"),
        ("audio", "leave it out"),
        ("web_search_options", "leave it out"),
    ] {
        if top.take(name).is_some() {
            let message = format!("cannot be passed on to this provider: {instead}");
            return Err(Malformed::at(name, message));
        }
    }
    Ok(())
}

fn max_tokens(top: &mut Object<'_>) -> Result<Option<u64>, Malformed> {
    match top.count("max_completion_tokens")? {
        Some(newer) => Ok(Some(newer)),
        None => top.count("max_tokens"),
    }
}

fn stop(top: &mut Object<'_>) -> Result<Vec<String>, Malformed> {
    match top.take("stop") {
        None => Ok(Vec::new()),
        Some(one) if one.is_text() => Ok(vec![one.text()?]),
        Some(list) => list.read("a string or a list of strings"),
    }
}

fn format(top: &mut Object<'_>) -> Result<Option<Format>, Malformed> {
    let Some(member) = top.take("response_format") else {
        return Ok(None);
    };
    let mut format = member.object()?;
    let kind = format.need("type")?;
    match kind.text()?.as_str() {
        "text" => Ok(None),
        "json_object" => Ok(Some(Format::JsonObject)),
        "json_schema" => {
            let mut schema = format.need("json_schema")?.object()?;
            Ok(Some(Format::JsonSchema {
                name: schema.text("name")?,
                description: schema.text("description")?,
                strict: schema.read("strict", "true or false")?,
                schema: schema.need("schema")?.json(),
            }))
        }
        _ => Err(kind.wrong("must be text, json_object or json_schema")),
    }
}

/// `reasoning_effort`, or `reasoning` with `effort` or `max_tokens` as several gateways have it.
fn reasoning(top: &mut Object<'_>) -> Result<Option<Reasoning>, Malformed> {
    let member = top.take("reasoning_effort");
    if let Some(effort) = member {
        return effort_named(&effort).map(Some);
    }
    let Some(member) = top.take("reasoning") else {
        return Ok(None);
    };
    let mut reasoning = member.object()?;
    if let Some(tokens) = reasoning.count("max_tokens")? {
        return Ok(Some(Reasoning::Budget(tokens)));
    }
    let enabled = reasoning.read::<bool>("enabled", "true or false")?;
    match reasoning.take("effort") {
        Some(effort) => effort_named(&effort).map(Some),
        None if enabled == Some(false) => Ok(Some(Reasoning::Off)),
        None => Ok(enabled.map(|_| Reasoning::Adaptive)),
    }
}

fn effort_named(member: &Member<'_>) -> Result<Reasoning, Malformed> {
    let effort = match member.text()?.as_str() {
        "none" => return Ok(Reasoning::Off),
        "minimal" => Effort::Minimal,
        "low" => Effort::Low,
        "medium" => Effort::Medium,
        "high" => Effort::High,
        "xhigh" | "max" => Effort::Max,
        _ => return Err(member.wrong("must be none, minimal, low, medium, high or xhigh")),
    };
    Ok(Reasoning::Effort(effort))
}

fn read_message(member: &Member<'_>, request: &mut Request) -> Result<(), Malformed> {
    let mut message = member.object()?;
    let role = message.need("role")?;
    let (role, parts) = match role.text()?.as_str() {
        "system" | "developer" => {
            let content = message.need("content")?;
            for part in parts(&content)? {
                match part {
                    Part::Text(text) => request.system.push(text),
                    Part::Media(_) | Part::Thought(_) | Part::ToolCall(_) | Part::ToolResult(_) => {
                        return Err(content.wrong("can only be text for this role"));
                    }
                }
            }
            return Ok(());
        }
        "user" => (Role::User, parts_of(Role::User, &message.need("content")?)?),
        "assistant" => (Role::Assistant, assistant(&mut message)?),
        "tool" => {
            let result = ToolResult {
                call_id: message.need("tool_call_id")?.text()?,
                parts: parts_of(Role::User, &message.need("content")?)?,
                is_error: false,
            };
            (Role::User, vec![Part::ToolResult(result)])
        }
        _ => return Err(role.wrong("must be system, developer, user, assistant or tool")),
    };
    request.turns.push(Turn { role, parts });
    Ok(())
}

fn assistant(message: &mut Object<'_>) -> Result<Vec<Part>, Malformed> {
    let mut found = thoughts(message)?;
    if let Some(content) = message.take("content") {
        let said = parts_of(Role::Assistant, &content)?.into_iter();
        // An assistant that only calls tools has an empty text in many clients.
        found.extend(said.filter(|part| *part != Part::Text(String::new())));
    }
    if let Some(refusal) = message.text("refusal")?.filter(|r| !r.is_empty()) {
        found.push(Part::Text(refusal));
    }
    if let Some(call) = message.take("function_call") {
        return Err(call.wrong("cannot be passed on to this provider: use `tool_calls`"));
    }
    if let Some(calls) = message.take("tool_calls") {
        for call in calls.items()? {
            found.push(Part::ToolCall(tool_call(&call)?));
        }
    }
    Ok(found)
}

/// A call as answers and requests have it.
pub(super) fn tool_call(member: &Member<'_>) -> Result<ToolCall, Malformed> {
    let mut call = member.object()?;
    let mut function = call.need("function")?.object()?;
    let id = call.text("id")?.unwrap_or_default();
    // What else it could be has no `function`; its place is that in the list.
    call.skip(&["type", "index"]);
    Ok(ToolCall {
        id,
        name: function.need("name")?.text()?,
        arguments: match function.take("arguments") {
            Some(arguments) => arguments_of(&arguments)?,
            None => Json::empty_object(),
        },
    })
}

/// JSON text in a string; some providers give the object itself.
pub(in crate::protocols) fn arguments_of(member: &Member<'_>) -> Result<Json, Malformed> {
    let json = if !member.is_text() {
        member.json()
    } else if member.text()?.trim().is_empty() {
        Json::empty_object()
    } else {
        member.json_text("a JSON object")?
    };
    if json.is_object() {
        return Ok(json);
    }
    Err(member.wrong("must be the text of a JSON object"))
}

/// Reasoning of a message: sealed or not.
pub(super) fn thoughts(message: &mut Object<'_>) -> Result<Vec<Part>, Malformed> {
    let details = message.take("reasoning_details");
    let Some(details) = details.filter(Member::is_list) else {
        let content = message.take("reasoning_content");
        let plain = content.or_else(|| message.take("reasoning"));
        let text = plain
            .filter(Member::is_text)
            .map(|m| m.text())
            .transpose()?;
        let text = text.filter(|text| !text.is_empty());
        return Ok(text.map(thought).into_iter().collect());
    };
    // The same once more, without its seals.
    message.skip(&["reasoning_content", "reasoning"]);
    let mut found = Vec::new();
    for detail in details.items()? {
        let mut detail = detail.object()?;
        detail.skip(&["type", "index", "format", "id"]);
        let redacted = detail.text("data")?;
        let text = match detail.text("text")? {
            Some(text) => Some(text),
            None => detail.text("summary")?,
        };
        found.push(Part::Thought(Thought {
            text: text.unwrap_or_default(),
            signature: detail.text("signature")?,
            redacted,
        }));
    }
    Ok(found)
}

fn thought(text: String) -> Part {
    Part::Thought(Thought {
        text,
        ..Thought::default()
    })
}

/// The content of a message of this role.
fn parts_of(role: Role, content: &Member<'_>) -> Result<Vec<Part>, Malformed> {
    let parts = parts(content)?;
    if parts.iter().all(|part| part.fits(role)) {
        return Ok(parts);
    }
    Err(content.misplaced())
}

/// The content of a message: a string, or parts.
pub(super) fn parts(content: &Member<'_>) -> Result<Vec<Part>, Malformed> {
    if content.is_text() {
        return Ok(vec![Part::Text(content.text()?)]);
    }
    if !content.is_list() {
        return Err(content.wrong("must be a string or a list of parts"));
    }
    let mut found = Vec::new();
    for item in content.items()? {
        let mut part = item.object()?;
        let kind = part.need("type")?;
        found.push(match kind.text()?.as_str() {
            "text" => Part::Text(part.need("text")?.text()?),
            "refusal" => Part::Text(part.need("refusal")?.text()?),
            // As Mistral has it.
            "thinking" => thinking(&mut part)?,
            "image_url" => {
                let member = part.need("image_url")?;
                let source = if member.is_text() {
                    source(&member)?
                } else {
                    let mut image = member.object()?;
                    source(&image.need("url")?)?
                };
                media(MediaKind::Image, source, None)
            }
            "input_audio" => {
                let mut audio = part.need("input_audio")?.object()?;
                let format = audio.need("format")?.text()?;
                let media_type = format!("audio/{format}");
                let data = audio.need("data")?.text()?;
                media(MediaKind::Audio, Source::Base64 { media_type, data }, None)
            }
            "file" => {
                let member = part.need("file")?;
                let mut file = member.object()?;
                let Some(data) = file.take("file_data") else {
                    return Err(member.wrong(
                        "must have `file_data`: this provider does not know the file's id",
                    ));
                };
                media(
                    MediaKind::Document,
                    file_data(&data)?,
                    file.text("filename")?,
                )
            }
            _ => return Err(kind.wrong("must be text, image_url, input_audio or file")),
        });
    }
    Ok(found)
}

fn thinking(part: &mut Object<'_>) -> Result<Part, Malformed> {
    let mut text = String::new();
    for piece in part.need("thinking")?.items()? {
        let mut piece = piece.object()?;
        piece.skip(&["type"]);
        text.push_str(&piece.text("text")?.unwrap_or_default());
    }
    Ok(thought(text))
}

fn media(kind: MediaKind, source: Source, name: Option<String>) -> Part {
    Part::Media(Media { kind, source, name })
}

/// A URL, or the bytes that a `data:` URL holds.
pub(in crate::protocols) fn source(member: &Member<'_>) -> Result<Source, Malformed> {
    let url = member.text()?;
    let Some(data) = in_data_url(&url) else {
        return Ok(Source::Url(url));
    };
    let parts = data.split_once(";base64,");
    let (media_type, data) =
        parts.ok_or_else(|| member.wrong("must hold base64: data:TYPE;base64,…"))?;
    // Providers know types without parameters only.
    let media_type = media_type.split(';').next().unwrap_or_default();
    Ok(Source::Base64 {
        media_type: media_type.trim().to_ascii_lowercase(),
        data: data.to_owned(),
    })
}

/// What stands behind `data:`, however that is written.
fn in_data_url(url: &str) -> Option<&str> {
    let (scheme, data) = url.split_once(':')?;
    scheme.eq_ignore_ascii_case("data").then_some(data)
}

/// A file's URL; bare base64 is taken for a PDF, as OpenAI does.
pub(in crate::protocols) fn file_data(member: &Member<'_>) -> Result<Source, Malformed> {
    let data = member.text()?;
    if data.contains(':') {
        return source(member);
    }
    Ok(Source::Base64 {
        media_type: "application/pdf".to_owned(),
        data,
    })
}

fn read_tool(member: &Member<'_>) -> Result<Tool, Malformed> {
    let mut tool = member.object()?;
    let kind = tool.need("type")?;
    if kind.text()? != "function" {
        return Err(kind.wrong("must be \"function\": this provider has no such tool"));
    }
    let mut function = tool.need("function")?.object()?;
    let read = Tool {
        name: function.need("name")?.text()?,
        description: function.text("description")?,
        parameters: function.take("parameters").map(|m| m.json()),
        strict: function.read("strict", "true or false")?,
    };
    Ok(read)
}

fn tool_choice(member: Member<'_>) -> Result<ToolChoice, Malformed> {
    if !member.is_text() {
        let mut choice = member.object()?;
        if let Some(kind) = choice.take("type")
            && kind.text()? != "function"
        {
            return Err(kind.wrong("must be \"function\": this provider has no such choice"));
        }
        let mut function = choice.need("function")?.object()?;
        return Ok(ToolChoice::Named(function.need("name")?.text()?));
    }
    match member.text()?.as_str() {
        "auto" => Ok(ToolChoice::Auto),
        "none" => Ok(ToolChoice::None),
        "required" => Ok(ToolChoice::Required),
        _ => Err(member.wrong("must be auto, none, required or a function")),
    }
}
