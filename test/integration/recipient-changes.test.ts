import { randomBytes } from 'node:crypto';
import { sql } from 'kysely';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import {
  decodeRecipientChange,
  RECIPIENT_CHANNEL,
} from '../../src/notifications/recipient-channel.ts';
import type { Database } from '../../src/store/database.ts';
import { Store } from '../../src/store/store.ts';
import { ChannelEar } from '../helpers/channel-ear.ts';
import { keepPayments } from '../helpers/paid-quotes.ts';
import { useDatabase } from '../helpers/use-database.ts';

/** Whose addresses the database itself says have changed, whoever changed them. */

/** A transaction that changes more tells of anybody, once. */
const MOST_TOLD = 1_000;

let database: Database;
let store: Store;
let pubkey: string;
let ear: ChannelEar;

useDatabase((opened) => {
  database = opened;
});

beforeAll(() => {
  store = new Store(database.db);
});

beforeEach(async () => {
  pubkey = newPubkey();
  ear = await ChannelEar.open(database, RECIPIENT_CHANNEL);
});

describe('a recipient whose addresses change', () => {
  it('is told when they save their first setting, and another', async () => {
    await store.users.save(pubkey, { mintUrl: 'https://one.example' });
    expect(await told()).toEqual([pubkey]);
    await store.users.save(pubkey, { lockQuotes: false });
    expect(await told()).toEqual([pubkey]);
    await store.users.save(pubkey, { lockQuotes: true });
    expect(await told()).toEqual([pubkey]);
  });

  it('is told when they get a name, another one, and lose it', async () => {
    const name = `n${pubkey.slice(0, 20)}`;
    const claim = { pubkey, nowMs: Date.now(), graceMs: 0 };
    await store.transaction((tx) => tx.usernames.take(name, claim));
    expect(await told()).toEqual([pubkey]);
    await store.transaction((tx) => tx.usernames.take(`${name}x`, claim));
    expect(await told()).toEqual([pubkey]);
    await store.transaction((tx) => tx.usernames.takeAway(`${name}x`));
    expect(await told()).toEqual([pubkey]);
  });

  it('is told when they are blocked and unblocked', async () => {
    await store.blocks.add(pubkey, null, Date.now());
    expect(await told()).toEqual([pubkey]);
    await store.blocks.add(pubkey, 'a better reason', Date.now());
    expect(await told()).toEqual([]);
    await store.blocks.remove(pubkey);
    expect(await told()).toEqual([pubkey]);
  });

  it('is told when settings are brought over from elsewhere', async () => {
    await store.transaction((tx) => tx.users.lockPaymentCounters([pubkey]));
    expect(await told()).toEqual([]);
    await store.npubcash.saveSettings([
      { pubkey, mintUrl: 'https://brought.example', lockQuotes: true },
    ]);
    expect(await told()).toEqual([pubkey]);
  });

  it('is told where an operator types it', async () => {
    const other = newPubkey();
    await sql`insert into users (pubkey, lock_quotes) values (${pubkey}, true)`.execute(
      database.db,
    );
    expect(await told()).toEqual([pubkey]);
    await sql`update users set pubkey = ${other} where pubkey = ${pubkey}`.execute(database.db);
    expect((await told()).toSorted()).toEqual([pubkey, other].toSorted());
    await sql`delete from users where pubkey = ${other}`.execute(database.db);
    expect(await told()).toEqual([other]);
    await sql`insert into recipient_blocks values (${pubkey}, now())`.execute(database.db);
    await sql`update recipient_blocks set pubkey = ${other} where pubkey = ${pubkey}`.execute(
      database.db,
    );
    expect((await told()).toSorted()).toEqual([pubkey, pubkey, other].toSorted());
    await sql`truncate recipient_blocks`.execute(database.db);
    expect(await told()).toEqual([null]);
    await sql`truncate users`.execute(database.db);
    expect(await told()).toEqual([null]);
  });

  it('is told of when the change is committed, and of one that is undone never', async () => {
    await store.attempt(async (tx) => {
      await tx.users.save(pubkey, { lockQuotes: true });
      await tx.blocks.add(pubkey, null, Date.now());
      return false;
    });
    expect(await told()).toEqual([]);
  });
});

describe('what changes no address', () => {
  it('is told to nobody: a payment, and settings that are saved as they were', async () => {
    await keepPayments(database, pubkey, 3);
    await store.transaction(async (tx) => {
      const [counter] = await tx.users.lockPaymentCounters([pubkey]);
      await tx.users.savePaymentCounters(
        counter === undefined ? [] : [{ ...counter, paidCount: 4, lastPaidAtMs: Date.now() }],
      );
    });
    expect(await told()).toEqual([]);
    await store.users.save(pubkey, { lockQuotes: true });
    expect(await told()).toEqual([pubkey]);
    await store.users.save(pubkey, { lockQuotes: true });
    expect(await told()).toEqual([]);
  });
});

describe('many recipients at once', () => {
  it('are told one by one up to a bound, and those beyond it as anybody', async () => {
    await addUsers(MOST_TOLD);
    const few = await told();
    expect(new Set(few).size).toBe(MOST_TOLD);
    expect(few).not.toContain(null);

    await addUsers(MOST_TOLD + 500);
    const many = await told();
    expect(many).toHaveLength(MOST_TOLD + 1);
    expect(many.filter((each) => each === null)).toHaveLength(1);

    // The next transaction begins to count anew.
    await store.users.save(pubkey, { lockQuotes: true });
    expect(await told()).toEqual([pubkey]);
  });
});

/** What was told since the last time: keys, and null for anybody. */
async function told(): Promise<(string | null)[]> {
  return (await ear.heard()).map(decodeRecipientChange);
}

async function addUsers(count: number): Promise<void> {
  const prefix = randomBytes(8).toString('hex');
  await sql`
    insert into users (pubkey, lock_quotes)
    select ${prefix} || lpad(to_hex(n), 48, '0'), true from generate_series(1, ${count}::int) as n
  `.execute(database.db);
}

function newPubkey(): string {
  return randomBytes(32).toString('hex');
}
