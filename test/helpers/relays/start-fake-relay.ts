import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';
import { type WebSocket, WebSocketServer } from 'ws';
import { findFreePort } from '../../../scripts/server-process.ts';
import { FakeNostrRelay } from './fake-nostr-relay.ts';

export async function startFakeRelay(
  options: Parameters<typeof FakeNostrRelay.start>[0] = {},
): Promise<FakeNostrRelay> {
  const relay = await FakeNostrRelay.start(options);
  onTestFinished(() => relay.close());
  return relay;
}

/** Starts a WebSocket server that passes each message to `onMessage`, and stops it when the test ends. */
export async function startScriptedRelay(
  // biome-ignore lint/suspicious/noExplicitAny: parsed JSON.
  onMessage: (send: (message: unknown) => void, message: any[], socket: WebSocket) => void,
) {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' });
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const relay = { url: `ws://127.0.0.1:${port}`, socketCount: 0, kinds: [] as string[] };
  server.on('connection', (socket) => {
    relay.socketCount += 1;
    socket.on('error', () => undefined);
    socket.on('message', (data) => {
      const message = JSON.parse(String(data));
      relay.kinds.push(message[0]);
      onMessage((response) => socket.send(JSON.stringify(response)), message, socket);
    });
  });
  onTestFinished(() => {
    for (const socket of server.clients) {
      socket.terminate();
    }
    server.close();
  });
  return relay;
}

export async function findUnreachableRelayUrl(): Promise<string> {
  return `ws://127.0.0.1:${await findFreePort('127.0.0.1')}`;
}
