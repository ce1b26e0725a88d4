import { once } from 'node:events';
import { createServer } from 'node:http';
import { describe, expect, it, onTestFinished } from 'vitest';
import { type WebSocket, WebSocketServer } from 'ws';
import type { Egress } from '../../src/net/egress.ts';
import { listenOnLoopback } from '../helpers/network/loopback-server.ts';
import { openTestEgress } from '../helpers/network/open-test-egress.ts';

const KIBIBYTE = 1024;

const SITE_BURST_BYTES = 16 * 1024 * KIBIBYTE;

const BYTES_PER_MESSAGE = 2 * KIBIBYTE;

describe('a WebSocket to a host that the operator did not name', () => {
  it.each([
    ['large messages', 200 * KIBIBYTE],
    ['short messages', 2],
  ])('is closed after a burst of %s, and accepted again later', async (_case, messageBytes) => {
    const text = 'x'.repeat(messageBytes);
    const url = await startSite((socket) => {
      const sendMore = () => socket.send(text, (error) => error || setImmediate(sendMore));
      sendMore();
    });
    const egress = openTestEgress();
    const socket = egress.connect(url);
    let messageCount = 0;
    socket.on('message', () => {
      messageCount += 1;
    });
    expect((await once(socket, 'close'))[0]).toEqual({ reason: 'connection lost', status: null });
    const expectedCount = SITE_BURST_BYTES / (messageBytes + BYTES_PER_MESSAGE);
    expect(messageCount).toBeGreaterThan(expectedCount * 0.9);
    expect(messageCount).toBeLessThan(expectedCount * 1.1);

    await once(egress.connect(url), 'close');
    const otherSocket = egress.connect(await startSite(() => {}));
    await once(otherSocket, 'open');
    await expect.poll(() => canOpen(egress, url)).toBe(true);
  });

  it('is closed after a burst of binary messages, which count like others', async () => {
    let sentCount = 0;
    const url = await startSite((socket) => {
      const sendMore = () =>
        socket.send(Buffer.alloc(KIBIBYTE), (error) => {
          sentCount += 1;
          return error || setImmediate(sendMore);
        });
      sendMore();
    });
    await once(openTestEgress().connect(url), 'close');
    // The system buffers some MiB. If only their bytes counted, there would be 16,000.
    expect(sentCount).toBeLessThan(12_000);
  });
});

describe('a client for hosts that the operator did not name', () => {
  it('ends its requests when it is closed, and reports later requests as unsent', async () => {
    const arrived = Promise.withResolvers<void>();
    const server = createServer(() => arrived.resolve());
    const { url, close } = await listenOnLoopback(server);
    onTestFinished(close);
    const egress = openTestEgress();
    const fetch = egress.createFetch();
    const pending = fetch.request({ url });
    await arrived.promise;
    await fetch.close();
    const closed = { outcome: 'unreachable', reason: 'closed' };
    expect(await pending).toEqual(closed);
    expect(await fetch.request({ url })).toEqual({ ...closed, isUnsent: true });
  });
});

async function startSite(onConnection: (socket: WebSocket) => void): Promise<string> {
  const server = createServer();
  new WebSocketServer({ server }).on('connection', (socket) => {
    socket.on('error', () => undefined);
    onConnection(socket);
  });
  const { url, close } = await listenOnLoopback(server);
  onTestFinished(close);
  return url.replace('http', 'ws');
}

async function canOpen(egress: Egress, url: string): Promise<boolean> {
  const socket = egress.connect(url);
  const { promise, resolve } = Promise.withResolvers<boolean>();
  socket.once('open', () => resolve(true));
  socket.once('close', () => resolve(false));
  const isOpen = await promise;
  socket.terminate();
  return isOpen;
}
