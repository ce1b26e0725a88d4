import { defineCommand } from '../command.ts';
import { sendAlert } from './alert-sender.ts';

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
