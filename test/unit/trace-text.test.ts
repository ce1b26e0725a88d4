import { nip19 } from 'nostr-tools';
import { describe, expect, it } from 'vitest';
import { traceToJson } from '../../src/commands/trace-json.ts';
import { traceToText } from '../../src/commands/trace-text.ts';
import type { QuoteState } from '../../src/domain/quote.ts';
import type { QuoteEvent } from '../../src/domain/quote-event.ts';
import { quoteOutlook } from '../../src/domain/quote-outlook.ts';
import type { TracedDelivery } from '../../src/store/zap-receipt-store.ts';
import type {
  PaymentTrace,
  RecipientTrace,
  ShownQuote,
  Trace,
} from '../../src/usecases/trace-payment.ts';

/** What an operator reads. */

const PUBKEY = '79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798';
const NPUB = nip19.npubEncode(PUBKEY);
const PAYMENT_HASH = 'ab'.repeat(32);

const MADE = '2026-08-01T12:00:00.000Z';
const MADE_MS = Date.parse(MADE);
const SECOND_MS = 1_000;
const HOUR_MS = 3_600 * SECOND_MS;
const DAY_MS = 24 * HOUR_MS;

describe('a payment', () => {
  it('that was made and not collected is told from its making to what is next', () => {
    const text = textOf(
      payment('PAID', {
        recipientName: 'alice',
        events: [
          {
            atMs: MADE_MS + 9_000,
            kind: 'state',
            from: 'UNPAID',
            to: 'PAID',
            source: 'socket',
          },
          { atMs: MADE_MS + 9_012, kind: 'told', sockets: 2 },
        ],
      }),
      MADE_MS + 12_000,
    );
    expect(text).toBe(`2,100 sat for alice (${NPUB})
  State         PAID: it was paid, and is not collected yet
  Mint          https://mint.example
  Quote id      (hidden: whoever has it can take the money; --reveal shows it)
  Locked        no
  Payment hash  ${PAYMENT_HASH}
  Made          2026-08-01T12:00:00.000Z (12 s ago)
  Expires       2026-08-01T13:00:00.000Z (in 60 min)

What happened
  2026-08-01T12:00:00.000Z  The mint made the quote, and its invoice was handed out.
  2026-08-01T12:00:09.000Z  The mint said PAID through its socket: the payment entered the list of the recipient.
  2026-08-01T12:00:09.012Z  2 sockets of the recipient were sent \`update\`.

What happens next
  The mint is asked about it until 2026-08-08T12:00:09.000Z (in 7 days).
  Process p1 watches this mint.
  The wallet of the recipient has to collect it from the mint.
  It can until 2026-08-01T13:00:00.000Z (in 60 min); some mints refuse it afterwards.
`);
  });

  it('that no wallet was told of says so, and where it is found', () => {
    const events: QuoteEvent[] = [
      { atMs: MADE_MS + 9_000, kind: 'state', from: 'UNPAID', to: 'PAID', source: 'poll' },
    ];
    expect(textOf(payment('PAID', { events }))).toContain(
      'No wallet is known to have been sent `update`: one finds it when it reads its list.',
    );
  });

  it('whose quote has expired may be refused by the mint', () => {
    expect(textOf(payment('PAID'), MADE_MS + 3 * HOUR_MS)).toContain(
      'The quote expired at 2026-08-01T13:00:00.000Z (2 h ago): some mints refuse it now.',
    );
  });

  it('whose history is forgotten still says when it was recorded', () => {
    const text = textOf(payment('ISSUED', { watchedBy: null }), MADE_MS + 60 * DAY_MS);
    expect(text).toContain(
      '2026-08-01T12:00:09.000Z  The payment was recorded. (No more is kept of it: history goes back 30 days.)',
    );
    expect(text).toContain('Nothing: whoever looks for the money finds it in the wallet');
    expect(text).not.toContain('asked about it until');
  });

  it('is told with each word of its mint', () => {
    const text = textOf(
      payment('ISSUED', {
        events: [
          {
            atMs: MADE_MS + 1,
            kind: 'disbelieved',
            reason: 'another_amount_or_invoice',
            said: 'PAID',
          },
          { atMs: MADE_MS + 2, kind: 'state', from: 'UNPAID', to: 'EXPIRED', source: 'poll' },
          { atMs: MADE_MS + 3, kind: 'state', from: 'EXPIRED', to: 'INFLIGHT', source: 'poll' },
          { atMs: MADE_MS + 4, kind: 'told', sockets: 1 },
          { atMs: MADE_MS + 5, kind: 'state', from: 'INFLIGHT', to: 'ISSUED', source: 'socket' },
          { atMs: MADE_MS + 6, kind: 'disbelieved', reason: 'backwards', said: 'UNPAID' },
        ],
      }),
    );
    const told = text
      .split('\n')
      .filter((line) => line.startsWith('  2026'))
      .map((line) => line.slice(28));
    expect(told).toEqual([
      'The mint made the quote, and its invoice was handed out.',
      'The mint said PAID, but for another amount or invoice: not believed.',
      'The mint still said UNPAID when it was asked, long after the invoice had ended.',
      'The mint said INFLIGHT when it was asked: the payment entered the list of the recipient.',
      '1 socket of the recipient was sent `update`.',
      'The mint said ISSUED through its socket.',
      'The mint said UNPAID, which takes back what it had said: not believed.',
    ]);
  });
});

