import { once } from 'node:events';
import { json } from 'node:stream/consumers';
import pg from 'pg';
import { WebSocket } from 'ws';
import { sum } from '../harness/statistics.ts';

/** What is to be sent where: standard input. */
export interface FloorZapsPlan {
  databaseUrl: string;
  /** Each gets every receipt. */
  relays: string[];
}

/** The line of standard output. */
export interface FloorZapsResult {
  /** From the first connection to the last OK. */
  seconds: number;
  sent: number;
  refused: number;
}

/** What a socket may hold back unsent. */
const MAX_BUFFERED_BYTES = 1024 * 1024;

/** The floor of receipts: sends events that are signed already, and waits for their OKs. */

const plan = (await json(process.stdin)) as FloorZapsPlan;
const client = new pg.Client({ connectionString: plan.databaseUrl });
await client.connect();
const { rows } = await client.query<{ event: string }>('select event from zap_receipts');
await client.end();
const messages = rows.map(({ event }) => `["EVENT",${event}]`);

const startedAt = performance.now();
const refused = await Promise.all(plan.relays.map(sendAll));
const result: FloorZapsResult = {
  seconds: (performance.now() - startedAt) / 1000,
  sent: messages.length * plan.relays.length,
  refused: sum(refused),
};
process.stdout.write(`${JSON.stringify(result)}\n`);

/** @returns how many were turned away */
async function sendAll(relay: string): Promise<number> {
  const socket = new WebSocket(relay);
  await once(socket, 'open');
  const done = Promise.withResolvers<void>();
  let answers = 0;
  let refusals = 0;
  socket.on('message', (data) => {
    const [kind, , isAccepted] = JSON.parse(String(data)) as [string, string, boolean];
    answers += kind === 'OK' ? 1 : 0;
    refusals += kind === 'OK' && !isAccepted ? 1 : 0;
    if (answers === messages.length) {
      done.resolve();
    }
  });
  socket.on('close', () => done.reject(new Error(`${relay} hung up`)));
  for (const message of messages) {
    const isSent = Promise.withResolvers<void>();
    socket.send(message, () => isSent.resolve());
    if (socket.bufferedAmount > MAX_BUFFERED_BYTES) {
      await isSent.promise;
    }
  }
  await done.promise;
  socket.removeAllListeners('close').close();
  return refusals;
}
