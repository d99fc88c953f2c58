//! Requests of responses: read from clients.

use serde_json::Number;

use super::text_tool;
use crate::protocols::Malformed;
use crate::protocols::chat::{file_data, source};
use crate::protocols::json::{Json, Member, Object};
use crate::protocols::talk::{
    Effort, Format, Media, MediaKind, Part, Reasoning, Request, Role, Source, Thought, Tool,
    ToolCall, ToolChoice, ToolResult, Turn,
};

/// Members that the gateway has read already, or that are its own.
const DEALT_WITH: [&str; 3] = ["model", "stream", "fallbacks"];

/// What names something that only OpenAI keeps.
const KEPT_BY_OPENAI: [&str; 3] = ["previous_response_id", "conversation", "prompt"];

/// Tools that a model may use unasked, and that coding agents offer beside their functions: OpenAI runs the
/// first three, the last is a list of functions with a name of its own, which calls would have to tell.
const BESIDE_FUNCTIONS: [&str; 4] = ["web_search", "image_generation", "tool_search", "namespace"];

/// What makes OpenAI keep or do something, when it is true.
const DONE_BY_OPENAI: [&str; 2] = ["store", "background"];

/// Reads a client's request.
pub(super) fn read(body: &[u8]) -> Result<Request, Malformed> {
    Request::read(body, members)
}

fn members(top: &mut Object<'_>) -> Result<Request, Malformed> {
    top.skip(&DEALT_WITH);
    refuse_what_only_openai_knows(top)?;
    let mut request = Request {
        max_tokens: top.count("max_output_tokens")?,
        temperature: top.read("temperature", "a number")?,
        top_p: top.read("top_p", "a number")?,
        parallel_tool_calls: top.read("parallel_tool_calls", "true or false")?,
        user: top.text("user")?,
        ..Request::default()
    };
    request.system.extend(top.text("instructions")?);
    items(&top.need("input")?, &mut request)?;
    if let Some(tools) = top.take("tools") {
        read_tools(&tools.items()?, &mut request)?;
    }
    request.tool_choice = top.take("tool_choice").map(tool_choice).transpose()?;
    if let Some(text) = top.take("text") {
        let mut text = text.object()?;
        request.format = text.take("format").map(format).transpose()?.flatten();
    }
    if let Some(reasoning) = top.take("reasoning") {
        let mut reasoning = reasoning.object()?;
        let effort = reasoning.take("effort");
        request.reasoning = effort.map(|effort| effort_named(&effort)).transpose()?;
        // What the provider shows of its reasoning is passed on, asked for or not.
        reasoning.skip(&["summary", "generate_summary"]);
    }
    Ok(request)
}

fn refuse_what_only_openai_knows(top: &mut Object<'_>) -> Result<(), Malformed> {
    for name in KEPT_BY_OPENAI {
        if top.take(name).is_some() {
            let message =
                "names something that OpenAI keeps: this provider needs all of it in `input`";
            return Err(Malformed::at(name, message));
        }
    }
    for name in DONE_BY_OPENAI {
        if top.read::<bool>(name, "true or false")? == Some(true) {
            let message = "can only be true with OpenAI: leave it out or send false";
            return Err(Malformed::at(name, message));
        }
    }
    let logprobs = top.read::<Number>("top_logprobs", "a whole number")?;
    if logprobs.is_some_and(|n| n.as_f64() != Some(0.0)) {
        let message = "cannot be had from this provider: leave it out";
        return Err(Malformed::at("top_logprobs", message));
    }
    let truncation = top.text("truncation")?;
    if truncation.is_some_and(|truncation| truncation != "disabled") {
        let message = "can only be \"disabled\" with this provider: send what fits";
        return Err(Malformed::at("truncation", message));
    }
    let Some(include) = top.take("include") else {
        return Ok(());
    };
    for item in include.items()? {
        // Sealed reasoning comes with every answer that has some.
        if item.text()? != "reasoning.encrypted_content" {
            return Err(item.wrong("cannot be had from this provider: leave it out"));
        }
    }
    Ok(())
}

/// `input`: a user's text, or items.
fn items(input: &Member<'_>, request: &mut Request) -> Result<(), Malformed> {
    if input.is_text() {
        request.turns.push(Turn {
            role: Role::User,
            parts: vec![Part::Text(input.text()?)],
        });
        return Ok(());
    }
    if !input.is_list() {
        return Err(input.wrong("must be a string or a list of items"));
    }
    for item in input.items()? {
        read_item(&item, request)?;
    }
    Ok(())
}

