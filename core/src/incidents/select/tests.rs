//! Filters, facets, figures and orders.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::failure::Reason;
use crate::incidents::{Entity, Worst};

fn incident(n: u64, status: Status) -> Incident {
    let over = !status.is_open();
    let entity = match n % 3 {
        0 => Entity::Key {
            provider: "openai".into(),
            key: "k-a".into(),
        },
        1 => Entity::Route {
            provider: "azure".into(),
            model: "gpt-4o".into(),
            key: "k-b".into(),
        },
        _ => Entity::Direction {
            provider: "azure".into(),
            model: "gpt-4o-mini".into(),
        },
    };
    let duration_ms = n * 7 % 50;
    let key = entity.key().cloned();
    Incident {
        id: format!("{n:016x}"),
        status,
        cause: Cause::ALL[usize::try_from(n).unwrap() % Cause::ALL.len()],
        worst: [Worst::Degraded, Worst::Failed][usize::try_from(n % 2).unwrap()],
        opened_at: WallMs(n * 10),
        resolved_at: over.then_some(WallMs(n * 10 + duration_ms)),
        duration_ms,
        models: entity
            .model()
            .cloned()
            .into_iter()
            .chain(["o1".into()])
            .collect(),
        keys: key
            .into_iter()
            .map(|key| (key, format!("The Key {n}")))
            .collect(),
        nodes: BTreeSet::from(["n1".into(), format!("n{}", n % 4).into()]),
        regions: BTreeSet::from(["us-east".into()]),
        refused_again: false,
        pinned_kept_failed: n,
        reopened: 0,
        words: String::new(),
        status_code: 0,
        timeline: Vec::new(),
        entity,
    }
}

fn many() -> Vec<Incident> {
    (1..=60)
        .map(|n| incident(n, Status::ALL[usize::try_from(n * n).unwrap() % 6]))
        .collect()
}

fn ids(page: &Page) -> Vec<u64> {
    let ids = page.matches.iter();
    ids.map(|i| u64::from_str_radix(&i.id, 16).unwrap())
        .collect()
}

fn filter(field: Field, values: &[&str]) -> Query {
    let values = values.iter().map(|value| field.value(value).unwrap());
    Query {
        values: [(field, values.collect())].into(),
        ..Query::default()
    }
}

#[test]
fn every_facet_counts_what_its_filter_matches() {
    let page = Query::default().select(many());
    for field in FACETS {
        let counts = &page.facets[field.name()];
        assert!(!counts.is_empty(), "{}", field.name());
        for (value, count) in counts {
            let matched = filter(field, &[value]).select(many());
            assert_eq!(
                matched.matches.len() as u64,
                *count,
                "{}={value}",
                field.name()
            );
            assert_eq!(matched.facets, page.facets, "facets are over the window");
            assert_eq!(matched.window_total, 60);
        }
    }
}

#[test]
fn closed_sets_are_taken_in_any_case_and_nothing_else_is() {
    assert_eq!(
        Field::Statuses.value("ATTENTION").as_deref(),
        Some("attention")
    );
    assert_eq!(
        Field::Reasons.value("key rejected").as_deref(),
        Some("Key rejected")
    );
    assert_eq!(
        Field::Reasons.value("credential").as_deref(),
        Some("Key rejected")
    );
    for field in [
        Field::Statuses,
        Field::States,
        Field::Scopes,
        Field::Reasons,
    ] {
        assert_eq!(field.value("loud"), None);
        for known in field.closed_set() {
            assert_eq!(field.value(known).as_deref(), Some(known));
        }
    }
    assert_eq!(
        Field::Providers.value("unheard-of").as_deref(),
        Some("unheard-of")
    );
}

#[test]
fn the_window_keeps_what_went_on_in_it() {
    let resolved = incident(1, Status::Resolved); // from 10 to 17
    let open = incident(2, Status::Attention); // from 20 on
    let listed = |from, to| {
        let query = Query {
            from: Some(WallMs(from)),
            to: Some(WallMs(to)),
            ..Query::default()
        };
        ids(&query.select(vec![resolved.clone(), open.clone()]))
    };
    assert_eq!(listed(0, 9), [0; 0]);
    assert_eq!(listed(0, 10), [1]);
    assert_eq!(listed(17, 19), [1]);
    assert_eq!(listed(18, 19), [0; 0]);
    assert_eq!(listed(18, 500), [2]);
    assert_eq!(listed(400, 500), [2]);
}

