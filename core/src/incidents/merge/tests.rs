//! One trouble seen by several nodes.

use proptest::prelude::*;

use super::*;
use crate::failure::Reason;
use crate::incidents::Turn;

const NEAR: u64 = 100;

/// A sighting of key `k-a`, by this node, from and to these instants.
fn seen(node: &str, phase: Phase, from: u64, to: Option<u64>) -> Sighting {
    let entity = Entity::Key {
        provider: "openai".into(),
        key: "k-a".into(),
    };
    Sighting {
        id: format!("{from:04}"),
        node: node.into(),
        region: if node < "n3" { "us-east" } else { "eu-west" }.into(),
        cause: Cause::Refused(Reason::Credential),
        phase,
        contained: true,
        worst: Worst::Failed,
        opened_at: WallMs(from),
        calmed_at: to.map(WallMs),
        ended_at: to.map(WallMs).filter(|_| !phase.is_open()),
        changed_at: WallMs(to.unwrap_or(from)),
        hold: None,
        rung: 0,
        refused_again: false,
        pinned_kept_failed: 1,
        reopened: 0,
        models: BTreeSet::from([ModelId::from(node)]),
        key_name: node.to_uppercase(),
        words: String::new(),
        status_code: 401,
        timeline: vec![Event {
            at: WallMs(from),
            node: "n1".to_owned(),
            turn: Turn::Held,
            class: None,
        }],
        entity,
    }
}

fn merged(sightings: Vec<Sighting>) -> Vec<Incident> {
    merge(sightings, NEAR, WallMs(1_000))
}

fn status(sightings: Vec<Sighting>) -> Status {
    let incidents = merged(sightings);
    assert_eq!(incidents.len(), 1);
    incidents[0].status
}

#[test]
fn one_refusal_seen_by_three_nodes_is_one_incident() {
    let sightings = ["n3", "n1", "n2"].map(|node| seen(node, Phase::Standing, 10, None));
    let incidents = merged(sightings.to_vec());
    assert_eq!(incidents.len(), 1);
    let one = &incidents[0];
    let nodes: Vec<&str> = one.nodes.iter().map(NodeId::as_str).collect();
    let regions: Vec<&str> = one.regions.iter().map(Region::as_str).collect();
    assert_eq!(
        (nodes, regions),
        (vec!["n1", "n2", "n3"], vec!["eu-west", "us-east"])
    );
    assert_eq!((one.id.as_str(), one.status), ("0010", Status::Attention));
    assert_eq!((one.pinned_kept_failed, one.models.len()), (3, 3));
    assert_eq!((one.duration_ms, one.resolved_at), (990, None));
    assert_eq!(one.timeline.len(), 1, "all tell of the same refusal");
}

#[test]
fn another_entity_is_another_incident() {
    let mut other = seen("n2", Phase::Standing, 10, None);
    other.entity = Entity::Key {
        provider: "openai".into(),
        key: "k-b".into(),
    };
    assert_eq!(
        merged(vec![seen("n1", Phase::Standing, 10, None), other]).len(),
        2
    );
}

#[test]
fn troubles_far_apart_are_two_and_near_ones_of_one_class_are_one() {
    let first = seen("n1", Phase::Resolved, 10, Some(20));
    let near = seen("n2", Phase::Resolved, 119, Some(130));
    let far = seen("n2", Phase::Resolved, 120, Some(130));
    assert_eq!(merged(vec![first.clone(), near.clone()]).len(), 1);
    assert_eq!(merged(vec![first.clone(), far]).len(), 2);
    let mut other_class = near;
    other_class.cause = Cause::Refused(Reason::Quota);
    assert_eq!(merged(vec![first.clone(), other_class.clone()]).len(), 2);
    other_class.opened_at = WallMs(15);
    assert_eq!(merged(vec![first, other_class]).len(), 1, "they overlap");
}

#[test]
fn a_long_one_joins_what_came_and_went_meanwhile() {
    let incidents = merged(vec![
        seen("n1", Phase::Standing, 10, None),
        seen("n2", Phase::Resolved, 20, Some(30)),
        seen("n2", Phase::Resolved, 500, Some(600)),
    ]);
    assert_eq!(incidents.len(), 1);
    assert_eq!(incidents[0].status, Status::Attention);
}

