//! Requests of generateContent: read from clients.

use std::collections::{HashMap, HashSet, VecDeque};

use serde::de::DeserializeOwned;
use serde_json::Number;

use super::parts::{add_seal, add_text};
use super::schema::json_schema;
use crate::protocols::Malformed;
use crate::protocols::json::{Json, Member, Object};
use crate::protocols::talk::{
    Effort, Format, Media, MediaKind, Part, Reasoning, Request, Role, Source, Tool, ToolCall,
    ToolChoice, ToolResult, Turn,
};

/// Members that the gateway has read already, or that are its own.
const DEALT_WITH: [&str; 3] = ["model", "stream", "fallbacks"];

/// Addresses that only Google can read.
const GOOGLES: [&str; 2] = ["gs://", "https://generativelanguage.googleapis.com/"];

/// Takes a member out by either of its names: `topP` is `top_p` too.
pub(super) fn take<'a>(object: &mut Object<'a>, camel: &str) -> Option<Member<'a>> {
    let found = object.take(camel);
    let mut snake = String::with_capacity(camel.len() + 4);
    for c in camel.chars() {
        if c.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    if snake == camel {
        return found;
    }
    let other = object.take(&snake);
    found.or(other)
}

fn read_as<T: DeserializeOwned>(
    object: &mut Object<'_>,
    camel: &str,
    what: &str,
) -> Result<Option<T>, Malformed> {
    let member = take(object, camel);
    member.map(|member| member.read(what)).transpose()
}

pub(super) fn text(object: &mut Object<'_>, camel: &str) -> Result<Option<String>, Malformed> {
    read_as(object, camel, "a string")
}

/// A whole number.
pub(super) fn count(object: &mut Object<'_>, camel: &str) -> Result<Option<u64>, Malformed> {
    let member = take(object, camel);
    member.map(|member| member.count()).transpose()
}

/// Reads a client's request.
pub(super) fn read(body: &[u8]) -> Result<Request, Malformed> {
    Request::read(body, members)
}

fn members(top: &mut Object<'_>) -> Result<Request, Malformed> {
    top.skip(&DEALT_WITH);
    if let Some(cached) = take(top, "cachedContent") {
        let message = "names something that Google keeps: this provider needs it in `contents`";
        return Err(cached.wrong(message));
    }
    let mut request = Request::default();
    if let Some(system) = take(top, "systemInstruction") {
        system_texts(&system, &mut request)?;
    }
    let mut calls = Calls::default();
    for content in top.need("contents")?.items()? {
        let turn = turn(&content, &mut calls)?;
        request.turns.push(turn);
    }
    if let Some(tools) = top.take("tools") {
        for tool in tools.items()? {
            functions(&tool, &mut request)?;
        }
    }
    if let Some(config) = take(top, "toolConfig") {
        tool_config(&config, &mut request)?;
    }
    if let Some(config) = take(top, "generationConfig") {
        generation_config(&config, &mut request)?;
    }
    Ok(request)
}

fn system_texts(member: &Member<'_>, request: &mut Request) -> Result<(), Malformed> {
    let mut content = member.object()?;
    content.skip(&["role"]);
    for part in content.need("parts")?.items()? {
        let mut part = part.object()?;
        request.system.push(part.need("text")?.text()?);
    }
    Ok(())
}

/// The calls of a conversation whose results have not come yet. Most have no id: results name the function.
#[derive(Default)]
struct Calls {
    /// The id of each call; none once its result came.
    open: Vec<Option<String>>,
    by_name: HashMap<String, VecDeque<usize>>,
    by_id: HashMap<String, VecDeque<usize>>,
}

impl Calls {
    fn begin(&mut self, id: Option<String>, name: &str) -> String {
        let place = self.open.len();
        let id = id.unwrap_or_else(|| format!("call_{place}"));
        let named = self.by_name.entry(name.to_owned());
        named.or_default().push_back(place);
        self.by_id.entry(id.clone()).or_default().push_back(place);
        self.open.push(Some(id.clone()));
        id
    }

    /// The id of the call that a result belongs to: the oldest of its name.
    fn end(&mut self, id: Option<&str>, name: &str) -> Option<String> {
        let places = match id {
            Some(id) => self.by_id.get_mut(id),
            None => self.by_name.get_mut(name),
        }?;
        loop {
            let place = places.pop_front()?;
            // It may have been found by the other of its names.
            if let Some(id) = self.open.get_mut(place).and_then(Option::take) {
                return Some(id);
            }
        }
    }
}