fn read_item(member: &Member<'_>, request: &mut Request) -> Result<(), Malformed> {
    let mut item = member.object()?;
    // They only tell one item of an answer from another.
    item.skip(&["id", "status"]);
    let kind = item.take("type");
    let name = kind.as_ref().map(Member::text).transpose()?;
    match name.as_deref() {
        None | Some("message") => message(&mut item, request)?,
        Some("function_call") => {
            let call = Part::ToolCall(ToolCall {
                id: item.need("call_id")?.text()?,
                name: item.need("name")?.text()?,
                arguments: arguments_of(&item.need("arguments")?)?,
            });
            add(request, Role::Assistant, vec![call]);
        }
        Some("custom_tool_call") => {
            let call = Part::ToolCall(ToolCall {
                id: item.need("call_id")?.text()?,
                name: item.need("name")?.text()?,
                arguments: text_tool::arguments(&item.need("input")?.text()?),
            });
            add(request, Role::Assistant, vec![call]);
        }
        Some("function_call_output" | "custom_tool_call_output") => {
            let result = Part::ToolResult(ToolResult {
                call_id: item.need("call_id")?.text()?,
                parts: parts(&item.need("output")?)?,
                is_error: false,
            });
            add_result(request, result);
        }
        Some("reasoning") => {
            let thought = thought(&mut item)?;
            add(request, Role::Assistant, vec![Part::Thought(thought)]);
        }
        Some(other) => {
            let message = if other == "item_reference" {
                "names an item that only OpenAI would keep: this provider needs the item itself, \
                 which clients send when they are told `store: false`"
            } else {
                "must be message, function_call, custom_tool_call, the output of one of both, or \
                 reasoning: this provider knows no other items"
            };
            return Err(kind.unwrap_or_else(|| member.clone()).wrong(message));
        }
    }
    Ok(())
}

fn message(item: &mut Object<'_>, request: &mut Request) -> Result<(), Malformed> {
    let role = item.need("role")?;
    let content = item.need("content")?;
    let found = parts(&content)?;
    match role.text()?.as_str() {
        "system" | "developer" => {
            for part in found {
                match part {
                    Part::Text(text) => request.system.push(text),
                    Part::Media(_) | Part::Thought(_) | Part::ToolCall(_) | Part::ToolResult(_) => {
                        return Err(content.wrong("can only be text for this role"));
                    }
                }
            }
        }
        "user" => request.turns.push(Turn {
            role: Role::User,
            parts: found,
        }),
        "assistant" => {
            let is_media = |part: &Part| matches!(part, Part::Media(_));
            if found.iter().any(is_media) {
                return Err(content.wrong("can only be text for this role"));
            }
            let said = found.into_iter();
            let said = said.filter(|part| *part != Part::Text(String::new()));
            add(request, Role::Assistant, said.collect());
        }
        _ => return Err(role.wrong("must be user, assistant, system or developer")),
    }
    Ok(())
}

/// What the model did in one go stands in several items: one turn.
fn add(request: &mut Request, role: Role, parts: Vec<Part>) {
    if parts.is_empty() {
        return;
    }
    match request.turns.last_mut().filter(|turn| turn.role == role) {
        Some(turn) => turn.parts.extend(parts),
        None => request.turns.push(Turn { role, parts }),
    }
}

/// Results of calls that were made together belong together; a user's words do not.
fn add_result(request: &mut Request, result: Part) {
    let only_results = |turn: &&mut Turn| {
        let mut parts = turn.parts.iter();
        turn.role == Role::User && parts.all(|part| matches!(part, Part::ToolResult(_)))
    };
    match request.turns.last_mut().filter(only_results) {
        Some(turn) => turn.parts.push(result),
        None => request.turns.push(Turn {
            role: Role::User,
            parts: vec![result],
        }),
    }
}

/// A reasoning item of a request or of an answer.
pub(super) fn thought(item: &mut Object<'_>) -> Result<Thought, Malformed> {
    let mut texts = Vec::new();
    for name in ["summary", "content"] {
        let Some(pieces) = item.take(name) else {
            continue;
        };
        for piece in pieces.items()? {
            let mut piece = piece.object()?;
            piece.skip(&["type"]);
            texts.extend(piece.text("text")?);
        }
    }
    let seal = item.text("encrypted_content")?;
    Ok(Thought::sealed(texts.join("\n\n"), seal))
}

/// The text of an object, as models write it.
pub(super) fn arguments_of(member: &Member<'_>) -> Result<Json, Malformed> {
    if member.text()?.trim().is_empty() {
        return Ok(Json::empty_object());
    }
    let json = member.json_text("a JSON object")?;
    if json.is_object() {
        return Ok(json);
    }
    Err(member.wrong("must be the text of a JSON object"))
}

/// The content of a message or of a function's output: a string, or parts.
fn parts(content: &Member<'_>) -> Result<Vec<Part>, Malformed> {
    if content.is_text() {
        return Ok(vec![Part::Text(content.text()?)]);
    }
    if !content.is_list() {
        return Err(content.wrong("must be a string or a list of parts"));
    }
    let items = content.items()?.into_iter();
    items.map(|item| part(&item)).collect()
}

