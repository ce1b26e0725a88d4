import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/**
 * Loaded into every process of a benchmark before its own program (`node --import`): tells its CPU
 * time or its memory when asked, and ends it when the benchmark has ended, killed or not.
 */
process.on('message', (question) =>
  process.send?.(question === 'heap' ? usedHeapBytes() : process.cpuUsage()),
);
process.on('disconnect', () => process.kill(process.pid, 'SIGTERM'));

/** What is in use once all that is not needed is gone. */
function usedHeapBytes(): number {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
  return process.memoryUsage().heapUsed;
}
