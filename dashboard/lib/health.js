// Health: the state to show for the latest response of the server, which may be out of date.

/** Age in milliseconds after which a response is out of date. */
export const STALE_AFTER = 5_000;

/**
 * Returns `healthy`, `degraded`, `unhealthy` or `unknown`. `age` is that of the latest response in milliseconds, null
 * without one. An error status of the server means unhealthy; no response means unknown.
 */
export function healthOf({ data, error }, age) {
  if (error && error.status >= 500) return 'unhealthy';
  if (age === null || age > STALE_AFTER || !data) return 'unknown';
  return data.condition;
}
