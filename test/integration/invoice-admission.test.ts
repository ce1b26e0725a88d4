import { randomBytes } from 'node:crypto';
import { sql } from 'kysely';
import { beforeEach, describe, expect, it } from 'vitest';
import type { Acquired } from '../../src/mint/mint-rate-limiter.ts';
import type { Database } from '../../src/store/database.ts';
import { type OpenInvoices, QuoteStore } from '../../src/store/quote-store.ts';
import { type Admitted, InvoiceAdmission } from '../../src/usecases/invoice-admission.ts';
import { InvoiceTimer } from '../../src/usecases/invoice-timing.ts';
import { costOf } from '../helpers/query-cost.ts';
import { TestClock } from '../helpers/test-clock.ts';
import { CREATED_AT_MS, NOWHERE_MINT, unpaidQuote } from '../helpers/unpaid-quotes.ts';
import { useDatabase } from '../helpers/use-database.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

const NO_LIMITS = {
  invoices: 0,
  openInvoicesPerRecipient: 0,
  openInvoicesPerAddress: 0,
  openInvoicesPerPair: 0,
};

let database: Database;
let quotes: QuoteStore;
let clock: TestClock;

useDatabase((opened) => {
  database = opened;
  quotes = new QuoteStore(opened.db);
});

beforeEach(async () => {
  clock = new TestClock(CREATED_AT_MS);
  await database.db.deleteFrom('quotes').execute();
});

describe('open invoices', () => {
  const GROUP = 'a1b2c3d4e5f60718';
  const COUNTED_MS = { least: 10 * MINUTE, most: HOUR };
  const LIMITS = { ofRecipient: 10, ofAddressGroup: 10, ofPair: 10 };
  const NOW_MS = CREATED_AT_MS + 30 * MINUTE;

  it('are counted by recipient, by address group and by the pair', async () => {
    const [pubkey, other] = [newPubkey(), newPubkey()];
    await insert(pubkey, { addressGroup: GROUP });
    await insert(pubkey, { addressGroup: 'another group' });
    await insert(pubkey, { addressGroup: null });
    await insert(other, { addressGroup: GROUP });
    expect(await count(pubkey)).toEqual({ ofRecipient: 3, ofAddressGroup: 2, ofPair: 1 });
    expect(await count(newPubkey())).toEqual({ ofRecipient: 0, ofAddressGroup: 2, ofPair: 0 });
  });

  it.each([
    ['expires in a moment', { expiresAtMs: NOW_MS + 1 }, 1],
    ['has expired', { expiresAtMs: NOW_MS }, 0],
    [
      'has expired and is younger than ten minutes',
      { createdAtMs: NOW_MS - 10 * MINUTE + 1, expiresAtMs: NOW_MS - MINUTE },
      1,
    ],
    ['is an hour old', { createdAtMs: NOW_MS - HOUR, expiresAtMs: NOW_MS + HOUR }, 0],
    ['is younger than an hour', { createdAtMs: NOW_MS - HOUR + 1, expiresAtMs: NOW_MS + HOUR }, 1],
    ['is from a clock that was a day ahead', { createdAtMs: NOW_MS + 24 * HOUR }, 0],
  ])('include one that %s: %j (%i)', async (_what, times, expected) => {
    const pubkey = newPubkey();
    await insert(pubkey, { addressGroup: GROUP, ...times });
    const counted = { ofRecipient: expected, ofAddressGroup: expected, ofPair: expected };
    expect(await count(pubkey)).toEqual(counted);
  });

  it('do not include paid ones', async () => {
    const pubkey = newPubkey();
    const quoteId = await insert(pubkey, { addressGroup: GROUP });
    await sql`
      update quotes set state = 'INFLIGHT', paid_seq = 1, paid_at = now(), address_group = null
      where quote_id = ${quoteId}`.execute(database.db);
    expect(await count(pubkey)).toEqual({ ofRecipient: 0, ofAddressGroup: 0, ofPair: 0 });
  });

  it.each([
    ['before the database has statistics', 'select 1'],
    ['with statistics', 'analyze'],
  ])('are counted up to the limits without reading more rows: %s', async (_when, statement) => {
    const pubkey = newPubkey();
    await insertMany(3_000, { pubkey, addressGroup: null });
    await insertMany(500, { pubkey: newPubkey(), addressGroup: GROUP });
    await insertMany(3_000, { pubkey: newPubkey(), addressGroup: null });
    await insertMany(30, { pubkey, addressGroup: GROUP });
    await sql.raw(statement).execute(database.db);
    const limits = { ofRecipient: 100, ofAddressGroup: 30, ofPair: 10 };
    const cost = await costOf(database.db, (db) =>
      new QuoteStore(db).countOpen({ pubkey, addressGroup: GROUP }, limits, COUNTED_MS, NOW_MS),
    );
    expect(cost.rows).toBeGreaterThanOrEqual(100 + 30 + 10);
    // The pair is looked for among the open invoices of the group.
    expect(cost.rows).toBeLessThanOrEqual(100 + 30 + 530);
  });

  function count(pubkey: string): Promise<OpenInvoices> {
    return quotes.countOpen({ pubkey, addressGroup: GROUP }, LIMITS, COUNTED_MS, NOW_MS);
  }
});

