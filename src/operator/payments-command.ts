import { parseArgs } from 'node:util';
import type { PaidQuoteState } from '../quotes/quote-state.ts';
import {
  type OperatorCommand,
  parseAmountSat,
  parseLimit,
  parseMintOption,
  parseTime,
  renderReport,
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
      before: parsePage(values.page),
    };
    return async ({ db, clock }) => {
      const rows = await listPayments(db, filter, limit + 1);
      const page = rows.slice(0, limit);
      const last = rows.length > limit ? page.at(-1) : undefined;
      const nextPage = last && `${last.paidAtMs}-${last.id}`;
      const payments = page.map(({ recipientName, ...quote }) => ({
        ...redactQuote(quote, false),
        recipientName,
      }));
      const lines = payments.map((payment) => {
        const recipient = pubkeyToText(payment.pubkey, payment.recipientName);
        const text = quoteToText(payment, payment.paidAtMs ?? payment.createdAtMs).trimStart();
        return `${text}  ${recipient}  ${payment.mintUrl}`;
      });
      return renderReport(
        {
          isSuccess: true,
          json: { nowMs: clock(), payments, nextPage },
          lines: [
            ...(lines.length === 0 ? ['No payments.'] : lines),
            ...(nextPage ? [`There are more: repeat the command with --page ${nextPage}`] : []),
          ],
        },
        values.json,
      );
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

function parsePage(text: string | undefined) {
  if (text === undefined) {
    return null;
  }
  const [, paidAtMs, id] = /^(\d{1,15})-(\d{1,15})$/.exec(text) ?? [];
  if (id === undefined) {
    throw new UsageError(`--page must be what the previous page printed (got '${text}').`);
  }
  return { paidAtMs: Number(paidAtMs), id: Number(id) };
}
