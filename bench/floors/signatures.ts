import { json } from 'node:stream/consumers';
import type { Event } from 'nostr-tools';
import { loadEventVerifier } from '../../src/nostr/events.ts';

/** Floor for tokens: a loop that only verifies signatures. */

const { events, seconds } = (await json(process.stdin)) as { events: Event[]; seconds: number };
const verifyEvent = await loadEventVerifier();

measureCheckRate(1);
process.stdout.write(`${JSON.stringify({ checksPerCpuSecond: measureCheckRate(seconds) })}\n`);

/** Returns the number of signature checks per second of CPU time. */
function measureCheckRate(durationSeconds: number): number {
  const startedAt = performance.now();
  const cpuBefore = process.cpuUsage();
  let checks = 0;
  while (performance.now() - startedAt < durationSeconds * 1000) {
    if (!events.every(verifyEvent)) {
      throw new Error('a signature is invalid');
    }
    checks += events.length;
  }
  const { user, system } = process.cpuUsage(cpuBefore);
  return (checks / (user + system)) * 1e6;
}
