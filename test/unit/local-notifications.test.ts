import { expect, it, onTestFinished, vi } from 'vitest';
import { LocalNotifications } from '../../src/database/local-notifications.ts';

const START_MS = 1_750_000_000_000;

it('reports changes of other processes since the last good check, also after a failure', async () => {
  vi.useFakeTimers({ now: START_MS });
  onTestFinished(() => void vi.useRealTimers());
  const readVersion = vi.fn(async () => 1);
  const onGap = vi.fn(async (_sinceMs: number) => undefined);
  const listener = { channels: {}, onGap, onError: () => undefined, clock: Date.now };
  const listening = await new LocalNotifications(readVersion).listen(listener);
  onTestFinished(() => listening.close());

  await vi.advanceTimersByTimeAsync(2_000);
  expect(onGap).not.toHaveBeenCalled();
  readVersion.mockResolvedValue(2).mockRejectedValueOnce(new Error('disk I/O error'));
  onGap.mockRejectedValueOnce(new Error('the database is busy'));
  await vi.advanceTimersByTimeAsync(5_000);
  expect(onGap.mock.calls).toEqual([[START_MS + 2_000], [START_MS + 2_000]]);
});
