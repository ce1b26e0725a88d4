import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/**
 * Loaded into every process of a benchmark before its own program (`node --import`): tells its CPU
 * time or its memory when asked, and ends it when the benchmark has ended, killed or not. It is
 * JavaScript, because a service that finds its own files compiled never loads what strips types.
 */
process.on('message', (question) => {
  if (question === 'heap' || question === 'cpu') {
    process.send?.(question === 'heap' ? usedHeapBytes() : process.cpuUsage());
  }
});
process.on('disconnect', () => process.kill(process.pid, 'SIGTERM'));

/** What is in use once all that is not needed is gone. */
function usedHeapBytes() {
  setFlagsFromString('--expose-gc');
  runInNewContext('gc')();
  return process.memoryUsage().heapUsed;
}
