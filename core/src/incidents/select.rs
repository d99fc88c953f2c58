//! Which incidents are listed, in which order, and how many of each kind there are.
//!
//! A filter and its facet read the same values ([`Field::values`]), so they cannot disagree.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::merge::Incident;
use super::sighting::{Cause, Status};
use crate::time::WallMs;

/// What incidents are filtered and counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Field {
    /// See [`Status`].
    Statuses,
    /// How bad it got.
    States,
    /// What kind of thing it is about.
    Scopes,
    /// Why, in words.
    Reasons,
    /// Whose.
    Providers,
    /// Models.
    Models,
    /// Who saw it.
    Nodes,
    /// Where it was seen.
    Regions,
}

/// The fields that are counted.
pub const FACETS: [Field; 8] = [
    Field::Statuses,
    Field::States,
    Field::Scopes,
    Field::Reasons,
    Field::Providers,
    Field::Models,
    Field::Nodes,
    Field::Regions,
];

/// How many incidents have each value of each field.
pub type Facets = BTreeMap<&'static str, BTreeMap<String, u64>>;

/// The order of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// What needs attention first, then the newest.
    #[default]
    Priority,
    /// By opening.
    Newest,
    /// By opening.
    Oldest,
    /// By duration.
    Longest,
    /// By duration.
    Shortest,
}

/// Which incidents are wanted. An empty list is no filter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// Those that were over before are out.
    pub from: Option<WallMs>,
    /// Those that began later are out.
    pub to: Option<WallMs>,
    /// Entity keys, whole.
    pub entities: Vec<String>,
    /// Incident ids.
    pub ids: Vec<String>,
    /// Values of fields.
    pub values: BTreeMap<Field, Vec<String>>,
    /// In id, provider, models, key ids or key names, in any case.
    pub search: String,
    /// In which order.
    pub sort: Sort,
}

/// Figures over all that match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Waiting on an operator.
    pub attention: u64,
    /// Not over for good: all but resolved and unobserved ones.
    pub ongoing: u64,
    /// Proved to be over.
    pub resolved: u64,
    /// Of the resolved ones; those that wait or were lost sight of prove nothing.
    pub median_resolve_ms: Option<u64>,
    /// Of the ongoing ones.
    pub longest_ongoing_ms: Option<u64>,
    /// Requests that named a failing provider and stayed there.
    pub pinned_kept_failed: u64,
}

/// What a query finds.
#[derive(Clone, Debug)]
pub struct Page {
    /// All that match, in order.
    pub matches: Vec<Incident>,
    /// How many there are in the window, whatever the filters.
    pub window_total: usize,
    /// Over the window, whatever the filters.
    pub facets: Facets,
    /// Over all that match.
    pub summary: Summary,
}

impl Field {
    /// As the API names it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Statuses => "statuses",
            Self::States => "states",
            Self::Scopes => "scopes",
            Self::Reasons => "reasons",
            Self::Providers => "providers",
            Self::Models => "models",
            Self::Nodes => "nodes",
            Self::Regions => "regions",
        }
    }

    /// What an incident has of it: what is counted, and what a filter matches.
    #[must_use]
    pub fn values(self, incident: &Incident) -> Vec<&str> {
        match self {
            Self::Statuses => vec![incident.status.name()],
            Self::States => vec![incident.worst.name()],
            Self::Scopes => vec![incident.entity.extent().name()],
            Self::Reasons => vec![incident.cause.words()],
            Self::Providers => vec![incident.entity.provider().as_str()],
            Self::Models => incident.models.iter().map(|m| m.as_str()).collect(),
            Self::Nodes => incident.nodes.iter().map(|n| n.as_str()).collect(),
            Self::Regions => incident.regions.iter().map(|r| r.as_str()).collect(),
        }
    }

    /// The value as it is counted, if it can be one: fields with a closed set know theirs, in any case; a
    /// reason also by its short name. Names of providers, models, nodes and regions are taken as they are.
    #[must_use]
    pub fn value(self, text: &str) -> Option<String> {
        let known = |names: &[&str]| {
            let found = names.iter().find(|name| name.eq_ignore_ascii_case(text));
            found.map(|name| (*name).to_owned())
        };
        match self {
            Self::Statuses => known(&Status::ALL.map(Status::name)),
            Self::States => known(&STATES),
            Self::Scopes => known(&super::Extent::ALL.map(super::Extent::name)),
            Self::Reasons => Cause::ALL
                .iter()
                .find(|cause| {
                    [cause.words(), cause.name()]
                        .iter()
                        .any(|name| name.eq_ignore_ascii_case(text))
                })
                .map(|cause| cause.words().to_owned()),
            Self::Providers | Self::Models | Self::Nodes | Self::Regions => Some(text.to_owned()),
        }
    }

    /// The values that a closed set has.
    #[must_use]
    pub fn closed_set(self) -> Vec<&'static str> {
        match self {
            Self::Statuses => Status::ALL.map(Status::name).to_vec(),
            Self::States => STATES.to_vec(),
            Self::Scopes => super::Extent::ALL.map(super::Extent::name).to_vec(),
            Self::Reasons => Cause::ALL.map(Cause::words).to_vec(),
            Self::Providers | Self::Models | Self::Nodes | Self::Regions => Vec::new(),
        }
    }
}