describe('a payer', () => {
  it('is refused for the rest of a minute after too many requests', async () => {
    const { admit } = admission({ ...NO_LIMITS, invoices: 2 });
    await admit({});
    clock.advance(20 * SECOND);
    await admit({});
    await expect(admit({})).rejects.toMatchObject({
      nature: 'too_many',
      message: 'Too many requests for invoices from this address. Try again in 40 s.',
      retryAfterSeconds: 40,
    });
    await admit({ addressGroup: '198.51.100.2' });
    clock.advance(40 * SECOND);
    await admit({});
  });

  it.each([
    ['openInvoicesPerRecipient', 'This recipient has too many unpaid invoices.'],
    ['openInvoicesPerAddress', 'You have too many unpaid invoices.'],
    ['openInvoicesPerPair', 'You have too many unpaid invoices of this recipient.'],
  ] as const)('is refused at the limit %s', async (limit, sentence) => {
    const { admit, issue } = admission({ ...NO_LIMITS, [limit]: 2 });
    const recipient = newPubkey();
    await issue({ recipient });
    await issue({ recipient });
    await expect(admit({ recipient })).rejects.toMatchObject({
      nature: 'too_many',
      message: `${sentence} Try again in 60 s.`,
      retryAfterSeconds: 60,
    });
  });

  it('waits for the mint, and is told how long if it waits for too long', async () => {
    const { admit, answers, asked } = admission(NO_LIMITS);
    answers.push({ outcome: 'rate_limited', retryAfterMs: 61_500 });
    await expect(admit({ addressGroup: '198.51.100.2' })).rejects.toMatchObject({
      nature: 'unavailable',
      retryAfterSeconds: 62,
    });
    expect(asked).toEqual([
      [NOWHERE_MINT, 'create', { addressGroup: '198.51.100.2', patienceMs: 8_000 }],
    ]);
  });
});

describe('one address that has reached its limit at a recipient', () => {
  it('leaves room at the recipient, and has room at other recipients', async () => {
    const { admit, issue } = admission({
      invoices: 0,
      openInvoicesPerRecipient: 10,
      openInvoicesPerAddress: 3,
      openInvoicesPerPair: 2,
    });
    const recipient = newPubkey();
    await issue({ recipient });
    await issue({ recipient });
    await expect(admit({ recipient })).rejects.toThrow('of this recipient');
    await issue({ recipient, addressGroup: '198.51.100.2' });
    await issue({ recipient: newPubkey() });
    await expect(admit({ recipient: newPubkey() })).rejects.toThrow('You have too many');
  });
});

describe('many requests at once', () => {
  const LIMIT = 40;

  it('do not exceed a limit, and reach it in the end', async () => {
    const { issue } = admission({ ...NO_LIMITS, openInvoicesPerRecipient: LIMIT });
    const recipient = newPubkey();
    const burst = await Promise.allSettled(
      Array.from({ length: 3 * LIMIT }, () => issue({ recipient })),
    );
    let issued = burst.filter(({ status }) => status === 'fulfilled').length;
    expect(issued).toBeLessThanOrEqual(LIMIT);
    expect(issued).toBeGreaterThan(0);
    while (issued < LIMIT) {
      await issue({ recipient });
      issued += 1;
    }
    await expect(issue({ recipient })).rejects.toThrow('too many unpaid invoices');
  });

  it('from one address leave room for a payer from another one', async () => {
    const { admit } = admission({
      ...NO_LIMITS,
      openInvoicesPerRecipient: LIMIT,
      openInvoicesPerPair: LIMIT / 4,
    });
    const recipient = newPubkey();
    const burst = Promise.allSettled(Array.from({ length: 3 * LIMIT }, () => admit({ recipient })));
    await expect(admit({ recipient, addressGroup: '198.51.100.2' })).resolves.toBeDefined();
    const admitted = (await burst).filter(({ status }) => status === 'fulfilled');
    expect(admitted).toHaveLength(LIMIT / 4);
  });

  it('count until they are released, whatever becomes of them', async () => {
    const { admit, answers } = admission({ ...NO_LIMITS, openInvoicesPerPair: 1 });
    const recipient = newPubkey();
    const admitted = await admit({ recipient });
    await expect(admit({ recipient })).rejects.toThrow('too many unpaid invoices');
    admitted.release();
    answers.push({ outcome: 'rate_limited', retryAfterMs: 1 });
    await expect(admit({ recipient })).rejects.toMatchObject({ nature: 'unavailable' });
    await admit({ recipient });
  });

  it('are not counted any more if the database fails', async () => {
    const { admit } = admission({ ...NO_LIMITS, openInvoicesPerPair: 1 }, { failures: 1 });
    const recipient = newPubkey();
    await expect(admit({ recipient })).rejects.toThrow('connection lost');
    await admit({ recipient });
  });
});