describe('an invoice that nobody has paid', () => {
  it('can be paid until its end', () => {
    const text = textOf(payment('UNPAID'), MADE_MS + 1_000);
    expect(text).toContain('State         UNPAID: the mint has seen no payment yet');
    expect(text).toContain('The payer can pay its invoice until 2026-08-01T13:00:00.000Z');
  });

  it('is asked about for a day after its end', () => {
    const text = textOf(payment('UNPAID'), MADE_MS + 2 * HOUR_MS);
    expect(text).toContain('UNPAID: its invoice has ended, and the mint has seen no payment');
    expect(text).toContain('The mint is asked about it until 2026-08-02T13:00:00.000Z (in 23 h).');
    expect(text).toContain('A payment can still settle late.');
  });

  it('is given up after that', () => {
    const text = textOf(payment('EXPIRED'), MADE_MS + 3 * DAY_MS);
    expect(text).toContain('EXPIRED: the mint saw no payment, long after its invoice had ended');
    expect(text).toContain('Nothing: the mint is no longer asked about it.');
  });
});

describe('who asks the mint', () => {
  it('is nobody where no service runs', () => {
    const text = textOf(payment('UNPAID', { watchedBy: null }), MADE_MS + 60_000);
    expect(text).toContain('No process watches this mint at the moment: is the service running?');
  });

  it('was a process that has fallen silent', () => {
    const watchedBy = { processId: 'p1', isAlive: false };
    expect(textOf(payment('UNPAID', { watchedBy }))).toContain(
      'Process p1 watched this mint and has fallen silent: is the service running?',
    );
  });

  it('is limited by the mint', () => {
    const mintLimits: PaymentTrace['mintLimits'] = [
      { route: 'check', requestsPerMinute: 20 },
      { route: 'read', requestsPerMinute: 60 },
    ];
    const text = textOf(payment('UNPAID', { mintLimits }));
    expect(text).toContain('The mint limits requests for batches of quotes to about 20 a minute.');
    expect(text).toContain('The mint limits requests for single quotes to about 60 a minute.');
  });
});