/// The states of routes and directions. No incident is at its worst while healthy or recovering.
const STATES: [&str; 4] = ["healthy", "degraded", "recovering", "failed"];

impl Sort {
    /// All orders, by name.
    pub const ALL: [(&'static str, Self); 5] = [
        ("priority", Self::Priority),
        ("newest", Self::Newest),
        ("oldest", Self::Oldest),
        ("longest", Self::Longest),
        ("shortest", Self::Shortest),
    ];

    /// The order of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, sort)| *sort)
    }

    fn sort(self, incidents: &mut [Incident]) {
        let newest = |i: &Incident| (Reverse(i.opened_at), i.id.clone());
        match self {
            Self::Priority => {
                incidents.sort_by_cached_key(|i| (i.status != Status::Attention, newest(i)));
            }
            Self::Newest => incidents.sort_by_cached_key(newest),
            Self::Oldest => incidents.sort_by_cached_key(|i| (i.opened_at, i.id.clone())),
            Self::Longest => {
                incidents.sort_by_cached_key(|i| (Reverse(i.duration_ms), i.id.clone()));
            }
            Self::Shortest => incidents.sort_by_cached_key(|i| (i.duration_ms, i.id.clone())),
        }
    }
}

impl Query {
    /// Picks, counts and sorts.
    #[must_use]
    pub fn select(&self, incidents: Vec<Incident>) -> Page {
        let mut facets = Facets::new();
        for field in FACETS {
            facets.insert(field.name(), BTreeMap::new());
        }
        let mut window_total = 0;
        let mut matches = Vec::new();
        for incident in incidents {
            if !self.is_in_window(&incident) {
                continue;
            }
            window_total += 1;
            for field in FACETS {
                let counts = facets.entry(field.name()).or_default();
                for value in field.values(&incident) {
                    *counts.entry(value.to_owned()).or_default() += 1;
                }
            }
            if self.matches(&incident) {
                matches.push(incident);
            }
        }
        self.sort.sort(&mut matches);
        let summary = Summary::of(&matches);
        Page {
            matches,
            window_total,
            facets,
            summary,
        }
    }

    /// What goes on, or went on at any time between `from` and `to`, of the wanted entities.
    fn is_in_window(&self, incident: &Incident) -> bool {
        let began = self.to.is_none_or(|to| incident.opened_at <= to);
        let lasted = self
            .from
            .is_none_or(|from| incident.resolved_at.is_none_or(|at| at >= from));
        let entity = || {
            let name = incident.entity.to_string();
            self.entities.is_empty() || self.entities.contains(&name)
        };
        began && lasted && entity()
    }

    fn matches(&self, incident: &Incident) -> bool {
        let id = self.ids.is_empty() || self.ids.contains(&incident.id);
        let values = self.values.iter().all(|(field, wanted)| {
            wanted.is_empty()
                || field
                    .values(incident)
                    .iter()
                    .any(|value| wanted.iter().any(|wanted| wanted == value))
        });
        id && values && self.is_found(incident)
    }

    fn is_found(&self, incident: &Incident) -> bool {
        if self.search.is_empty() {
            return true;
        }
        let wanted = self.search.to_lowercase();
        let models = incident.models.iter().map(|m| m.as_str());
        let keys = incident
            .keys
            .iter()
            .flat_map(|(id, name)| [id.as_str(), name.as_str()]);
        [incident.id.as_str(), incident.entity.provider().as_str()]
            .into_iter()
            .chain(models)
            .chain(keys)
            .any(|text| text.to_lowercase().contains(&wanted))
    }
}

impl Summary {
    fn of(matches: &[Incident]) -> Self {
        let count = |is: &dyn Fn(Status) -> bool| {
            let found = matches.iter().filter(|i| is(i.status)).count();
            u64::try_from(found).unwrap_or(u64::MAX)
        };
        let durations = |is: &dyn Fn(Status) -> bool| {
            let of = matches.iter().filter(|i| is(i.status));
            of.map(|i| i.duration_ms).collect::<Vec<u64>>()
        };
        Self {
            attention: count(&|status| status == Status::Attention),
            ongoing: count(&Status::is_open),
            resolved: count(&|status| status == Status::Resolved),
            median_resolve_ms: median(durations(&|status| status == Status::Resolved)),
            longest_ongoing_ms: durations(&Status::is_open).into_iter().max(),
            pinned_kept_failed: matches
                .iter()
                .fold(0, |sum, i| sum.saturating_add(i.pinned_kept_failed)),
        }
    }
}

/// The middle one; of an even number, between the two in the middle.
fn median(mut numbers: Vec<u64>) -> Option<u64> {
    numbers.sort_unstable();
    let upper = *numbers.get(numbers.len() / 2)?;
    if numbers.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = numbers[numbers.len() / 2 - 1];
    Some(lower.midpoint(upper))
}

#[cfg(test)]
mod tests;
