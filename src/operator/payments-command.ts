import { defineCommand, reportPage } from './command.ts';
import { pubkeyToText } from './format.ts';
import {
  parseAmountSat,
  parseChoice,
  parseLimit,
  parseMintUrl,
  parsePageId,
  parseTime,
} from './options.ts';
import { listPayments, PAID_STATES } from './report-store.ts';
import { redactQuote } from './trace/trace.ts';
import { quoteToText } from './trace/trace-command.ts';

const parseState = parseChoice(...PAID_STATES);

export const paymentsCommand = defineCommand({
  name: 'payments',
  synopsis: '[--since <time>] [--min <sat>] [--mint <URL>] [--state PAID | INFLIGHT | ISSUED]',
  description:
    'lists the payments to all recipients, the newest first; --limit <number> lists more of them than 50, --page continues a list',
  options: {
    limit: parseLimit,
    page: parsePageId,
    since: parseTime,
    min: parseAmountSat,
    mint: parseMintUrl,
    state: parseState,
  },
  run: async ({ db, clock }, { limit: givenLimit, page: beforeId, since, min, mint, state }) => {
    const limit = givenLimit ?? 50;
    const filter = { sinceMs: since, minSat: min, mintUrl: mint, state, beforeId };
    const rows = await listPayments(db, filter, limit + 1);
    // Without the ids of unlocked quotes, which are as good as money.
    const payments = rows.map(({ recipientName, ...quote }) => {
      return { id: quote.id, recipientName, ...redactQuote(quote, false) };
    });
    return reportPage(
      payments,
      { name: 'payments', limit, nowMs: clock() },
      ({ id }) => `${id}`,
      (payment) => {
        const text = quoteToText(payment, payment.paidAtMs ?? payment.createdAtMs).trimStart();
        const recipient = pubkeyToText(payment.pubkey, payment.recipientName);
        return `${text}  ${recipient}  ${payment.mintUrl}`;
      },
    );
  },
});
