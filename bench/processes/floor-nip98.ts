import { json } from 'node:stream/consumers';
import type { Event } from 'nostr-tools';
import { loadEventVerifier } from '../../src/auth/event-verifier.ts';
import { TURN } from './load-plan.ts';

/** What is checked: standard input. */
export interface ChecksPlan {
  events: Event[];
  /** Of one turn. */
  seconds: number;
}

/** What is said of a turn, a line of standard output, as `"warm"` is before the first, once it listens for turns. */
export interface ChecksResult {
  seconds: number;
  cpuMs: number;
  right: number;
  wrong: number;
}

/** The floor of a NIP-98 request: its signature is checked, one after another, and nothing else, when it is its turn. */

const plan = (await json(process.stdin)) as ChecksPlan;
const verifyEvent = await loadEventVerifier();

process.on('message', (message) => {
  if (message === TURN) {
    say(checkFor(plan.seconds));
  }
});
say('warm');

function checkFor(seconds: number): ChecksResult {
  const startedAt = performance.now();
  const cpuBefore = process.cpuUsage();
  let right = 0;
  let wrong = 0;
  let tookMs = 0;
  while (tookMs < seconds * 1000) {
    for (const event of plan.events) {
      if (verifyEvent(event)) {
        right += 1;
      } else {
        wrong += 1;
      }
    }
    tookMs = performance.now() - startedAt;
  }
  const { user, system } = process.cpuUsage(cpuBefore);
  return { seconds: tookMs / 1000, cpuMs: (user + system) / 1000, right, wrong };
}

function say(message: 'warm' | ChecksResult): void {
  process.stdout.write(`${JSON.stringify(message)}\n`);
}