describe('a zap', () => {
  const ID = 'ef'.repeat(32);
  const DELIVERY: TracedDelivery = {
    relay: 'wss://relay.example',
    state: 'open',
    tries: 0,
    lastWord: null,
    lastTryAtMs: null,
    nextTryAtMs: MADE_MS + 9_000,
    giveUpAtMs: MADE_MS + 2 * DAY_MS,
    standing: null,
  };
  const ENDED = { nextTryAtMs: null, lastTryAtMs: MADE_MS + 10_000, tries: 1 };

  it.each(['UNPAID', 'EXPIRED'] as const)('that is %s has a receipt to come', (state) => {
    const text = textOf(zap(state, null));
    expect(text).toContain(
      '  Zap           yes: a receipt is made once it is paid, where ZAP_SECRET_KEY is set then\n',
    );
    expect(text).not.toContain('Zap receipt');
  });

  it('that is paid has its receipt, or none: nothing is still to come', () => {
    const withReceipt = textOf(zap('PAID', []));
    expect(withReceipt).toContain(
      '  Zap           yes: it was paid, and its receipt was made (see below)\n',
    );
    const without = textOf(zap('ISSUED', null));
    expect(without).toContain(
      '  Zap           yes: it was paid, and there is no receipt (see below)\n',
    );
    expect(withReceipt + without).not.toContain('once it is paid');
  });

  it('has a receipt that relays accepted and refused, each in its words', () => {
    const text = receiptText([
      { ...DELIVERY, ...ENDED, relay: 'wss://a.example', state: 'accepted' },
      {
        ...DELIVERY,
        ...ENDED,
        relay: 'wss://b.example',
        state: 'accepted',
        lastWord: 'duplicate: have it',
      },
      { ...DELIVERY, ...ENDED, state: 'refused', lastWord: 'blocked: not for you' },
    ]);
    expect(text).toBe(`
Zap receipt ${ID}
  Made 2026-08-01T12:00:09.000Z (3 s ago)
  wss://a.example
    Accepted at 2026-08-01T12:00:10.000Z (2 s ago)
  wss://b.example
    Accepted at 2026-08-01T12:00:10.000Z (2 s ago): duplicate: have it
  wss://relay.example
    Refused at 2026-08-01T12:00:10.000Z (2 s ago): blocked: not for you
`);
  });

  it('has a receipt that is on its way, and says why it is not there and when it is tried next', () => {
    const tried = { tries: 3, lastTryAtMs: MADE_MS + 10_000, nextTryAtMs: MADE_MS + 72_000 };
    const text = receiptText([
      { ...DELIVERY, relay: 'wss://a.example' },
      { ...DELIVERY, ...tried, relay: 'wss://b.example', lastWord: 'error: disk full' },
      {
        ...DELIVERY,
        relay: 'wss://c.example',
        standing: {
          failures: 4,
          restUntilMs: MADE_MS + 132_000,
          word: 'connection refused',
        },
      },
      {
        ...DELIVERY,
        ...tried,
        relay: 'wss://d.example',
        lastWord: 'no answer',
        standing: { failures: 1, restUntilMs: MADE_MS + 11_000, word: null },
      },
      {
        ...DELIVERY,
        relay: 'wss://e.example',
        standing: { failures: 0, restUntilMs: MADE_MS + 72_000, word: 'rate-limited' },
      },
      {
        ...DELIVERY,
        relay: 'wss://f.example',
        standing: { failures: 0, restUntilMs: MADE_MS + 11_000, word: 'rate-limited' },
      },
    ]);
    const end = 'given up after 2026-08-03T12:00:00.000Z';
    expect(text).toContain(`
  wss://a.example
    Not delivered yet; never sent
    Due since 2026-08-01T12:00:09.000Z (3 s ago), ${end}
  wss://b.example
    Not delivered yet; sent 3 times, the last time at 2026-08-01T12:00:10.000Z (2 s ago): error: disk full
    Tried next at 2026-08-01T12:01:12.000Z (in 60 s), ${end}
  wss://c.example
    Not delivered yet; never sent
    The relay failed 4 times in a row: connection refused
    Tried next at 2026-08-01T12:02:12.000Z (in 2 min), ${end}
  wss://d.example
    Not delivered yet; sent 3 times, the last time at 2026-08-01T12:00:10.000Z (2 s ago): no answer
    The relay failed
    Tried next at 2026-08-01T12:01:12.000Z (in 60 s), ${end}
  wss://e.example
    Not delivered yet; never sent
    The relay is left alone: rate-limited
    Tried next at 2026-08-01T12:01:12.000Z (in 60 s), ${end}
  wss://f.example
    Not delivered yet; never sent
    Due since 2026-08-01T12:00:11.000Z (1 s ago), ${end}
`);
  });

  it('has a receipt that was given up', () => {
    const text = receiptText([
      { ...DELIVERY, state: 'given_up', nextTryAtMs: null, relay: 'wss://a.example' },
      { ...DELIVERY, ...ENDED, state: 'given_up', lastWord: 'error: disk full' },
    ]);
    expect(text).toContain('  wss://a.example\n    Given up; never sent\n');
    const away = {
      ...DELIVERY,
      state: 'given_up',
      nextTryAtMs: null,
      lastWord: 'timed out',
    } as const;
    expect(receiptText([away])).toContain('    Given up; never sent: timed out\n');
    expect(text).toContain(
      '    Given up; sent once, the last time at 2026-08-01T12:00:10.000Z (2 s ago): error: disk full\n',
    );
  });

  it('has a receipt that goes nowhere', () => {
    expect(receiptText([])).toContain(
      '  It goes nowhere: the zap request names no relay that can be used, and ZAP_RELAYS none.\n',
    );
  });

  it('has no receipt where none was made, or it is forgotten', () => {
    expect(textOf(zap('PAID', null))).toContain(
      'Zap receipt\n  None was made: the process that recorded the payment had no ZAP_SECRET_KEY, or the log says why.\n',
    );
    expect(textOf(zap('ISSUED', null), MADE_MS + 31 * DAY_MS)).toContain(
      'Zap receipt\n  None is kept: history goes back 30 days.\n',
    );
  });

  it('is told to programs with each of its relays', () => {
    const deliveries: TracedDelivery[] = [
      { ...DELIVERY, ...ENDED, state: 'accepted', relay: 'wss://a.example' },
      {
        ...DELIVERY,
        tries: 1,
        lastTryAtMs: MADE_MS + 10_000,
        lastWord: 'no answer',
        standing: { failures: 1, restUntilMs: MADE_MS + 15_000, word: 'no answer' },
      },
      {
        ...DELIVERY,
        relay: 'wss://c.example',
        standing: { failures: 1, restUntilMs: null, word: null },
      },
    ];
    const json = traceToJson(found(zap('PAID', deliveries), MADE_MS));
    const onItsWay = {
      state: 'open',
      nextTryAt: '2026-08-01T12:00:09.000Z',
      giveUpAt: '2026-08-03T12:00:00.000Z',
    };
    expect(json).toMatchObject({ payments: [{ isZap: true, hasComment: false }] });
    expect(json).toHaveProperty('payments[0].receipt', {
      id: ID,
      createdAt: '2026-08-01T12:00:09.000Z',
      relays: [
        {
          relay: 'wss://a.example',
          state: 'accepted',
          tries: 1,
          lastTryAt: '2026-08-01T12:00:10.000Z',
        },
        {
          ...onItsWay,
          relay: 'wss://relay.example',
          tries: 1,
          lastTryAt: '2026-08-01T12:00:10.000Z',
          lastWord: 'no answer',
          standing: { failures: 1, restUntil: '2026-08-01T12:00:15.000Z', word: 'no answer' },
        },
        { ...onItsWay, relay: 'wss://c.example', tries: 0, standing: { failures: 1 } },
      ],
    });
  });

  /** The end of what is told. */
  function receiptText(deliveries: TracedDelivery[]): string {
    const text = textOf(zap('PAID', deliveries));
    return text.slice(text.indexOf('\nZap receipt'));
  }

  function zap(state: QuoteState, deliveries: TracedDelivery[] | null): PaymentTrace {
    const { quote, ...rest } = payment(state);
    const receipt = deliveries && { id: ID, createdAtMs: MADE_MS + 9_000, deliveries };
    return { ...rest, quote: { ...quote, isZap: true }, receipt };
  }
});

