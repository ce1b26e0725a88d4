import { json } from 'node:stream/consumers';
import type { Event } from 'nostr-tools';
import { loadEventVerifier } from '../../src/nostr/events.ts';

/** The floor for the `nip98` figure: a loop that only verifies the signatures of events. */

const { events, seconds } = (await json(process.stdin)) as { events: Event[]; seconds: number };
const verifyEvent = await loadEventVerifier();

// Lets V8 compile the loop.
measureCheckRate(1);
process.stdout.write(`${JSON.stringify({ checksPerCpuSecond: measureCheckRate(seconds) })}\n`);

/** Returns the number of signature checks per second of CPU time. */
function measureCheckRate(durationSeconds: number): number {
  const startedAtMs = performance.now();
  const cpuBefore = process.cpuUsage();
  let checkCount = 0;
  while (performance.now() - startedAtMs < durationSeconds * 1000) {
    if (!events.every(verifyEvent)) {
      throw new Error('a signature is invalid');
    }
    checkCount += events.length;
  }
  const { user, system } = process.cpuUsage(cpuBefore);
  return (checkCount / (user + system)) * 1e6;
}
