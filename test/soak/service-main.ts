import { readConfig } from '../../src/config.ts';
import { startService } from '../../src/service.ts';

/**
 * Runs the service as a child process whose clock the parent can advance. The first message to the parent is the URL.
 * A number from the parent sets the offset to the system clock in milliseconds, and is sent back when it applies.
 * 'collect garbage' collects garbage and returns the resident memory in bytes.
 */
let clockOffsetMs = 0;

const service = await startService(readConfig(), {
  clock: () => Date.now() + clockOffsetMs,
  monotonicMs: () => performance.now() + clockOffsetMs,
});

process.on('message', (message: number | 'collect garbage') => {
  if (message === 'collect garbage') {
    void globalThis.gc?.();
    process.send?.(process.memoryUsage.rss());
  } else {
    clockOffsetMs = message;
    process.send?.(clockOffsetMs);
  }
});
process.once('SIGTERM', () => {
  void service.stop().then(() => process.disconnect?.());
});
// Also happens if the parent was killed.
process.once('disconnect', () => process.exit());
process.send?.(service.url);