fn turn(member: &Member<'_>, calls: &mut Calls) -> Result<Turn, Malformed> {
    let mut content = member.object()?;
    let role = content.take("role");
    let role = match role.as_ref().map(Member::text).transpose()?.as_deref() {
        None | Some("user" | "function") => Role::User,
        Some("model") => Role::Assistant,
        Some(_) => {
            let at = role.unwrap_or_else(|| member.clone());
            return Err(at.wrong("must be user or model"));
        }
    };
    let mut parts = Vec::new();
    for item in content.need("parts")?.items()? {
        part(&item, role, calls, &mut parts)?;
    }
    Ok(Turn { role, parts })
}

/// Reads a part of a turn.
fn part(
    member: &Member<'_>,
    role: Role,
    calls: &mut Calls,
    out: &mut Vec<Part>,
) -> Result<(), Malformed> {
    let before = out.len();
    let mut part = member.object()?;
    let is_thought = part.read::<bool>("thought", "true or false")?;
    let seal = text(&mut part, "thoughtSignature")?;
    if let Some(said) = part.take("text") {
        let said = said.text()?;
        add_text(said, is_thought == Some(true), seal, out);
    } else if let Some(call) = take(&mut part, "functionCall") {
        if role == Role::User {
            return Err(call.wrong("can only be the model's: send it with the role model"));
        }
        add_seal(seal, out);
        let mut call = call.object()?;
        let id = call.text("id")?;
        let name = call.need("name")?.text()?;
        let args = call.take("args").map(|args| args.json_object());
        out.push(Part::ToolCall(ToolCall {
            id: calls.begin(id, &name),
            name,
            arguments: args.transpose()?.unwrap_or_else(Json::empty_object),
        }));
    } else if let Some(response) = take(&mut part, "functionResponse") {
        if role == Role::Assistant {
            return Err(response.wrong("can only be the client's: send it with the role user"));
        }
        out.push(Part::ToolResult(tool_result(&response, calls)?));
    } else if let Some(data) = take(&mut part, "inlineData") {
        out.push(Part::Media(inline_data(&data)?));
    } else if let Some(file) = take(&mut part, "fileData") {
        out.push(Part::Media(file_data(&file)?));
    } else {
        let path = part.first_left().unwrap_or_else(|| member.path.clone());
        let message = "is a part that cannot be passed on to this provider";
        return Err(Malformed::at(path, message));
    }
    if out.iter().skip(before).all(|part| part.fits(role)) {
        return Ok(());
    }
    Err(member.misplaced())
}

fn tool_result(member: &Member<'_>, calls: &mut Calls) -> Result<ToolResult, Malformed> {
    let mut result = member.object()?;
    let id = result.text("id")?;
    let name = result.need("name")?.text()?;
    let call_id = calls.end(id.as_deref(), &name);
    let call_id = call_id.ok_or_else(|| member.wrong("belongs to no functionCall before it"))?;
    let (said, is_error) = match result.take("response") {
        Some(response) => outcome(&response)?,
        None => (String::new(), false),
    };
    let mut parts = vec![Part::Text(said)];
    if let Some(more) = result.take("parts") {
        for part in more.items()? {
            let mut part = part.object()?;
            let data = take(&mut part, "inlineData");
            let data = data.ok_or_else(|| more.wrong("must have inlineData each"))?;
            parts.push(Part::Media(inline_data(&data)?));
        }
    }
    Ok(ToolResult {
        call_id,
        parts,
        is_error,
    })
}

/// What a function answered: text that stands alone under the usual name, or the object as text.
fn outcome(response: &Member<'_>) -> Result<(String, bool), Malformed> {
    let whole = || response.raw().to_owned();
    let mut object = response.glimpse()?;
    let output = object.take("output").or_else(|| object.take("result"));
    let error = object.take("error");
    if object.first_left().is_some() {
        return Ok((whole(), false));
    }
    Ok(match (output, error) {
        (Some(output), None) if output.is_text() => (output.text()?, false),
        (None, Some(error)) if error.is_text() => (error.text()?, true),
        (None, Some(_)) => (whole(), true),
        _ => (whole(), false),
    })
}

fn kind_of(media_type: &str) -> Option<MediaKind> {
    let (kind, _) = media_type.split_once('/')?;
    match kind {
        "image" => Some(MediaKind::Image),
        "audio" => Some(MediaKind::Audio),
        "text" => Some(MediaKind::Document),
        "application" => Some(MediaKind::Document),
        _ => None,
    }
}

