//! Retry budgets, one per provider: shared by all requests, and by every view of the same rule.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use holdline_core::routing::{Bucket, BudgetRule, RetryBudget, View};
use holdline_core::time::Mono;

/// Gives the providers of a view their budgets: those of the view before where the rule is the same.
pub(super) fn carry_over(view: &mut View, before: &View) {
    for provider in view.providers.values_mut() {
        let Some(rule) = provider.retry.budget else {
            continue;
        };
        let kept = before.provider(&provider.id);
        let kept = kept.and_then(|provider| provider.retry_budget.clone());
        let budget = kept
            .filter(|budget| budget.rule() == rule)
            .unwrap_or_else(|| Arc::new(Shared::new(rule)));
        Arc::make_mut(provider).retry_budget = Some(budget);
    }
}

/// A bucket behind a mutex that is held for as long as it takes to count.
#[derive(Debug)]
struct Shared {
    rule: BudgetRule,
    bucket: Mutex<Bucket>,
}

impl Shared {
    fn new(rule: BudgetRule) -> Self {
        Self {
            rule,
            bucket: Mutex::new(Bucket::new(rule)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Bucket> {
        // Numbers only: a panic elsewhere leaves nothing half done.
        self.bucket.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RetryBudget for Shared {
    fn rule(&self) -> BudgetRule {
        self.rule
    }

    fn earn(&self, now: Mono) {
        self.lock().earn(now);
    }

    fn spend(&self, now: Mono) -> bool {
        self.lock().spend(now)
    }
}

#[cfg(test)]
mod tests {
    use holdline_core::ids::ProviderId;
    use holdline_core::routing::{ProviderView, RetryPolicy};

    use super::*;

    fn view(min_per_second: u32) -> View {
        let provider = ProviderView {
            id: ProviderId::from("p"),
            keys: Vec::new(),
            keyless: true,
            retry: RetryPolicy {
                budget: Some(BudgetRule {
                    ratio_permille: 0,
                    min_per_second,
                }),
                ..RetryPolicy::default()
            },
            retry_budget: None,
            health: Arc::default(),
            names: Arc::default(),
        };
        View {
            providers: [(provider.id.clone(), Arc::new(provider))].into(),
            ..View::default()
        }
    }

    #[test]
    fn a_view_made_anew_goes_on_with_what_is_left() {
        let spend = |view: &View| {
            let provider = view.provider(&ProviderId::from("p")).unwrap();
            provider.retry_budget.as_ref().unwrap().spend(Mono(0))
        };
        let mut first = view(1);
        carry_over(&mut first, &View::default());
        assert!(spend(&first));
        let mut same = view(1);
        carry_over(&mut same, &first);
        assert!(!spend(&same), "what was spent stays spent");
        let mut other = view(2);
        carry_over(&mut other, &same);
        assert!(spend(&other), "another rule begins afresh");
    }
}
