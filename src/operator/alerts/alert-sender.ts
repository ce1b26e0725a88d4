import type { AlertTarget } from '../../net/alert-target.ts';
import { HttpClient } from '../../net/http-client.ts';
import { FETCH_LIMITS } from '../../net/limits.ts';
import { defineCommand } from '../command.ts';
import { formatTime } from '../format.ts';

export interface AlertMessage {
  alert: string;
  state: 'begins' | 'over' | 'test';
  /** In ASCII, for a header. */
  title: string;
  text: string;
  sinceMs: number;
}

/** Sends a message to the operator's own server, which may be on a private network. Returns null, or why it failed. */
export async function sendAlert(
  { kind, url, authorization }: AlertTarget,
  message: AlertMessage,
): Promise<string | null> {
  const { alert, state, title, text, sinceMs } = message;
  const isNtfy = kind === 'ntfy';
  const json = { alert, state, title, text: `${title}: ${text}`, since: formatTime(sinceMs) };
  const client = new HttpClient({ allowPrivateNetworks: true }, FETCH_LIMITS);
  try {
    const response = await client.request({
      url,
      body: isNtfy ? text : JSON.stringify(json),
      headers: {
        ...(authorization !== null && { authorization }),
        ...(isNtfy && {
          'content-type': 'text/plain; charset=utf-8',
          title,
          ...NTFY_HEADERS[state],
        }),
      },
      maxBodyBytes: 64 * 1024,
      timeoutMs: FETCH_LIMITS.totalTimeoutMs,
    });
    if (response.outcome === 'unreachable') {
      return response.reason;
    }
    return response.status >= 200 && response.status < 300 ? null : `HTTP ${response.status}`;
  } finally {
    await client.close();
  }
}

const NTFY_HEADERS = {
  begins: { priority: 'high', tags: 'warning' },
  over: { tags: 'white_check_mark' },
  test: {},
};

export const alertTestCommand = defineCommand({
  name: 'alert test',
  description: 'sends a test message to ALERT_URL',
  run: async ({ config: { alertTarget }, clock }) => {
    const text = 'This is a test. Alerts of nutpost arrive here.';
    const message = { alert: 'test', state: 'test', title: 'Test', text } as const;
    const reason =
      alertTarget === null
        ? 'ALERT_URL is not set'
        : await sendAlert(alertTarget, { ...message, sinceMs: clock() });
    return {
      isSuccess: reason === null,
      json: { outcome: reason === null ? 'sent' : 'not_sent', reason },
      lines: [reason === null ? 'The test message was accepted.' : `Not sent: ${reason}.`],
    };
  },
});