fn inline_data(member: &Member<'_>) -> Result<Media, Malformed> {
    let mut data = member.object()?;
    let media_type = take(&mut data, "mimeType");
    let media_type = media_type.ok_or_else(|| Malformed::at(data.at("mimeType"), "is missing"))?;
    let kind = kind_of(&media_type.text()?);
    let kind =
        kind.ok_or_else(|| media_type.wrong("is of a kind that this provider does not take"))?;
    Ok(Media {
        kind,
        source: Source::Base64 {
            media_type: media_type.text()?,
            data: data.need("data")?.text()?,
        },
        name: name_of(kind, &mut data)?,
    })
}

/// Only files have names elsewhere.
fn name_of(kind: MediaKind, data: &mut Object<'_>) -> Result<Option<String>, Malformed> {
    match kind {
        MediaKind::Document => text(data, "displayName"),
        MediaKind::Image | MediaKind::Audio => Ok(None),
    }
}

fn file_data(member: &Member<'_>) -> Result<Media, Malformed> {
    let mut data = member.object()?;
    let uri = take(&mut data, "fileUri");
    let uri = uri.ok_or_else(|| Malformed::at(data.at("fileUri"), "is missing"))?;
    let url = uri.text()?;
    if GOOGLES.iter().any(|own| url.starts_with(own)) {
        return Err(uri.wrong("can be read by Google alone: send the data or a public URL"));
    }
    let media_type = take(&mut data, "mimeType");
    let kind = match &media_type {
        Some(media_type) => kind_of(&media_type.text()?)
            .ok_or_else(|| media_type.wrong("is of a kind that this provider does not take"))?,
        None => MediaKind::Image,
    };
    Ok(Media {
        kind,
        source: Source::Url(url),
        name: name_of(kind, &mut data)?,
    })
}

/// One entry of `tools`: functions, or a tool that Google runs itself.
fn functions(member: &Member<'_>, request: &mut Request) -> Result<(), Malformed> {
    let mut tool = member.object()?;
    if let Some(list) = take(&mut tool, "functionDeclarations") {
        for declared in list.items()? {
            request.tools.push(function(&declared)?);
        }
    }
    match tool.first_left() {
        Some(path) => Err(Malformed::at(
            path,
            "is a tool that this provider does not have",
        )),
        None => Ok(()),
    }
}

fn function(member: &Member<'_>) -> Result<Tool, Malformed> {
    let mut declared = member.object()?;
    let newer = take(&mut declared, "parametersJsonSchema");
    let older = declared.take("parameters");
    if let Some(older) = older.as_ref().filter(|_| newer.is_some()) {
        older.not_passed_on();
    }
    let read = Tool {
        name: declared.need("name")?.text()?,
        description: declared.text("description")?,
        parameters: newer
            .map(|schema| schema.json())
            .or_else(|| older.map(|schema| json_schema(&schema.json()))),
        strict: None,
    };
    Ok(read)
}

fn tool_config(member: &Member<'_>, request: &mut Request) -> Result<(), Malformed> {
    let mut config = member.object()?;
    if let Some(calling) = take(&mut config, "functionCallingConfig") {
        let mut calling = calling.object()?;
        let mode = calling.take("mode");
        let allowed = take(&mut calling, "allowedFunctionNames");
        let names: Vec<String> = match &allowed {
            Some(allowed) => allowed.read("a list of names")?,
            None => Vec::new(),
        };
        let word = mode.as_ref().map(Member::text).transpose()?;
        let word = word.map(|word| word.to_ascii_uppercase());
        request.tool_choice = match (word.as_deref(), names.as_slice()) {
            (None | Some("MODE_UNSPECIFIED"), []) => None,
            (None | Some("AUTO" | "VALIDATED" | "MODE_UNSPECIFIED"), _) => Some(ToolChoice::Auto),
            (Some("NONE"), _) => Some(ToolChoice::None),
            (Some("ANY"), [one]) => Some(ToolChoice::Named(one.clone())),
            (Some("ANY"), _) => Some(ToolChoice::Required),
            (Some(_), _) => {
                let at = mode.unwrap_or_else(|| member.clone());
                return Err(at.wrong("must be AUTO, ANY, NONE or VALIDATED"));
            }
        };
        if !names.is_empty() && !matches!(request.tool_choice, Some(ToolChoice::Named(_))) {
            // Others have no such list: what may not be called is not offered.
            let names: HashSet<&str> = names.iter().map(String::as_str).collect();
            request
                .tools
                .retain(|tool| names.contains(tool.name.as_str()));
        }
    }
    Ok(())
}

