import { sql } from 'kysely';
import type { Database } from '../../src/database/database.ts';

/** Has a name and three payments; {@link OTHER} only a block. */
export const RECIPIENT = 'a1'.repeat(32);
const OTHER = 'b2'.repeat(32);

/** Times with milliseconds, and far in the future. */
const PRECISE = Date.parse('2024-02-29T23:59:59.123Z');
const FAR = Date.parse('9999-12-31T00:00:00Z');

const ROWS = {
  usernames: [
    { name: 'alice', pubkey: RECIPIENT, status: 'in_use', since: PRECISE, wish: 41 },
    { name: 'root', status: 'reserved', since: PRECISE, wish: 7 },
    { name: 'old', pubkey: RECIPIENT, status: 'released', since: PRECISE, until: FAR, wish: 8 },
    { name: 'next', pubkey: OTHER, status: 'pending', since: PRECISE, purchase: 'open', wish: 9 },
  ],
  users: [
    {
      pubkey: RECIPIENT,
      name: 'alice',
      mint_url: 'https://mint.example/ü',
      lock_quotes: 1,
      paid_count: 3,
      last_paid_at: PRECISE,
    },
    {
      pubkey: OTHER,
      paid_count: 0,
      blocked_at: PRECISE,
      block_reason: 'a "reason",\tor two \\ 🐌',
    },
  ],
  npubcash_imported_rows: [
    { source_row: 'l_users 12' },
    { source_row: `recipient_blocks "${OTHER}"` },
  ],
  mints: [
    { url: 'https://a.example', info: '{"mintsBolt11Sat":true}', fetched_at: PRECISE },
    { url: 'https://b.example', info: '{}', fetched_at: FAR, rate_limits: '{"check":[1,null]}' },
  ],
  relays: [
    {
      url: 'wss://relay.example',
      failures: 2,
      rest_until: FAR,
      last_word: 'slow down',
      last_try_at: PRECISE,
      accepted_at: PRECISE,
    },
  ],
  quotes: [
    quote(11, { state: 'UNPAID', watch_until: FAR }),
    quote(12, { state: 'EXPIRED' }),
    quote(13, { state: 'ISSUED', paid_at: PRECISE, paid_seq: 1, locked: 1 }),
    quote(14, {
      state: 'PAID',
      paid_at: PRECISE,
      paid_seq: 3,
      zap_request: '{"kind":9734,"content":"⚡\\n"}',
    }),
    quote(900, {
      state: 'INFLIGHT',
      paid_at: PRECISE,
      paid_seq: 2,
      amount_sat: 2 ** 52,
      comment: 'grüße ☕',
    }),
  ],
  quote_events: [
    { id: 70, quote: 13, at: PRECISE, kind: 'told', detail: '{"sockets":2}' },
    { id: 71, quote: 14, at: FAR, kind: 'rejected', reason: 'a reason', detail: '{}' },
  ],
  zap_receipts: [{ id: 'e5'.repeat(32), quote: 14, event: '{"kind":9735}', created_at: PRECISE }],
  zap_receipt_deliveries: [
    {
      receipt: 'e5'.repeat(32),
      relay: 'wss://relay.example',
      state: 'open',
      tries: 3,
      last_word: 'busy',
      last_try_at: PRECISE,
      next_try_at: FAR,
      give_up_at: FAR,
    },
    {
      receipt: 'e5'.repeat(32),
      relay: 'wss://b.example',
      state: 'accepted',
      tries: 1,
      give_up_at: FAR,
    },
  ],
  username_purchases: [
    {
      ...purchase('open'),
      pubkey: OTHER,
      name: 'next',
      state: 'open',
      token: 'sealed',
      next_try_at: FAR,
      refused_at: PRECISE,
      reason: 'the mint does not answer',
    },
    { ...purchase('done'), pubkey: RECIPIENT, name: 'alice', state: 'done', settled_at: PRECISE },
  ],
  username_purchase_proofs: [
    { y: '02aa', purchase: 'open' },
    { y: '02bb', purchase: 'done' },
  ],
  treasury_key: [{ id: 1, key_id: 'kid' }],
  treasury_withdrawals: [
    {
      id: 'given',
      mint_url: 'https://mint.example',
      amount_sat: 21,
      created_at: PRECISE,
      proofs: 'sealed',
    },
  ],
  treasury_proofs: [proof('02cc'), proof('02dd')],
} as const;

/** Fills each column of each table that an archive contains. */
export async function fillDatabase({ db }: Database): Promise<void> {
  for (const [table, rows] of Object.entries(ROWS)) {
    for (const row of rows) {
      const columns = sql.join(Object.keys(row).map((column) => sql.ref(column)));
      const values = sql.join(Object.values(row));
      await sql`insert into ${sql.table(table)} (${columns}) values (${values})`.execute(db);
    }
  }
}

function quote(id: number, rest: Record<string, unknown>) {
  return {
    id,
    mint_url: 'https://mint.example',
    quote_id: `quote ${id}`,
    pubkey: RECIPIENT,
    request: `lnbc${id}`,
    amount_sat: 21,
    locked: 0,
    created_at: PRECISE,
    expires_at: FAR,
    verify_hash: `hash ${id}`,
    payment_hash: 'c3'.repeat(32),
    ...rest,
  };
}

function purchase(id: string) {
  return {
    id,
    price_sat: 5,
    paid_sat: 6,
    mint_url: 'https://mint.example',
    created_at: PRECISE,
    outputs: '[{"keysetId":"00","amounts":[1,4]}]',
    tries: 2,
    lease_holder: 'a run',
    lease_until: FAR,
  };
}

function proof(y: string) {
  return { y, mint_url: 'https://mint.example', amount_sat: 16, proof: `sealed ${y}` };
}
