import { readConfig } from '../../src/config.ts';
import { startService } from '../../src/service.ts';

/**
 * Runs the service in a child process and sends its URL to the parent. The parent can then send two kinds of
 * messages: - A number of milliseconds: the service's clock runs ahead of the system clock by this time. The response
 * is the same number. - 'collect garbage': the process collects garbage. The response is its resident memory in
 * bytes.
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
