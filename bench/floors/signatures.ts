import { json } from 'node:stream/consumers';
import type { Event } from 'nostr-tools';
import { loadEventVerifier } from '../../src/nostr/events.ts';

/** The floor of a token: the signature checks alone, in a loop. */

const { events, seconds } = (await json(process.stdin)) as { events: Event[]; seconds: number };
const verifyEvent = await loadEventVerifier();

checkFor(1);
process.stdout.write(`${JSON.stringify({ checksPerCpuSecond: checkFor(seconds) })}\n`);

/** Returns how many signatures were checked in each second of CPU time. */
function checkFor(wantedSeconds: number): number {
  const startedAt = performance.now();
  const cpuBefore = process.cpuUsage();
  let checks = 0;
  while (performance.now() - startedAt < wantedSeconds * 1000) {
    if (!events.every(verifyEvent)) {
      throw new Error('a signature is wrong');
    }
    checks += events.length;
  }
  const { user, system } = process.cpuUsage(cpuBefore);
  return (checks / (user + system)) * 1e6;
}
