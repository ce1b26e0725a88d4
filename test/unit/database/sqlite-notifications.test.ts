import { expect, it, onTestFinished, vi } from 'vitest';
import { SqliteNotifications } from '../../../src/database/sqlite-notifications.ts';

const START_MS = 1_750_000_000_000;

it('reports changes by other processes since the last successful check and repeats a failed report', async () => {
  vi.useFakeTimers({ now: START_MS });
  onTestFinished(() => void vi.useRealTimers());
  const readVersion = vi.fn(async () => 1);
  const onMissedNotifications = vi.fn(async (_sinceMs: number) => undefined);
  const listener = {
    channels: {},
    onMissedNotifications,
    onError: () => undefined,
    clock: Date.now,
  };
  const notificationSubscription = await new SqliteNotifications(readVersion).listen(listener);
  onTestFinished(() => notificationSubscription.close());

  await vi.advanceTimersByTimeAsync(2_000);
  expect(onMissedNotifications).not.toHaveBeenCalled();
  readVersion.mockResolvedValue(2).mockRejectedValueOnce(new Error('disk I/O error'));
  onMissedNotifications.mockRejectedValueOnce(new Error('the database is busy'));
  await vi.advanceTimersByTimeAsync(5_000);
  expect(onMissedNotifications.mock.calls).toEqual([[START_MS + 2_000], [START_MS + 2_000]]);
});
