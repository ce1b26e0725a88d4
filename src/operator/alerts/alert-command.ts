import { parseArgs } from 'node:util';
import {
  type OperatorCommand,
  parseAction,
  renderReport,
  requireSingleOperand,
} from '../command.ts';
import { sendAlert } from './alert-sender.ts';

export const alertCommand: OperatorCommand = {
  name: 'alert',
  usage: `  alert test
           sends a test message to ALERT_URL; --json for scripts
`,
  parse: (args) => {
    const { values, positionals } = parseArgs({
      args,
      options: { json: { type: 'boolean', default: false } },
      allowPositionals: true,
    });
    parseAction({ test: [] }, requireSingleOperand(positionals, 'Give one action: test.'), values);
    return async ({ alertTarget, clock }) => {
      const text = 'This is a test. Alerts of nutpost arrive here.';
      const message = { alert: 'test', state: 'test', title: 'Test', text } as const;
      const reason =
        alertTarget === null
          ? 'ALERT_URL is not set'
          : await sendAlert(alertTarget, { ...message, sinceMs: clock() });
      const lines = [reason === null ? 'The test message was accepted.' : `Not sent: ${reason}.`];
      const json = { outcome: reason === null ? 'sent' : 'not_sent', reason };
      return renderReport({ isSuccess: reason === null, json, lines }, values.json);
    };
  },
};
