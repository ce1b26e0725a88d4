import { sql } from 'kysely';
import type { Database } from '../../../src/database/database.ts';

/** This recipient has a username and three payments. */
export const RECIPIENT_WITH_USERNAME = 'a1'.repeat(32);

/** The operator has blocked this recipient, who is buying a username. */
const BLOCKED_RECIPIENT = 'b2'.repeat(32);

const PAST_TIME_MS = Date.parse('2024-02-29T23:59:59.123Z');
const FAR_FUTURE_MS = Date.parse('9999-12-31T00:00:00Z');

const RECEIPT_ID = 'e5'.repeat(32);
const RELAY_URL = 'wss://relay.example';
const PAYMENT = { paid_at: PAST_TIME_MS };
const MINT = { mint_url: 'https://mint.example' };

const ROWS_BY_TABLE = {
  usernames: [
    { ...usernameRow('alice', 'in_use'), pubkey: RECIPIENT_WITH_USERNAME, request_seq: 41 },
    { ...usernameRow('root', 'reserved'), request_seq: 7 },
    { ...usernameRow('old', 'released'), pubkey: RECIPIENT_WITH_USERNAME, until: FAR_FUTURE_MS },
    { ...usernameRow('next', 'pending'), pubkey: BLOCKED_RECIPIENT, purchase: 'open' },
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
      member_since: PAST_TIME_MS,
      member_note: 'plays the tuba',
    },
    {
      pubkey: BLOCKED_RECIPIENT,
      paid_count: 0,
      blocked_at: PAST_TIME_MS,
      block_reason: 'a "reason",\tor two \\ 🐌',
    },
  ],
  invitations: [{ code_hash: 'ab'.repeat(32), note: 'a friend', expires_at: FAR_FUTURE_MS }],
  mints: [
    { url: 'https://a.example', info: '{"mintsBolt11Sat":true}', fetched_at: PAST_TIME_MS },
    { url: 'https://b.example', info: '{}', fetched_at: FAR_FUTURE_MS },
  ],
  relays: [
    {
      url: RELAY_URL,
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
    quoteRow(13, { state: 'ISSUED', ...PAYMENT, paid_seq: 1, locked: 1 }),
    quoteRow(14, { state: 'PAID', ...PAYMENT, paid_seq: 3, zap_request: '{"content":"⚡\\n"}' }),
    quoteRow(900, {
      state: 'INFLIGHT',
      ...PAYMENT,
      paid_seq: 2,
      amount_sat: 2 ** 52,
      // With a separator of lines that is none in JSON.
      comment: 'grüße\u2028☕',
      tag: 'shop',
    }),
  ],
  quote_events: [
    { id: 70, quote: 13, at: PAST_TIME_MS, kind: 'update_sent', detail: '{"sockets":2}' },
    { id: 71, quote: 14, at: FAR_FUTURE_MS, kind: 'rejected', reason: 'a reason', detail: '{}' },
  ],
  zap_receipts: [
    {
      id: RECEIPT_ID,
      quote: 14,
      pubkey: RECIPIENT_WITH_USERNAME,
      zap_request_id: 'f6'.repeat(32),
      event: '{"kind":9735}',
      created_at: PAST_TIME_MS,
    },
  ],
  zap_receipt_deliveries: [
    {
      receipt: RECEIPT_ID,
      relay: RELAY_URL,
      state: 'open',
      attempts: 3,
      last_result: 'busy',
      last_attempt_at: PAST_TIME_MS,
      next_attempt_at: FAR_FUTURE_MS,
      give_up_at: FAR_FUTURE_MS,
    },
    { receipt: RECEIPT_ID, relay: 'wss://b.example', state: 'accepted', give_up_at: FAR_FUTURE_MS },
  ],
  username_purchases: [
    {
      ...purchaseRow('open', BLOCKED_RECIPIENT, 'next'),
      sealed_proofs: 'sealed',
      next_attempt_at: FAR_FUTURE_MS,
      first_unanswered_at: PAST_TIME_MS,
      last_unanswered_at: PAST_TIME_MS,
      reason: 'the mint does not answer',
    },
    { ...purchaseRow('completed', RECIPIENT_WITH_USERNAME, 'alice'), closed_at: PAST_TIME_MS },
  ],
  notification_channels: [
    {
      id: 'channel',
      pubkey: RECIPIENT_WITH_USERNAME,
      kind: 'webhook',
      site: 'shop.example',
      sealed_target: 'sealed',
      min_amount_sat: 21,
      created_at: PAST_TIME_MS,
      next_attempt_at: FAR_FUTURE_MS,
      not_before: PAST_TIME_MS,
      last_attempt_at: PAST_TIME_MS,
      failing_since: PAST_TIME_MS,
      last_error: 'HTTP 500',
      last_sent_at: PAST_TIME_MS,
      disabled_at: PAST_TIME_MS,
    },
  ],
  notifications: [
    {
      id: 31,
      channel: 'channel',
      quote: 14,
      event: 'received',
      status: 'open',
      due_at: FAR_FUTURE_MS,
      give_up_at: FAR_FUTURE_MS,
      message_id: 'msg_1',
      attempts: 2,
      last_attempt_at: PAST_TIME_MS,
      last_result: 'HTTP 500',
    },
  ],
  username_purchase_proofs: [
    { secret_hash: 'aa', purchase: 'open' },
    { secret_hash: 'bb', purchase: 'completed' },
  ],
  treasury_key: [{ id: 1, key_id: 'kid' }],
  treasury_withdrawals: [
    { ...MINT, id: 'withdrawal', amount_sat: 21, created_at: PAST_TIME_MS, proofs: 'sealed' },
  ],
  treasury_proofs: [
    { ...MINT, y: '02cc', amount_sat: 16, proof: 'sealed 02cc' },
    { ...MINT, y: '02dd', amount_sat: 16, proof: 'sealed 02dd' },
  ],
  audit_events: [
    {
      id: 51,
      at: PAST_TIME_MS,
      actor_kind: 'command',
      actor: 'root',
      action: 'user block',
      pubkey: BLOCKED_RECIPIENT,
      name: 'alice',
      before: '{"reason":"a"}',
      after: '{"reason":"b"}',
      logged: 1,
    },
  ],
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

function usernameRow(name: string, status: string) {
  return { name, status, since: PAST_TIME_MS };
}

function quoteRow(id: number, otherColumns: Record<string, unknown>) {
  return {
    ...MINT,
    id,
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

/** @param state also the id */
function purchaseRow(state: string, pubkey: string, name: string) {
  return {
    ...MINT,
    id: state,
    state,
    pubkey,
    name,
    price_sat: 5,
    paid_sat: 6,
    created_at: PAST_TIME_MS,
    outputs: '[{"keysetId":"00","amounts":[1,4]}]',
    attempts: 2,
    lease_holder: 'a process',
    lease_expires_at: FAR_FUTURE_MS,
  };
}
