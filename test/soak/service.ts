import { readConfig } from '../../src/config.ts';
import { startService } from '../../src/service.ts';

/**
 * The service in a process of its own, with a clock that its parent sets ahead: a message is the new difference to the
 * system's clock in milliseconds, and is sent back once it applies. The first message to the parent is the URL.
 */
let aheadMs = 0;

const service = await startService(readConfig(), {
  clock: () => Date.now() + aheadMs,
  monotonicMs: () => performance.now() + aheadMs,
});

process.on('message', (newAheadMs: number) => {
  aheadMs = newAheadMs;
  process.send?.(aheadMs);
});
process.once('SIGTERM', () => {
  void service.stop().then(() => process.disconnect?.());
});
// Also when the parent was killed.
process.once('disconnect', () => process.exit());
process.send?.(service.url);
