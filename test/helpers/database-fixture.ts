import { sql } from 'kysely';
import type { Database } from '../../src/database/database.ts';

/** Has a name and three payments; {@link BLOCKED_RECIPIENT} only a block. */
export const FIXTURE_RECIPIENT = 'a1'.repeat(32);
const BLOCKED_RECIPIENT = 'b2'.repeat(32);

/** Test values: a time with milliseconds, and one far in the future. */
const TIME_WITH_MILLISECONDS = Date.parse('2024-02-29T23:59:59.123Z');
const FAR_FUTURE = Date.parse('9999-12-31T00:00:00Z');

const FIXTURE_ROWS = {
  usernames: [
    {
      name: 'alice',
      pubkey: FIXTURE_RECIPIENT,
      status: 'in_use',
      since: TIME_WITH_MILLISECONDS,
      request_seq: 41,
    },
    { name: 'root', status: 'reserved', since: TIME_WITH_MILLISECONDS, request_seq: 7 },
    {
      name: 'old',
      pubkey: FIXTURE_RECIPIENT,
      status: 'released',
      since: TIME_WITH_MILLISECONDS,
      until: FAR_FUTURE,
      request_seq: 8,
    },
    {
      name: 'next',
      pubkey: BLOCKED_RECIPIENT,
      status: 'pending',
      since: TIME_WITH_MILLISECONDS,
      purchase: 'open',
      request_seq: 9,
    },
  ],
  users: [
    {
      pubkey: FIXTURE_RECIPIENT,
      name: 'alice',
      mint_url: 'https://mint.example/ü',
      lock_quotes: 1,
      paid_count: 3,
      last_paid_at: TIME_WITH_MILLISECONDS,
    },
    {
      pubkey: BLOCKED_RECIPIENT,
      paid_count: 0,
      blocked_at: TIME_WITH_MILLISECONDS,
      block_reason: 'a "reason",\tor two \\ 🐌',
    },
  ],
  npubcash_imported_rows: [
    { source_row: 'l_users 12' },
    { source_row: `recipient_blocks "${BLOCKED_RECIPIENT}"` },
  ],
  mints: [
    {
      url: 'https://a.example',
      info: '{"mintsBolt11Sat":true}',
      fetched_at: TIME_WITH_MILLISECONDS,
    },
    {
      url: 'https://b.example',
      info: '{}',
      fetched_at: FAR_FUTURE,
      rate_limits: '{"check":[1,null]}',
    },
  ],
  relays: [
    {
      url: 'wss://relay.example',
      failures: 2,
      backoff_until: FAR_FUTURE,
      last_result: 'slow down',
      last_attempt_at: TIME_WITH_MILLISECONDS,
      accepted_at: TIME_WITH_MILLISECONDS,
    },
  ],
  quotes: [
    quoteRow(11, { state: 'UNPAID', watch_until: FAR_FUTURE }),
    quoteRow(12, { state: 'EXPIRED' }),
    quoteRow(13, { state: 'ISSUED', paid_at: TIME_WITH_MILLISECONDS, paid_seq: 1, locked: 1 }),
    quoteRow(14, {
      state: 'PAID',
      paid_at: TIME_WITH_MILLISECONDS,
      paid_seq: 3,
      zap_request: '{"kind":9734,"content":"⚡\\n"}',
    }),
    quoteRow(900, {
      state: 'INFLIGHT',
      paid_at: TIME_WITH_MILLISECONDS,
      paid_seq: 2,
      amount_sat: 2 ** 52,
      comment: 'grüße ☕',
    }),
  ],
  quote_events: [
    { id: 70, quote: 13, at: TIME_WITH_MILLISECONDS, kind: 'update_sent', detail: '{"sockets":2}' },
    { id: 71, quote: 14, at: FAR_FUTURE, kind: 'rejected', reason: 'a reason', detail: '{}' },
  ],
  zap_receipts: [
    { id: 'e5'.repeat(32), quote: 14, event: '{"kind":9735}', created_at: TIME_WITH_MILLISECONDS },
  ],
  zap_receipt_deliveries: [
    {
      receipt: 'e5'.repeat(32),
      relay: 'wss://relay.example',
      state: 'open',
      attempts: 3,
      last_result: 'busy',
      last_attempt_at: TIME_WITH_MILLISECONDS,
      next_attempt_at: FAR_FUTURE,
      give_up_at: FAR_FUTURE,
    },
    {
      receipt: 'e5'.repeat(32),
      relay: 'wss://b.example',
      state: 'accepted',
      attempts: 1,
      give_up_at: FAR_FUTURE,
    },
  ],
  username_purchases: [
    {
      ...purchaseRow('open'),
      pubkey: BLOCKED_RECIPIENT,
      name: 'next',
      state: 'open',
      token: 'sealed',
      next_attempt_at: FAR_FUTURE,
      first_rejected_at: TIME_WITH_MILLISECONDS,
      reason: 'the mint does not answer',
    },
    {
      ...purchaseRow('completed'),
      pubkey: FIXTURE_RECIPIENT,
      name: 'alice',
      state: 'completed',
      closed_at: TIME_WITH_MILLISECONDS,
    },
  ],
  username_purchase_proofs: [
    { y: '02aa', purchase: 'open' },
    { y: '02bb', purchase: 'completed' },
  ],
  treasury_key: [{ id: 1, key_id: 'kid' }],
  treasury_withdrawals: [
    {
      id: 'given',
      mint_url: 'https://mint.example',
      amount_sat: 21,
      created_at: TIME_WITH_MILLISECONDS,
      proofs: 'sealed',
    },
  ],
  treasury_proofs: [treasuryProofRow('02cc'), treasuryProofRow('02dd')],
} as const;

/** Rows that fill each column of each table of an archive. */
export async function insertFixtureRows({ db }: Database): Promise<void> {
  for (const [table, rows] of Object.entries(FIXTURE_ROWS)) {
    for (const row of rows) {
      const columns = sql.join(Object.keys(row).map((column) => sql.ref(column)));
      const values = sql.join(Object.values(row));
      await sql`insert into ${sql.table(table)} (${columns}) values (${values})`.execute(db);
    }
  }
}

function quoteRow(id: number, rest: Record<string, unknown>) {
  return {
    id,
    mint_url: 'https://mint.example',
    quote_id: `quote ${id}`,
    pubkey: FIXTURE_RECIPIENT,
    request: `lnbc${id}`,
    amount_sat: 21,
    locked: 0,
    created_at: TIME_WITH_MILLISECONDS,
    expires_at: FAR_FUTURE,
    verify_token_hash: `hash ${id}`,
    payment_hash: 'c3'.repeat(32),
    ...rest,
  };
}

function purchaseRow(id: string) {
  return {
    id,
    price_sat: 5,
    paid_sat: 6,
    mint_url: 'https://mint.example',
    created_at: TIME_WITH_MILLISECONDS,
    outputs: '[{"keysetId":"00","amounts":[1,4]}]',
    attempts: 2,
    lease_holder: 'a run',
    lease_expires_at: FAR_FUTURE,
  };
}

function treasuryProofRow(y: string) {
  return { y, mint_url: 'https://mint.example', amount_sat: 16, proof: `sealed ${y}` };
}