#[test]
fn search_finds_ids_providers_models_and_keys() {
    let found = |text: &str| {
        let query = Query {
            search: text.to_owned(),
            ..Query::default()
        };
        ids(&query.select(vec![
            incident(30, Status::Attention),
            incident(31, Status::Attention),
            incident(32, Status::Attention),
        ]))
    };
    assert_eq!(found("OPENAI"), [30]);
    assert_eq!(found("mini"), [32]);
    assert_eq!(found("K-B"), [31]);
    assert_eq!(found("the key 30"), [30]);
    assert_eq!(found("000000000000001e"), [30]);
    assert_eq!(found("nothing like it"), [0; 0]);
}

#[test]
fn ids_and_entities_are_whole() {
    let query = |ids: &[&str], entities: &[&str]| Query {
        ids: ids.iter().map(|s| (*s).to_owned()).collect(),
        entities: entities.iter().map(|s| (*s).to_owned()).collect(),
        ..Query::default()
    };
    let some = || {
        vec![
            incident(30, Status::Attention),
            incident(31, Status::Attention),
        ]
    };
    assert_eq!(ids(&query(&["000000000000001f"], &[]).select(some())), [31]);
    assert_eq!(ids(&query(&["1f"], &[]).select(some())), [0; 0]);
    assert_eq!(
        ids(&query(&[], &["route:azure:gpt-4o:k-b"]).select(some())),
        [31]
    );
    assert_eq!(
        ids(&query(&[], &["route:azure:gpt-4o"]).select(some())),
        [0; 0]
    );
}

#[test]
fn orders() {
    let order = |sort| {
        let query = Query {
            sort,
            ..Query::default()
        };
        ids(&query.select(vec![
            incident(1, Status::Mitigated),
            incident(2, Status::Attention),
            incident(8, Status::Resolved),
            incident(3, Status::Attention),
        ]))
    };
    assert_eq!(order(Sort::Priority), [3, 2, 8, 1]);
    assert_eq!(order(Sort::Newest), [8, 3, 2, 1]);
    assert_eq!(order(Sort::Oldest), [1, 2, 3, 8]);
    assert_eq!(order(Sort::Longest), [3, 2, 1, 8], "of equals, by id");
    assert_eq!(order(Sort::Shortest), [8, 1, 2, 3]);
    for (name, sort) in Sort::ALL {
        assert_eq!(Sort::named(name), Some(sort));
    }
    assert_eq!(Sort::named("loudest"), None);
}

#[test]
fn figures_cover_every_match_and_only_proved_ends_count_in_the_median() {
    let mut some = vec![
        incident(1, Status::Resolved),  // 7 ms
        incident(3, Status::Resolved),  // 21 ms
        incident(4, Status::Attention), // 28 ms
    ];
    let before = Query::default().select(some.clone()).summary;
    let expected = Summary {
        attention: 1,
        ongoing: 1,
        resolved: 2,
        median_resolve_ms: Some(14),
        longest_ongoing_ms: Some(28),
        pinned_kept_failed: 8,
    };
    assert_eq!(before, expected);
    some.push(incident(5, Status::Waiting));
    some.push(incident(6, Status::Unobserved));
    let after = Query::default().select(some).summary;
    assert_eq!(after.median_resolve_ms, before.median_resolve_ms);
    assert_eq!((after.ongoing, after.resolved), (2, 2));
    assert_eq!(
        Summary::default(),
        Query::default().select(Vec::new()).summary
    );
}

proptest! {
    /// Two values match at least as many as each of them, and no more than both together.
    #[test]
    fn values_of_one_filter_add_up(one in 0..6_usize, two in 0..6_usize) {
        let names = Status::ALL.map(Status::name);
        let count = |values: &[&str]| filter(Field::Statuses, values).select(many()).matches.len();
        let (a, b, both) = (count(&[names[one]]), count(&[names[two]]), count(&[names[one], names[two]]));
        prop_assert_eq!(both, if one == two { a } else { a + b });
    }
}

#[test]
fn filters_of_several_fields_must_all_match() {
    let mut query = filter(Field::Providers, &["openai"]);
    query
        .values
        .insert(Field::States, vec!["failed".to_owned()]);
    for found in query.select(many()).matches {
        assert_eq!(
            (found.entity.provider().as_str(), found.worst),
            ("openai", Worst::Failed)
        );
    }
    let none: BTreeMap<Field, Vec<String>> = [(Field::Models, Vec::new())].into();
    let query = Query {
        values: none,
        ..Query::default()
    };
    assert_eq!(
        query.select(many()).matches.len(),
        60,
        "an empty list is no filter"
    );
    assert_eq!(Cause::Refused(Reason::Quota).name(), "quota");
}