fn generation_config(member: &Member<'_>, request: &mut Request) -> Result<(), Malformed> {
    let mut config = member.object()?;
    refuse_what_has_no_counterpart(&mut config)?;
    request.max_tokens = count(&mut config, "maxOutputTokens")?;
    request.temperature = read_as(&mut config, "temperature", "a number")?;
    request.top_p = read_as(&mut config, "topP", "a number")?;
    request.top_k = count(&mut config, "topK")?;
    request.seed = read_as(&mut config, "seed", "a whole number")?;
    request.presence_penalty = read_as(&mut config, "presencePenalty", "a number")?;
    request.frequency_penalty = read_as(&mut config, "frequencyPenalty", "a number")?;
    let stop = read_as(&mut config, "stopSequences", "a list of strings")?;
    request.stop = stop.unwrap_or_default();
    request.format = format(&mut config)?;
    if let Some(thinking) = take(&mut config, "thinkingConfig") {
        let mut thinking = thinking.object()?;
        // What the provider shows of its thoughts is passed on, asked for or not.
        drop(take(&mut thinking, "includeThoughts"));
        request.reasoning = reasoning(&mut thinking)?;
    }
    Ok(())
}

fn refuse_what_has_no_counterpart(config: &mut Object<'_>) -> Result<(), Malformed> {
    if let Some(n) = take(config, "candidateCount")
        && n.read::<Number>("a whole number")?.as_f64() != Some(1.0)
    {
        return Err(n.wrong("must be 1: this provider gives one candidate"));
    }
    if let Some(wanted) = take(config, "responseLogprobs")
        && wanted.read::<bool>("true or false")?
    {
        return Err(wanted.wrong("cannot be had from this provider: leave it out"));
    }
    if let Some(wanted) = take(config, "responseModalities") {
        let all: Vec<String> = wanted.read("a list of names")?;
        if all.iter().any(|one| !one.eq_ignore_ascii_case("text")) {
            return Err(wanted.wrong("can only be [\"TEXT\"] with this provider"));
        }
    }
    for name in ["speechConfig", "imageConfig"] {
        if let Some(config) = take(config, name) {
            return Err(config.wrong("cannot be passed on to this provider: leave it out"));
        }
    }
    Ok(())
}

fn format(config: &mut Object<'_>) -> Result<Option<Format>, Malformed> {
    let media_type = take(config, "responseMimeType");
    let is_json = match &media_type {
        None => false,
        Some(media_type) => match media_type.text()?.as_str() {
            "text/plain" => false,
            "application/json" => true,
            _ => {
                let message = "must be text/plain or application/json with this provider";
                return Err(media_type.wrong(message));
            }
        },
    };
    let newer = take(config, "responseJsonSchema").or_else(|| config.take("_responseJsonSchema"));
    let older = take(config, "responseSchema");
    if let Some(older) = older.as_ref().filter(|_| newer.is_some()) {
        older.not_passed_on();
    }
    let schema = newer
        .map(|schema| schema.json())
        .or_else(|| older.map(|schema| json_schema(&schema.json())));
    if let Some(schema) = schema {
        return Ok(Some(Format::JsonSchema {
            name: None,
            description: None,
            schema,
            strict: Some(true),
        }));
    }
    Ok(is_json.then_some(Format::JsonObject))
}

fn reasoning(thinking: &mut Object<'_>) -> Result<Option<Reasoning>, Malformed> {
    let Some(level) = take(thinking, "thinkingLevel") else {
        let budget = read_as::<i64>(thinking, "thinkingBudget", "a whole number")?;
        return Ok(budget.map(|tokens| match u64::try_from(tokens) {
            Ok(0) => Reasoning::Off,
            Ok(tokens) => Reasoning::Budget(tokens),
            Err(_) => Reasoning::Adaptive,
        }));
    };
    let effort = match level.text()?.to_ascii_uppercase().as_str() {
        "MINIMAL" => Effort::Minimal,
        "LOW" => Effort::Low,
        "MEDIUM" => Effort::Medium,
        "HIGH" => Effort::High,
        _ => return Err(level.wrong("must be MINIMAL, LOW, MEDIUM or HIGH")),
    };
    Ok(Some(Reasoning::Effort(effort)))
}
