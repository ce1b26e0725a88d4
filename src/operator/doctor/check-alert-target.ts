import type { AlertTarget } from '../../net/alert-target.ts';
import type { GuardedFetch } from '../../net/guarded-fetch.ts';
import { type Finding, getUnreachableAdvice, ok, warning } from './finding.ts';

/** Checks whether the server of ALERT_URL responds, without sending an alert. */
export async function checkAlertTarget(
  target: AlertTarget | null,
  fetch: Pick<GuardedFetch, 'request'>,
): Promise<Finding[]> {
  if (target === null) {
    return [];
  }
  const { origin } = new URL(target.url);
  const response = await fetch.request({ url: `${origin}/`, maxBodyBytes: 1024 * 1024 });
  if (response.outcome === 'responded') {
    const text = `ALERT_URL: ${origin} responds; \`nutpost alert test\` sends a test message`;
    return [ok('settings.alert_url', text)];
  }
  const { reason } = response;
  const text = `ALERT_URL: ${origin} cannot be reached (${reason}), so no alert reaches you`;
  return [warning('settings.alert_url', text, getUnreachableAdvice(reason))];
}
