import { readConfig } from '../../src/config.ts';
import { startService } from '../../src/service.ts';

/**
 * The service in a process of its own, with a clock that its parent sets ahead: a message is the new difference to the
 * system's clock in milliseconds, which is sent back once it applies, or asks for the resident memory without garbage. The
 * first message to the parent is the URL.
 */
let aheadMs = 0;

const service = await startService(readConfig(), {
  clock: () => Date.now() + aheadMs,
  monotonicMs: () => performance.now() + aheadMs,
});

process.on('message', (message: number | 'collect garbage') => {
  if (message === 'collect garbage') {
    void globalThis.gc?.();
    process.send?.(process.memoryUsage.rss());
  } else {
    aheadMs = message;
    process.send?.(aheadMs);
  }
});
process.once('SIGTERM', () => {
  void service.stop().then(() => process.disconnect?.());
});
// Also when the parent was killed.
process.once('disconnect', () => process.exit());
process.send?.(service.url);
