//! The cluster as this node sees it.

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use holdline_cluster::{Link, Member, MemberState, Restored, RpcLink, SnapshotInfo};
use http::StatusCode;
use serde_json::{Value, json};

use super::refusal::Refusal;
use super::{Admin, Answer};
use crate::timestamp::wall_text;

/// `GET /api/cluster/status`.
pub(super) async fn status(State(admin): State<Admin>) -> Answer {
    let Some(cluster) = admin.node.cluster() else {
        return Err(Refusal::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "the node is starting: ask again in a moment",
        ));
    };
    let status = cluster.status();
    let answer = json!({
        "node_id": status.node_id,
        "region": status.region,
        "leaders": status.leaders,
        "converged": status.converged,
        "nodes": status.nodes.iter().map(member).collect::<Vec<_>>(),
        "snapshot": status.snapshot.as_ref().map(snapshot),
        "restored": status.restored.as_ref().map(restored),
    });
    Ok(Json(answer).into_response())
}

fn member(member: &Member) -> Value {
    let mut shown = json!({
        "node_id": member.node_id,
        "region": member.region,
        "state": match member.state {
            MemberState::Alive => "alive",
            MemberState::Suspect => "suspect",
            MemberState::Dead => "dead",
            MemberState::Left => "left",
        },
        "is_leader": member.is_leader,
        "version": member.version,
        "uptime_seconds": member.uptime_seconds,
        "http_address": member.http_address,
        "gossip_address": member.gossip_address,
        "rpc_address": member.rpc_address,
        "digest": format!("{:032x}", member.digest),
        "held": member.held,
    });
    if member.acting {
        shown["acting"] = json!(true);
    }
    if let Some(found) = &member.link {
        shown["link"] = link(found);
    }
    shown
}

fn link(link: &Link) -> Value {
    json!({
        "gossip_seen_ms": link.gossip_seen_ms,
        "rpc": match link.rpc {
            RpcLink::Ok => "ok",
            RpcLink::Unreachable => "unreachable",
            RpcLink::Refused => "refused",
        },
        "unacknowledged": link.unacknowledged,
    })
}

fn snapshot(info: &SnapshotInfo) -> Value {
    json!({"saved_at": wall_text(info.saved_at), "saved_by": info.saved_by, "held": info.held})
}

fn restored(restored: &Restored) -> Value {
    let from = restored.from.to_string();
    json!({"at": wall_text(restored.at), "from": from, "held": restored.held})
}
