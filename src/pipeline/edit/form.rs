//! Forms (`multipart/form-data`): sound and images with a model's name beside them. Edited like JSON: the
//! value of `model` is replaced, the part `fallbacks` is cut out, every other byte goes up as it came.

use bytes::Bytes;
use memchr::memmem;

use super::{EditError, JsonBody, Replacement, read_fallbacks};
use crate::protocols::Edits;

/// Parts of one form: more are an attack.
const MAX_PARTS: usize = 1_024;

impl JsonBody {
    /// Reads a form; its boundary stands in the content type.
    pub(crate) fn parse_form(
        bytes: Bytes,
        edits: Edits,
        content_type: &str,
    ) -> Result<Self, EditError> {
        let boundary = boundary(content_type).ok_or(EditError::NotAForm)?;
        let mark = format!("--{boundary}");
        let mut body = Self::unread(bytes.clone(), edits);
        let mut has_model = false;
        let mut at = memmem::find(&bytes, mark.as_bytes()).ok_or(EditError::NotAForm)?;
        let line_and_mark = format!("\r\n{mark}");
        for _ in 0..MAX_PARTS {
            let after_mark = at + mark.len();
            if bytes[after_mark..].starts_with(b"--") {
                if !has_model {
                    return Err(EditError::NoModel);
                }
                return Ok(body);
            }
            let head = memmem::find(&bytes[after_mark..], b"\r\n\r\n");
            let value = after_mark + head.ok_or(EditError::NotAForm)? + 4;
            // An empty value ends with the line end that ends the head.
            let end = memmem::find(&bytes[value - 2..], line_and_mark.as_bytes());
            let end = value - 2 + end.ok_or(EditError::NotAForm)?;
            let text = &bytes[value.min(end)..end];
            let next = end + 2;
            match name(&bytes[after_mark..value]).as_deref() {
                Some("model") => {
                    has_model = true;
                    let model = std::str::from_utf8(text).map_err(|_| EditError::BadModel)?;
                    if model.trim().is_empty() {
                        return Err(EditError::BadModel);
                    }
                    model.clone_into(&mut body.model);
                    body.cut(value..end, Replacement::BareModel)?;
                }
                Some("stream") if edits.stream => body.stream = text == b"true",
                Some("fallbacks") => {
                    let list = serde_json::from_slice(text);
                    body.fallbacks = list.map(read_fallbacks).unwrap_or_default();
                    body.cut(at..next, Replacement::Nothing)?;
                }
                Some(_) | None => {}
            }
            at = next;
        }
        Err(EditError::NotAForm)
    }
}

fn boundary(content_type: &str) -> Option<&str> {
    let mut parts = content_type.split(';').map(str::trim);
    let kind = parts.next()?;
    if !kind.eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    let boundary = parts.find_map(|part| {
        let (name, value) = part.split_once('=')?;
        name.eq_ignore_ascii_case("boundary")
            .then(|| value.trim_matches('"'))
    });
    boundary.filter(|boundary| (1..=70).contains(&boundary.len()))
}

/// The field that a part's head names.
fn name(head: &[u8]) -> Option<String> {
    let head = String::from_utf8_lossy(head);
    let mut lines = head.lines();
    let line = lines.find(|line| {
        line.split_once(':')
            .is_some_and(|(name, _)| name.eq_ignore_ascii_case("content-disposition"))
    })?;
    line.split(';').find_map(|part| {
        let (name, value) = part.trim().split_once('=')?;
        (name == "name").then(|| value.trim_matches('"').to_owned())
    })
}
