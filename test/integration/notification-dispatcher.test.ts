import { expect, it, onTestFinished } from 'vitest';
import { FixedWindowRateLimiter } from '../../src/fixed-window-rate-limiter.ts';
import { createLogger } from '../../src/log.ts';
import { NOTIFICATION_LIMITS } from '../../src/notifications/limits.ts';
import { NotificationDispatcher } from '../../src/notifications/notification-dispatcher.ts';
import { useTestDatabase } from '../helpers/database/test-database.ts';
import { eventually } from '../helpers/eventually.ts';
import { insertPaidQuotes, randomPubkey } from '../helpers/recipients/quote-fixtures.ts';

const database = useTestDatabase();

it('counts nothing towards the limit of a site if nothing is to be sent', async () => {
  await insertChannel('channel', 'shop.example', randomPubkey());
  const { siteLimiter } = startDispatcher();
  await eventually(async () => {
    const next = database.db.selectFrom('notification_channels').select('next_attempt_at as next');
    expect(await next.execute()).toEqual([{ next: null }]);
  });
  expect(siteLimiter.getCount('shop.example')).toBe(0);
});

it.each([
  ['shop.example', 8],
  ['googleapis.com', 100],
])('sends to many channels at %s at once, but at most %i', async (site, max) => {
  const pubkey = randomPubkey();
  await insertPaidQuotes(database, pubkey, 1);
  const { id } = await database.db
    .selectFrom('quotes')
    .select('id')
    .where('pubkey', '=', pubkey)
    .executeTakeFirstOrThrow();
  for (let i = 0; i < max + 10; i += 1) {
    await insertChannel(`${site} ${i}`, site, pubkey);
    const notification = { quote: id, event: 'received', status: 'open', due_at: 1 } as const;
    await database.db
      .insertInto('notifications')
      .values({ ...notification, channel: `${site} ${i}`, give_up_at: Date.now() + 60_000 })
      .execute();
  }
  const { sent } = startDispatcher();
  await eventually(() => expect(sent).toHaveLength(max));
  // Another scan does not exceed it.
  await eventually(async () => {
    const claimed = database.db
      .selectFrom('notification_channels')
      .select('id')
      .where('not_before', '>', Date.now() + NOTIFICATION_LIMITS.scanIntervalMs);
    expect(await claimed.execute()).toHaveLength(max);
  });
  expect(sent).toHaveLength(max);
});

async function insertChannel(id: string, site: string, pubkey: string): Promise<void> {
  const times = { created_at: 1, next_attempt_at: 1 };
  const values = {
    id,
    pubkey,
    kind: 'webhook' as const,
    site,
    sealed_target: '',
    min_amount_sat: 1,
  };
  await database.db
    .insertInto('notification_channels')
    .values({ ...values, ...times })
    .execute();
}

/** Starts a dispatcher whose requests never end. */
function startDispatcher() {
  const sent: string[] = [];
  const siteLimiter = new FixedWindowRateLimiter(120, 10, () => 0);
  const target = { url: 'https://shop.example', secret: 'whsec_' };
  const dispatcher = new NotificationDispatcher({
    db: database.db,
    siteLimiter,
    sealer: { open: async () => target },
    fetch: {
      request: ({ url }: { url: string }) => {
        sent.push(url);
        return new Promise(() => undefined);
      },
    },
    clock: Date.now,
    monotonicMs: () => 0,
    nostr: null,
    log: createLogger('silent'),
  } as never);
  dispatcher.start();
  onTestFinished(async () => {
    await dispatcher.stop();
    await database.db.deleteFrom('notification_channels').execute();
  });
  return { sent, siteLimiter };
}