describe('a comment', () => {
  it('is known to be there, and is not shown', () => {
    const { quote, ...rest } = payment('PAID');
    const commented = { ...rest, quote: { ...quote, hasComment: true } };
    expect(textOf(commented)).toContain(
      '  Comment       (hidden: the words of the payer are for the recipient)\n',
    );
    expect(traceToJson(found(commented, MADE_MS))).toMatchObject({
      payments: [{ hasComment: true, isZap: false }],
    });
  });
});

describe('a recipient', () => {
  const open = { ...payment('UNPAID').quote, amountSat: 7, paymentHash: 'cd'.repeat(32) };
  const recipient: RecipientTrace = {
    pubkey: PUBKEY,
    name: 'alice',
    payments: [payment('PAID').quote, { ...payment('ISSUED').quote, quoteId: 'revealed' }],
    paymentCount: 1_234,
    openQuotes: [{ ...open, paymentHash: null }, open],
    hasMoreOpenQuotes: true,
  };

  it('is told the newest of, and how many there are in all', () => {
    expect(traceToText({ outcome: 'recipient', nowMs: MADE_MS, recipient })).toBe(
      `alice (${NPUB})

1,234 payments; the newest 2, with the time of payment
  2026-08-01T12:00:09.000Z      2,100 sat  PAID      ${PAYMENT_HASH}
  2026-08-01T12:00:09.000Z      2,100 sat  ISSUED    ${PAYMENT_HASH}  revealed

More than 2 open quotes (not paid yet); the newest 2, with the time of making
  2026-08-01T12:00:00.000Z          7 sat  UNPAID    (payment hash unknown)
  2026-08-01T12:00:00.000Z          7 sat  UNPAID    ${'cd'.repeat(32)}

nutpost trace <payment hash> tells more of one. What expired unpaid is found by that alone.
`,
    );
  });

  it('that has nothing is told so', () => {
    const nothing = { payments: [], paymentCount: 0, openQuotes: [], hasMoreOpenQuotes: false };
    const text = traceToText({
      outcome: 'recipient',
      nowMs: MADE_MS,
      recipient: { ...recipient, ...nothing, name: null },
    });
    expect(text).toContain(`${NPUB}\n\nNo payment\n\nNo open quote\n`);
  });

  it('is told all of where that is little', () => {
    const text = traceToText({
      outcome: 'recipient',
      nowMs: MADE_MS,
      recipient: { ...recipient, paymentCount: 2, hasMoreOpenQuotes: false },
    });
    expect(text).toContain('2 payments, with the time of payment\n');
    expect(text).toContain('2 open quotes (not paid yet), with the time of making\n');
  });
});

