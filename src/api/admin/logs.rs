//! Request records of this node.

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::response::IntoResponse;
use serde::Deserialize;
use serde_json::json;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::refusal::Refusal;
use super::{Admin, Answer};
use crate::store::LogQuery;
use crate::timestamp::rfc3339;

/// The query of `GET /api/logs`; lists are separated by commas.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Asked {
    providers: String,
    models: String,
    status: String,
    objects: String,
    selected_key_ids: String,
    start_time: Option<String>,
    end_time: Option<String>,
    sort_by: Option<String>,
    order: Option<String>,
    limit: Option<String>,
    offset: Option<String>,
}

/// `GET /api/logs`.
pub(super) async fn list(State(admin): State<Admin>, Query(asked): Query<Asked>) -> Answer {
    let query = query(&asked)?;
    let (limit, offset, ascending) = (query.limit, query.offset, query.ascending);
    let page = admin
        .blocking(move |node| node.store().list_logs(&query))
        .await?;
    let rate = if page.total == 0 {
        0.0
    } else {
        percent(page.served, page.total)
    };
    let answer = json!({
        "logs": page.logs,
        "pagination": {
            "limit": limit,
            "offset": offset,
            "sort_by": "timestamp",
            "order": if ascending { "asc" } else { "desc" },
            "total_count": page.total,
        },
        "stats": {
            "total_requests": page.total,
            "success_rate": rate,
            "average_latency": page.average_latency,
            "total_tokens": page.tokens,
        },
    });
    Ok(Json(answer).into_response())
}

/// `GET /api/logs/{id}`.
pub(super) async fn show(State(admin): State<Admin>, Path(id): Path<String>) -> Answer {
    let wanted = id.clone();
    let found = admin
        .blocking(move |node| node.store().find_log(&wanted))
        .await?;
    let Some(record) = found else {
        let id: String = id.chars().take(100).collect();
        return Err(Refusal::not_found(format!(
            "this node has no record of the request {id:?}: ask the node that served it"
        )));
    };
    Ok(Json(record).into_response())
}

fn query(asked: &Asked) -> Result<LogQuery, Refusal> {
    if asked.sort_by.as_deref().is_some_and(|by| by != "timestamp") {
        return Err(Refusal::bad("sort_by must be \"timestamp\""));
    }
    let ascending = match asked.order.as_deref() {
        None | Some("desc") => false,
        Some("asc") => true,
        Some(_) => return Err(Refusal::bad("order must be \"asc\" or \"desc\"")),
    };
    // Paged lists clamp what they are asked for instead of refusing it.
    let number = |text: &Option<String>| text.as_deref().and_then(|t| t.parse::<i64>().ok());
    let limit = number(&asked.limit)
        .filter(|limit| *limit > 0)
        .unwrap_or(25)
        .min(100);
    let offset = number(&asked.offset).unwrap_or(0).max(0);
    Ok(LogQuery {
        providers: split(&asked.providers),
        models: split(&asked.models),
        status: split(&asked.status),
        objects: split(&asked.objects),
        key_ids: split(&asked.selected_key_ids),
        from: instant("start_time", asked.start_time.as_deref())?,
        to: instant("end_time", asked.end_time.as_deref())?,
        ascending,
        limit: u32::try_from(limit).unwrap_or(25),
        offset: u64::try_from(offset).unwrap_or(0),
    })
}

fn split(list: &str) -> Vec<String> {
    let names = list.split(',').map(str::trim);
    names
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

fn instant(field: &str, text: Option<&str>) -> Result<Option<String>, Refusal> {
    let Some(text) = text else {
        return Ok(None);
    };
    let time = OffsetDateTime::parse(text, &Rfc3339).map_err(|_| {
        Refusal::bad(format!(
            "{field} must be a time such as 2026-11-29T21:00:00Z"
        ))
    })?;
    Ok(Some(rfc3339(time)))
}

#[expect(clippy::cast_precision_loss, reason = "a percentage of log records")]
fn percent(part: u64, whole: u64) -> f64 {
    part as f64 * 100.0 / whole as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_clamped_and_wrong_words_are_refused() {
        let asked = |limit: &str, offset: &str| Asked {
            limit: Some(limit.to_owned()),
            offset: Some(offset.to_owned()),
            ..Asked::default()
        };
        let page = |limit, offset| query(&asked(limit, offset)).map(|q| (q.limit, q.offset));
        assert_eq!(page("7", "3"), Ok((7, 3)));
        assert_eq!(page("1000", "-3"), Ok((100, 0)));
        assert_eq!(page("0", "x"), Ok((25, 0)));
        let wrong = Asked {
            start_time: Some("yesterday".to_owned()),
            ..Asked::default()
        };
        assert!(query(&wrong).unwrap_err().message.starts_with("start_time"));
    }
}
