//! History: incidents of the whole cluster, and scores for charts.

mod asked;
mod shown;

use axum::Json;
use axum::extract::{Query, State};
use axum::response::IntoResponse;
use serde_json::json;

use super::{Admin, Answer};
use asked::{IssuesAsked, Pairs, ScoresAsked};

/// `GET /api/adaptive-routing/history/issues`.
pub(super) async fn issues(
    State(admin): State<Admin>,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Answer {
    let asked = IssuesAsked::read(&Pairs::new(pairs))?;
    let gathered = admin.node.incidents().await?;
    let page = asked.query.select(gathered.found);
    let Some(wanted) = asked.page else {
        let issues: Vec<_> = page.matches.iter().map(shown::issue).collect();
        let answer = json!({ "issues": issues, "missing_nodes": gathered.missing });
        return Ok(Json(answer).into_response());
    };
    let total = page.matches.len();
    let offset = wanted.start(total);
    let listed = page.matches.iter().skip(offset).take(wanted.limit);
    let issues: Vec<_> = listed.clone().map(shown::issue).collect();
    let answer = json!({
        "issues": issues,
        "total": total,
        "window_total": page.window_total,
        "limit": wanted.limit,
        "offset": offset,
        "matched_summary": shown::summary(&page.summary),
        "facets": page.facets,
        "key_names": shown::key_names(listed),
        "missing_nodes": gathered.missing,
    });
    Ok(Json(answer).into_response())
}

/// `GET /api/adaptive-routing/history/scores`.
pub(super) async fn scores(
    State(admin): State<Admin>,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Answer {
    let now = admin.node.clock.wall();
    let asked = ScoresAsked::read(&Pairs::new(pairs), now)?;
    let gathered = admin.node.scores(&asked.query).await?;
    let series: Vec<_> = gathered
        .found
        .iter()
        .filter(|node| asked.wants(&node.node_id))
        .flat_map(shown::series)
        .collect();
    let answer = json!({
        "step_seconds": asked.query.step_seconds(now),
        "series": series,
        "missing_nodes": gathered.missing,
    });
    Ok(Json(answer).into_response())
}
