// What may be said of health: never more than the last answer does, and nothing of what is no longer current.

/** An answer that is older than this says nothing any more. */
export const STALE_AFTER = 5_000;

/**
 * The word for an answer of the given age in milliseconds, or null when there was none: `healthy`, `degraded`,
 * `unhealthy` or `unknown`. A server that answers with an error is broken; one that does not answer is unknown.
 */
export function judged({ data, error }, age) {
  if (error && error.status >= 500) return 'unhealthy';
  if (age === null || age > STALE_AFTER || !data) return 'unknown';
  return data.condition;
}