fn part(item: &Member<'_>) -> Result<Part, Malformed> {
    let mut part = item.object()?;
    let kind = part.need("type")?;
    let found = match kind.text()?.as_str() {
        "input_text" | "text" | "summary_text" | "reasoning_text" => {
            Part::Text(part.need("text")?.text()?)
        }
        "output_text" => {
            part.skip_empty(&["annotations", "logprobs"]);
            Part::Text(part.need("text")?.text()?)
        }
        "refusal" => Part::Text(part.need("refusal")?.text()?),
        "input_image" => {
            no_file_id(&mut part)?;
            media(MediaKind::Image, source(&part.need("image_url")?)?, None)
        }
        "input_file" => {
            no_file_id(&mut part)?;
            let name = part.text("filename")?;
            let source = match part.take("file_url") {
                Some(url) => Source::Url(url.text()?),
                None => file_data(&part.need("file_data")?)?,
            };
            media(MediaKind::Document, source, name)
        }
        "input_audio" => {
            let mut audio = part.need("input_audio")?.object()?;
            let media_type = format!("audio/{}", audio.need("format")?.text()?);
            let data = audio.need("data")?.text()?;
            media(MediaKind::Audio, Source::Base64 { media_type, data }, None)
        }
        _ => {
            let message = "must be input_text, input_image, input_file, input_audio, output_text \
                           or refusal";
            return Err(kind.wrong(message));
        }
    };
    Ok(found)
}

fn no_file_id(part: &mut Object<'_>) -> Result<(), Malformed> {
    match part.take("file_id") {
        Some(id) => Err(id.wrong("is known to OpenAI alone: send the data or a URL")),
        None => Ok(()),
    }
}

fn media(kind: MediaKind, source: Source, name: Option<String>) -> Part {
    Part::Media(Media { kind, source, name })
}

/// Functions and tools that take a text; others are left out where a model has some without them.
fn read_tools(tools: &[Member<'_>], request: &mut Request) -> Result<(), Malformed> {
    let kinds = tools.iter().map(|tool| tool.glimpse()?.text("type"));
    let kinds = kinds.collect::<Result<Vec<_>, _>>()?;
    let is_called = |kind: &Option<String>| matches!(kind.as_deref(), Some("function" | "custom"));
    let has_functions = kinds.iter().any(is_called);
    for (tool, kind) in tools.iter().zip(kinds) {
        let kind = kind.unwrap_or_default();
        // Some have a version behind their name.
        let is_beside = BESIDE_FUNCTIONS.iter().any(|name| kind.starts_with(name));
        if has_functions && is_beside {
            tool.not_passed_on();
        } else if kind == "custom" {
            let tool = text_tool::read(tool)?;
            request.text_tools.push(tool.name.clone());
            request.tools.push(tool);
        } else {
            request.tools.push(read_tool(tool)?);
        }
    }
    Ok(())
}

fn read_tool(member: &Member<'_>) -> Result<Tool, Malformed> {
    let mut tool = member.object()?;
    let kind = tool.need("type")?;
    if kind.text()? != "function" {
        return Err(kind.wrong("must be function or custom: this provider has no such tool"));
    }
    let read = Tool {
        name: tool.need("name")?.text()?,
        description: tool.text("description")?,
        parameters: tool.take("parameters").map(|member| member.json()),
        strict: tool.read("strict", "true or false")?,
    };
    Ok(read)
}

fn tool_choice(member: Member<'_>) -> Result<ToolChoice, Malformed> {
    if !member.is_text() {
        let mut choice = member.object()?;
        let kind = choice.need("type")?;
        if !matches!(kind.text()?.as_str(), "function" | "custom") {
            return Err(kind.wrong("must be function or custom: this provider has no such choice"));
        }
        return Ok(ToolChoice::Named(choice.need("name")?.text()?));
    }
    match member.text()?.as_str() {
        "auto" => Ok(ToolChoice::Auto),
        "none" => Ok(ToolChoice::None),
        "required" => Ok(ToolChoice::Required),
        _ => Err(member.wrong("must be auto, none, required or a function")),
    }
}

fn format(member: Member<'_>) -> Result<Option<Format>, Malformed> {
    let mut format = member.object()?;
    let kind = format.need("type")?;
    match kind.text()?.as_str() {
        "text" => Ok(None),
        "json_object" => Ok(Some(Format::JsonObject)),
        "json_schema" => Ok(Some(Format::JsonSchema {
            name: format.text("name")?,
            description: format.text("description")?,
            schema: format.need("schema")?.json(),
            strict: format.read("strict", "true or false")?,
        })),
        _ => Err(kind.wrong("must be text, json_object or json_schema")),
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
