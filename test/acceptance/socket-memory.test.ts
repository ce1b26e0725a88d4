import { IncomingMessage, ServerResponse } from 'node:http';
import { queryObjects } from 'node:v8';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { RawSocket } from '../helpers/raw-socket.ts';
import { openWorld, type World } from '../helpers/world.ts';

/** What a quote socket takes while nothing happens, when a process holds twenty thousand. */

const SOCKETS = 20;

let world: World;

beforeAll(async () => {
  world = await openWorld();
});

afterAll(() => world.close());

it('a quote socket keeps neither the request that opened it nor an answer', async () => {
  const before = messagesInMemory();
  const sockets = await Promise.all(Array.from({ length: SOCKETS }, openSocket));
  const during = messagesInMemory();
  for (const { connection } of sockets) {
    connection.destroy();
  }
  expect(during.requests - before.requests).toBeLessThan(SOCKETS / 2);
  expect(during.answers - before.answers).toBeLessThan(SOCKETS / 2);
});

async function openSocket(): Promise<RawSocket> {
  const socket = await RawSocket.connect(world.base);
  await socket.signIn(world.newWallet().sign('/api/v2/ws/quote'));
  return socket;
}

/** Once all garbage is collected. The client is a bare connection: all of these are the service's. */
function messagesInMemory(): { requests: number; answers: number } {
  return {
    requests: queryObjects(IncomingMessage, { format: 'count' }),
    answers: queryObjects(ServerResponse, { format: 'count' }),
  };
}
