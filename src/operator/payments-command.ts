import { parseArgs } from 'node:util';
import type { PaidQuoteState } from '../quotes/quote-state.ts';
import {
  type OperatorCommand,
  parseAmountSat,
  parseLimit,
  parseMintOption,
  parsePageId,
  parseTime,
  renderReport,
  reportPage,
  UsageError,
} from './command.ts';
import { pubkeyToText } from './format.ts';
import { listPayments } from './report-store.ts';
import { redactQuote } from './trace/trace.ts';
import { quoteToText } from './trace/trace-command.ts';

export const paymentsCommand: OperatorCommand = {
  name: 'payments',
  usage: `  payments [--since <time>] [--min <sat>] [--mint <URL>] [--state PAID | INFLIGHT | ISSUED]
           lists the payments to all recipients, the newest first; --limit <number> lists more of
           them than 50, --page continues a list, --json is for scripts
`,
  parse: (args) => {
    const { values } = parseArgs({
      args,
      options: {
        json: { type: 'boolean', default: false },
        limit: { type: 'string', default: '50' },
        page: { type: 'string' },
        since: { type: 'string' },
        min: { type: 'string' },
        mint: { type: 'string' },
        state: { type: 'string' },
      },
    });
    const limit = parseLimit(values.limit);
    const filter = {
      sinceMs: parseTime('--since', values.since),
      minSat: parseAmountSat(values.min, '--min'),
      mintUrl: parseMintOption(values.mint),
      state: parseState(values.state),
      beforeId: parsePageId(values.page),
    };
    return async ({ db, clock }) => {
      const rows = await listPayments(db, filter, limit + 1);
      const page = { name: 'payments', limit, nowMs: clock() };
      // Without the ids of unlocked quotes, which are as good as money.
      const payments = rows.map(({ id, recipientName, ...quote }) => {
        return { id, recipientName, ...redactQuote({ id, ...quote }, false) };
      });
      const report = reportPage(
        payments,
        page,
        ({ id }) => `${id}`,
        (payment) => {
          const text = quoteToText(payment, payment.paidAtMs ?? payment.createdAtMs).trimStart();
          const recipient = pubkeyToText(payment.pubkey, payment.recipientName);
          return `${text}  ${recipient}  ${payment.mintUrl}`;
        },
      );
      return renderReport(report, values.json);
    };
  },
};

function parseState(text: string | undefined): PaidQuoteState | null {
  const states = ['PAID', 'INFLIGHT', 'ISSUED'] as const;
  const state = states.find((name) => name === text?.toUpperCase()) ?? null;
  if (text !== undefined && state === null) {
    throw new UsageError(`--state must be one of ${states.join(', ')} (got '${text}').`);
  }
  return state;
}
