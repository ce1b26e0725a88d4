import { readConfig } from '../../src/config.ts';
import { startService } from '../../src/service.ts';

/**
 * Sends the URL of a service to the parent. If the parent sends a number, the service's clock runs ahead of the system
 * clock by that many milliseconds. If it sends `collect garbage`, the response is the resident memory in bytes.
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
// The process also exits if the parent was killed.
process.once('disconnect', () => process.exit());
process.send?.(service.url);
