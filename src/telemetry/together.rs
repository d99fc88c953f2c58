//! Series that are counted together: one look-up finds them all, as often as a request needs them.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use arc_swap::ArcSwap;

/// What belongs to each set of labels. Labels are a closed set: nothing is ever taken out.
#[derive(Debug)]
pub(super) struct Together<L, S>(ArcSwap<HashMap<L, Arc<S>>>);

impl<L, S> Default for Together<L, S> {
    fn default() -> Self {
        Self(ArcSwap::from_pointee(HashMap::new()))
    }
}

impl<L: Clone + Eq + Hash, S> Together<L, S> {
    /// The series of these labels, which `find` looks up the first time. Who comes first at the same moment
    /// does not matter: both find the same series.
    pub(super) fn of(&self, labels: &L, find: impl FnOnce() -> S) -> Arc<S> {
        if let Some(known) = self.0.load().get(labels) {
            return Arc::clone(known);
        }
        let found = Arc::new(find());
        self.0.rcu(|known| {
            let mut more = HashMap::clone(known);
            more.insert(labels.clone(), Arc::clone(&found));
            more
        });
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_looked_up_once() {
        let together = Together::default();
        let first = together.of(&"a", || 1);
        let again = together.of(&"a", || unreachable!("it is known"));
        assert!(Arc::ptr_eq(&first, &again));
        assert_eq!(*together.of(&"b", || 2), 2);
    }
}
