//! Waiting for something that another process does: ask again until it is so, or say what was missing.

use std::time::{Duration, Instant};

use anyhow::bail;

/// The first pause between two questions; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// Asks until `probe` answers with a value, and returns it with the time that took.
///
/// # Errors
/// When `limit` is over: `what`, and the last reason why it was not so.
pub async fn until<T, P>(limit: Duration, what: &str, mut probe: P) -> anyhow::Result<(T, Duration)>
where
    P: AsyncFnMut() -> anyhow::Result<T>,
{
    let start = Instant::now();
    let mut pause = FIRST_PAUSE;
    loop {
        match probe().await {
            Ok(value) => return Ok((value, start.elapsed())),
            Err(reason) if start.elapsed() >= limit => {
                bail!(
                    "{what}: not within {:.1} s: {reason:#}",
                    limit.as_secs_f64()
                )
            }
            Err(_) => {}
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn gives_up_with_the_last_reason() {
        let probe = async || -> anyhow::Result<()> { bail!("still dark") };
        let error = until(Duration::ZERO, "a light", probe).await.unwrap_err();
        assert_eq!(error.to_string(), "a light: not within 0.0 s: still dark");
    }

    #[tokio::test]
    async fn asks_again_until_it_is_so() {
        let mut left = 3;
        let probe = async || {
            left -= 1;
            if left > 0 {
                bail!("not yet")
            } else {
                Ok("lit")
            }
        };
        let (value, _) = until(Duration::from_secs(5), "a light", probe)
            .await
            .unwrap();
        assert_eq!(value, "lit");
    }
}