describe('what cannot be found', () => {
  it.each([
    [
      { outcome: 'not_found', soughtAs: ['payment_hash'] },
      'Not found: no payment has this payment hash.\n',
    ],
    [
      { outcome: 'not_found', soughtAs: ['name', 'quote_id'] },
      'Not found: no recipient has this name, no quote has this id.\n',
    ],
    [{ outcome: 'not_found', soughtAs: ['pubkey'] }, 'Not found: no recipient has this key.\n'],
    [{ outcome: 'invalid_invoice' }, 'This is no invoice: it may be cut off or mistyped.\n'],
    [{ outcome: 'invalid_npub' }, 'This is no npub: it may be cut off or mistyped.\n'],
    [
      { outcome: 'invalid_quote_id' },
      'This is no payment hash, no invoice, no npub, no name and no quote id.\n',
    ],
  ] satisfies [Trace, string][])('is told in one sentence: %j', (trace, sentence) => {
    expect(traceToText(trace)).toBe(sentence);
    expect(traceToJson(trace)).toEqual(trace);
  });
});

describe('for programs', () => {
  it('a payment has the same facts, with times in UTC and nothing that is null', () => {
    const mintLimits: PaymentTrace['mintLimits'] = [{ route: 'check', requestsPerMinute: 20 }];
    const events: QuoteEvent[] = [{ atMs: MADE_MS + 9_012, kind: 'told', sockets: 2 }];
    const trace = found(payment('PAID', { mintLimits, events }), MADE_MS);
    expect(traceToJson(trace)).toEqual({
      outcome: 'payments',
      asOf: MADE,
      payments: [
        {
          recipient: { npub: NPUB, pubkey: PUBKEY },
          amountSat: 2_100,
          state: 'PAID',
          mintUrl: 'https://mint.example',
          locked: false,
          paymentHash: PAYMENT_HASH,
          createdAt: MADE,
          expiresAt: '2026-08-01T13:00:00.000Z',
          paidAt: '2026-08-01T12:00:09.000Z',
          isZap: false,
          hasComment: false,
          events: [{ at: '2026-08-01T12:00:09.012Z', kind: 'told', sockets: 2 }],
          watchedUntil: '2026-08-08T12:00:09.000Z',
          watchedBy: { processId: 'p1', isAlive: true },
          mintLimits: [{ route: 'check', requestsPerMinute: 20 }],
          outlook: { kind: 'awaiting_collection', until: '2026-08-08T12:00:09.000Z' },
        },
      ],
    });
  });

  it('a recipient has its newest quotes', () => {
    const { quote } = payment('PAID');
    const trace: Trace = {
      outcome: 'recipient',
      nowMs: MADE_MS,
      recipient: {
        pubkey: PUBKEY,
        name: 'alice',
        payments: [{ ...quote, quoteId: 'revealed' }],
        paymentCount: 1,
        openQuotes: [],
        hasMoreOpenQuotes: false,
      },
    };
    expect(traceToJson(trace)).toMatchObject({
      outcome: 'recipient',
      recipient: { npub: NPUB, pubkey: PUBKEY, name: 'alice' },
      paymentCount: 1,
      payments: [{ quoteId: 'revealed', state: 'PAID' }],
      openQuotes: [],
      hasMoreOpenQuotes: false,
    });
  });
});

