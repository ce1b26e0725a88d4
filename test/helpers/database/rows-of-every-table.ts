import { sql } from 'kysely';
import type { Database } from '../../../src/database/database.ts';

/** This recipient has a username and three payments. */
export const RECIPIENT_WITH_USERNAME = 'a1'.repeat(32);

/** The operator has blocked this recipient, who is buying a username. */
const BLOCKED_RECIPIENT = 'b2'.repeat(32);

const PAST_TIME_MS = Date.parse('2024-02-29T23:59:59.123Z');
const FAR_FUTURE_MS = Date.parse('9999-12-31T00:00:00Z');

const ROWS_BY_TABLE = {
  usernames: [
    {
      name: 'alice',
      pubkey: RECIPIENT_WITH_USERNAME,
      status: 'in_use',
      since: PAST_TIME_MS,
      request_seq: 41,
    },
    { name: 'root', status: 'reserved', since: PAST_TIME_MS, request_seq: 7 },
    {
      name: 'old',
      pubkey: RECIPIENT_WITH_USERNAME,
      status: 'released',
      since: PAST_TIME_MS,
      until: FAR_FUTURE_MS,
      request_seq: 8,
    },
    {
      name: 'next',
      pubkey: BLOCKED_RECIPIENT,
      status: 'pending',
      since: PAST_TIME_MS,
      purchase: 'open',
      request_seq: 9,
    },
  ],
  users: [
    {
      pubkey: RECIPIENT_WITH_USERNAME,
      name: 'alice',
      mint_url: 'https://mint.example/ü',
      lock_quotes: 1,
      paid_count: 3,
      last_paid_at: PAST_TIME_MS,
      listed_until: PAST_TIME_MS + 1_000,
    },
    {
      pubkey: BLOCKED_RECIPIENT,
      paid_count: 0,
      blocked_at: PAST_TIME_MS,
      block_reason: 'a "reason",\tor two \\ 🐌',
    },
  ],
  mints: [
    {
      url: 'https://a.example',
      info: '{"mintsBolt11Sat":true}',
      fetched_at: PAST_TIME_MS,
    },
    {
      url: 'https://b.example',
      info: '{}',
      fetched_at: FAR_FUTURE_MS,
    },
  ],
  relays: [
    {
      url: 'wss://relay.example',
      failures: 2,
      backoff_until: FAR_FUTURE_MS,
      last_error: 'slow down',
      last_attempt_at: PAST_TIME_MS,
      accepted_at: PAST_TIME_MS,
    },
  ],
  quotes: [
    quoteRow(11, { state: 'UNPAID', watch_until: FAR_FUTURE_MS }),
    quoteRow(12, { state: 'EXPIRED' }),
    quoteRow(13, { state: 'ISSUED', paid_at: PAST_TIME_MS, paid_seq: 1, locked: 1 }),
    quoteRow(14, {
      state: 'PAID',
      paid_at: PAST_TIME_MS,
      paid_seq: 3,
      zap_request: '{"kind":9734,"content":"⚡\\n"}',
    }),
    quoteRow(900, {
      state: 'INFLIGHT',
      paid_at: PAST_TIME_MS,
      paid_seq: 2,
      amount_sat: 2 ** 52,
      comment: 'grüße ☕',
      tag: 'shop',
    }),
  ],
  quote_events: [
    { id: 70, quote: 13, at: PAST_TIME_MS, kind: 'update_sent', detail: '{"sockets":2}' },
    { id: 71, quote: 14, at: FAR_FUTURE_MS, kind: 'rejected', reason: 'a reason', detail: '{}' },
  ],
  zap_receipts: [
    {
      id: 'e5'.repeat(32),
      quote: 14,
      pubkey: RECIPIENT_WITH_USERNAME,
      zap_request_id: 'f6'.repeat(32),
      event: '{"kind":9735}',
      created_at: PAST_TIME_MS,
    },
  ],
  zap_receipt_deliveries: [
    {
      receipt: 'e5'.repeat(32),
      relay: 'wss://relay.example',
      state: 'open',
      attempts: 3,
      last_result: 'busy',
      last_attempt_at: PAST_TIME_MS,
      next_attempt_at: FAR_FUTURE_MS,
      give_up_at: FAR_FUTURE_MS,
    },
    {
      receipt: 'e5'.repeat(32),
      relay: 'wss://b.example',
      state: 'accepted',
      attempts: 1,
      give_up_at: FAR_FUTURE_MS,
    },
  ],
  username_purchases: [
    {
      ...purchaseRow('open'),
      pubkey: BLOCKED_RECIPIENT,
      name: 'next',
      state: 'open',
      sealed_proofs: 'sealed',
      next_attempt_at: FAR_FUTURE_MS,
      first_unanswered_at: PAST_TIME_MS,
      last_unanswered_at: PAST_TIME_MS,
      reason: 'the mint does not answer',
    },
    {
      ...purchaseRow('completed'),
      pubkey: RECIPIENT_WITH_USERNAME,
      name: 'alice',
      state: 'completed',
      closed_at: PAST_TIME_MS,
    },
  ],
  username_purchase_proofs: [
    { secret_hash: 'aa', purchase: 'open' },
    { secret_hash: 'bb', purchase: 'completed' },
  ],
  treasury_key: [{ id: 1, key_id: 'kid' }],
  treasury_withdrawals: [
    {
      id: 'withdrawal',
      mint_url: 'https://mint.example',
      amount_sat: 21,
      created_at: PAST_TIME_MS,
      proofs: 'sealed',
    },
  ],
  treasury_proofs: [treasuryProofRow('02cc'), treasuryProofRow('02dd')],
} as const;

/** Inserts rows into each table that the operator's export command archives. Together, they fill every column. */
export async function insertRowsInEveryTable({ db }: Database): Promise<void> {
  for (const [table, rows] of Object.entries(ROWS_BY_TABLE)) {
    for (const row of rows) {
      const columns = sql.join(Object.keys(row).map((column) => sql.ref(column)));
      const values = sql.join(Object.values(row));
      await sql`insert into ${sql.table(table)} (${columns}) values (${values})`.execute(db);
    }
  }
}

function quoteRow(id: number, otherColumns: Record<string, unknown>) {
  return {
    id,
    mint_url: 'https://mint.example',
    quote_id: `quote ${id}`,
    pubkey: RECIPIENT_WITH_USERNAME,
    request: `lnbc${id}`,
    amount_sat: 21,
    locked: 0,
    created_at: PAST_TIME_MS,
    expires_at: FAR_FUTURE_MS,
    verify_token_hash: `hash ${id}`,
    payment_hash: 'c3'.repeat(32),
    ...otherColumns,
  };
}

function purchaseRow(id: string) {
  return {
    id,
    price_sat: 5,
    paid_sat: 6,
    mint_url: 'https://mint.example',
    created_at: PAST_TIME_MS,
    outputs: '[{"keysetId":"00","amounts":[1,4]}]',
    attempts: 2,
    lease_holder: 'a process',
    lease_expires_at: FAR_FUTURE_MS,
  };
}

function treasuryProofRow(y: string) {
  return { y, mint_url: 'https://mint.example', amount_sat: 16, proof: `sealed ${y}` };
}