#[test]
fn trouble_anywhere_is_trouble_and_then_the_least_certain_end_counts() {
    let resolved = || seen("n1", Phase::Resolved, 10, Some(20));
    let measured = |mut sighting: Sighting| {
        sighting.cause = Cause::Failing;
        sighting
    };
    let at = |phase| seen("n2", phase, 10, Some(30));
    assert_eq!(
        status(vec![resolved(), seen("n2", Phase::Standing, 10, None)]),
        Status::Attention
    );
    assert_eq!(
        status(vec![
            measured(resolved()),
            measured(seen("n2", Phase::Standing, 10, None))
        ]),
        Status::Mitigated
    );
    assert_eq!(
        status(vec![resolved(), at(Phase::Recovering)]),
        Status::Recovering
    );
    assert_eq!(
        status(vec![resolved(), at(Phase::Unobserved)]),
        Status::Resolved
    );
    assert_eq!(status(vec![at(Phase::Unobserved)]), Status::Unobserved);
    assert_eq!(
        status(vec![at(Phase::Waiting), at(Phase::Unobserved)]),
        Status::Waiting
    );
    assert_eq!(
        status(vec![resolved(), at(Phase::Waiting)]),
        Status::Resolved,
        "a key that serves one node serves all"
    );
    assert_eq!(
        status(vec![measured(resolved()), measured(at(Phase::Waiting))]),
        Status::Waiting,
        "one node's way to a provider proves nothing of another's"
    );
}

#[test]
fn durations_end_where_the_trouble_ended() {
    let waiting = merged(vec![seen("n1", Phase::Waiting, 10, Some(300))]);
    assert_eq!(
        (waiting[0].duration_ms, waiting[0].resolved_at),
        (290, None)
    );
    let resolved = merged(vec![
        seen("n1", Phase::Resolved, 10, Some(400)),
        seen("n2", Phase::Resolved, 20, Some(300)),
    ]);
    assert_eq!(
        (resolved[0].duration_ms, resolved[0].resolved_at),
        (390, Some(WallMs(400)))
    );
}

#[test]
fn what_a_lost_node_had_open_is_lost_sight_of() {
    let lost = seen("n1", Phase::Standing, 10, None).out_of_sight(WallMs(50));
    assert_eq!(
        (lost.status(), lost.ended_at),
        (Status::Unobserved, Some(WallMs(50)))
    );
    let over = seen("n1", Phase::Resolved, 10, Some(20));
    assert_eq!(over.clone().out_of_sight(WallMs(50)), over);
}

#[test]
fn sightings_of_one_node_and_instant_are_told_alike_in_any_order() {
    let refused = seen("n1", Phase::Resolved, 192, Some(192));
    let mut failing = refused.clone();
    failing.cause = Cause::Failing;
    assert_eq!(
        merged(vec![refused.clone(), failing.clone()]),
        merged(vec![failing, refused])
    );
}

fn any_sighting() -> impl Strategy<Value = Sighting> {
    let phase = prop::sample::select(vec![
        Phase::Standing,
        Phase::Recovering,
        Phase::Waiting,
        Phase::Resolved,
        Phase::Unobserved,
    ]);
    let node = prop::sample::select(vec!["n1", "n2", "n3"]);
    (node, phase, 0..600_u64, 0..200_u64, any::<bool>()).prop_map(
        |(node, phase, from, lasts, measured)| {
            let to = (phase != Phase::Standing).then_some(from + lasts);
            let mut sighting = seen(node, phase, from, to);
            if measured {
                sighting.cause = Cause::Failing;
            }
            sighting
        },
    )
}

proptest! {
    /// Every node that gathers the same sightings, in whatever order, answers the same incidents.
    #[test]
    fn the_order_of_sightings_does_not_matter(
        mut sightings in prop::collection::vec(any_sighting(), 0..12).prop_shuffle(),
    ) {
        let one = merged(sightings.clone());
        sightings.reverse();
        prop_assert_eq!(&one, &merged(sightings.clone()));
        sightings.sort_by_key(|s| (s.node.clone(), s.changed_at));
        prop_assert_eq!(&one, &merged(sightings));
    }

    /// No sighting is lost or counted twice, and incidents of one entity do not overlap.
    #[test]
    fn every_sighting_is_of_one_incident(sightings in prop::collection::vec(any_sighting(), 0..12)) {
        let incidents = merged(sightings.clone());
        let kept: u64 = incidents.iter().map(|i| i.pinned_kept_failed).sum();
        prop_assert_eq!(kept, sightings.len() as u64);
        for pair in incidents.windows(2) {
            prop_assert!(pair[0].resolved_at.is_some_and(|end| end < pair[1].opened_at)
                || pair[0].status == Status::Resolved);
        }
    }
}