function textOf(payment: PaymentTrace, nowMs = MADE_MS + 12_000): string {
  const outlook = quoteOutlook(payment.quote, nowMs);
  return traceToText(found({ ...payment, outlook }, nowMs));
}

function found(payment: PaymentTrace, nowMs: number): Trace {
  return { outcome: 'payments', nowMs, payments: [payment] };
}

/** A payment of 2,100 sat, made 9 s after its invoice. */
function payment(state: QuoteState, given: Partial<PaymentTrace> = {}): PaymentTrace {
  const paidAtMs = state === 'UNPAID' || state === 'EXPIRED' ? null : MADE_MS + 9_000;
  const isOver = state === 'ISSUED' || state === 'EXPIRED';
  const endMs = paidAtMs === null ? MADE_MS + HOUR_MS + DAY_MS : paidAtMs + 7 * DAY_MS;
  const quote: ShownQuote = {
    mintUrl: 'https://mint.example',
    quoteId: null,
    pubkey: PUBKEY,
    paymentHash: PAYMENT_HASH,
    amountSat: 2_100,
    state,
    locked: false,
    createdAtMs: MADE_MS,
    expiresAtMs: MADE_MS + HOUR_MS,
    paidAtMs,
    watchUntilMs: isOver ? null : endMs,
    isZap: false,
    hasComment: false,
  };
  return {
    quote,
    recipientName: null,
    events: [],
    outlook: quoteOutlook(quote, MADE_MS),
    watchedBy: { processId: 'p1', isAlive: true },
    mintLimits: [],
    receipt: null,
    ...given,
  };
}
