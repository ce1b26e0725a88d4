import { expect, it } from 'vitest';
import { FixedWindowRateLimiter } from '../../src/fixed-window-rate-limiter.ts';
import { createLogger } from '../../src/log.ts';
import { NotificationDispatcher } from '../../src/notifications/notification-dispatcher.ts';
import { useTestDatabase } from '../helpers/database/test-database.ts';
import { eventually } from '../helpers/eventually.ts';
import { randomPubkey } from '../helpers/recipients/quote-fixtures.ts';

const database = useTestDatabase();

it('counts nothing towards the limit of a site if nothing is to be sent', async () => {
  const { db } = database;
  const site = 'shop.example';
  const channel = {
    id: 'channel',
    pubkey: randomPubkey(),
    kind: 'webhook' as const,
    site,
    sealed_target: 'sealed',
    min_amount_sat: 1,
    created_at: 1,
    next_attempt_at: 1,
  };
  await db.insertInto('notification_channels').values(channel).execute();
  const siteLimiter = new FixedWindowRateLimiter(120, 10, () => 0);
  const context = { db, siteLimiter, clock: Date.now, monotonicMs: () => 0, nostr: null };
  const log = createLogger('silent');
  const dispatcher = new NotificationDispatcher({ ...context, log } as never);
  dispatcher.start();
  await eventually(async () => {
    const next = db.selectFrom('notification_channels').select('next_attempt_at as next');
    expect(await next.execute()).toEqual([{ next: null }]);
  });
  await dispatcher.stop();
  expect(siteLimiter.getCount(site)).toBe(0);
});