describe('what the database stores of an address', () => {
  it('is the same for each request, and cannot be guessed without the secret', async () => {
    const [first, second] = [admission(NO_LIMITS), admission(NO_LIMITS)];
    const other = admission(NO_LIMITS, { secret: 'another secret' });
    const hashOf = async ({ admit }: typeof first, addressGroup: string) =>
      (await admit({ addressGroup })).addressGroupHash;
    const hash = await hashOf(first, '198.51.100.2');
    expect(hash).toMatch(/^[0-9a-f]{16}$/);
    expect(await hashOf(second, '198.51.100.2')).toBe(hash);
    expect(await hashOf(first, '198.51.100.3')).not.toBe(hash);
    expect(await hashOf(other, '198.51.100.2')).not.toBe(hash);
  });
});

/** The admission of one process. The mint permits every request, unless the test pushes another answer. */
function admission(limits: typeof NO_LIMITS, options: { secret?: string; failures?: number } = {}) {
  const asked: unknown[][] = [];
  const answers: Acquired[] = [];
  const permit = {
    addressGroup: null,
    patienceUntilMs: 0,
    settle: () => undefined,
    withdraw: () => undefined,
  };
  let failures = options.failures ?? 0;
  const subject = new InvoiceAdmission({
    limiter: {
      acquire: async (...args) => {
        asked.push(args);
        return answers.shift() ?? { outcome: 'granted', permit };
      },
    },
    quotes: {
      countOpen: async (...args) => {
        failures -= 1;
        if (failures >= 0) {
          throw new Error('connection lost');
        }
        return quotes.countOpen(...args);
      },
    },
    limits,
    secret: options.secret ?? 'a secret',
    patienceMs: 8_000,
    clock: clock.now,
    monotonicMs: clock.now,
  });
  const admit = (request: { recipient?: string; addressGroup?: string }): Promise<Admitted> =>
    subject.admit(
      {
        recipient: request.recipient ?? newPubkey(),
        addressGroup: request.addressGroup ?? '198.51.100.1',
        mintUrl: NOWHERE_MINT,
      },
      new InvoiceTimer(clock.now),
    );
  /** Asks for an invoice and stores its quote. */
  const issue = async (request: { recipient: string; addressGroup?: string }): Promise<void> => {
    const { addressGroupHash, release } = await admit(request);
    await insert(request.recipient, { addressGroup: addressGroupHash });
    release();
  };
  return { admit, issue, asked, answers };
}

/** @returns the quote id */
async function insert(
  pubkey: string,
  given: { addressGroup: string | null; createdAtMs?: number; expiresAtMs?: number },
): Promise<string> {
  const quote = unpaidQuote(pubkey, given);
  await quotes.insert(quote);
  return quote.quoteId;
}

async function insertMany(
  count: number,
  { pubkey, addressGroup }: { pubkey: string; addressGroup: string | null },
): Promise<void> {
  await sql`
    insert into quotes (mint_url, quote_id, pubkey, request, amount_sat, state, locked,
                        created_at, expires_at, address_group)
    select ${NOWHERE_MINT}, gen_random_uuid(), ${pubkey}, 'lnbc1', 21, 'UNPAID', false,
           ${new Date(CREATED_AT_MS)}, ${new Date(CREATED_AT_MS + HOUR)}, ${addressGroup}
    from generate_series(1, ${count}::int)
  `.execute(database.db);
}

function newPubkey(): string {
  return randomBytes(32).toString('hex');
}
