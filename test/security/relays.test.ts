import { once } from 'node:events';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { type Event, generateSecretKey } from 'nostr-tools';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { WebSocketServer } from 'ws';
import { type EventSigner, loadEventSigner } from '../../src/auth/event-signer.ts';
import { loadEventVerifier } from '../../src/auth/event-verifier.ts';
import { openLog } from '../../src/log.ts';
import { guardedSocketConnector } from '../../src/net/guarded-socket.ts';
import { nameResolver } from '../../src/net/resolve-names.ts';
import { RelayPool } from '../../src/relays/relay-pool.ts';
import {
  type ConnectionAttempts,
  recordConnectionAttempts,
} from '../helpers/connection-attempts.ts';
import { type DnsServer, startDnsServer } from '../helpers/dns-server.ts';
import { type LoopbackTrap, setLoopbackTrap } from '../helpers/loopback-trap.ts';
import { CERTIFICATE, KEY } from '../helpers/mint-certificate.ts';
import { TestRelay } from '../helpers/test-relay.ts';

const MEGABYTE = 1024 * 1024;

let signer: EventSigner;
let trap: LoopbackTrap;
let dns: DnsServer;
let attempts: ConnectionAttempts;
const cleanups: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  signer = await loadEventSigner(Buffer.from(generateSecretKey()).toString('hex'));
  trap = await setLoopbackTrap();
  // Every name is this machine.
  dns = await startDnsServer((_name, type) => [
    type === 'A' ? { type, address: '127.0.0.1' } : { type, address: '::1' },
  ]);
});
afterAll(async () => {
  await dns.close();
  await trap.close();
});
afterEach(async () => {
  attempts?.stop();
  for (const cleanup of cleanups.splice(0).reverse()) {
    await cleanup();
  }
});

describe('a relay that strangers name', () => {
  it.each([
    'wss://127.0.0.1',
    'wss://[::1]',
    'wss://[::ffff:127.0.0.1]',
    'wss://localhost',
    'wss://2130706433',
    'wss://relay.example',
    'ws://relay.example',
  ])('as %s, which is this machine, is not connected to', async (host) => {
    const pool = await openPool({ allowPrivateNetworks: false });
    attempts = recordConnectionAttempts();
    const event = signed('to the inside');
    const url = `${host}:${trap.port}`;
    const forbidden = { outcome: 'unreachable', reason: 'forbidden address' };
    expect(await pool.publish(url, event)).toEqual(forbidden);
    expect(await pool.query(url, {}, { timeoutMs: 10_000, limit: 1 })).toBeNull();
    expect(attempts.targets).toEqual([]);
    expect(trap.arrivals()).toBe(0);
  });

  it('leads nowhere else', async () => {
    const redirecting = await TestRelay.start({ handshake: 302 });
    cleanups.push(() => redirecting.close());
    const pool = await openPool({ allowPrivateNetworks: true });
    attempts = recordConnectionAttempts();
    expect(await pool.publish(redirecting.url, signed('elsewhere'))).toEqual({
      outcome: 'unreachable',
      reason: 'handshake refused',
    });
    expect(attempts.targets).toEqual([redirecting.url.replace('ws://', '')]);
  });

  it('hears nothing before it has proven its name', async () => {
    const server = createServer({ key: KEY, cert: CERTIFICATE });
    let handshakes = 0;
    server.on('upgrade', (_request, socket) => {
      handshakes += 1;
      socket.end();
    });
    const url = await listen(server);
    const pool = await openPool({ allowPrivateNetworks: true });
    expect(await pool.publish(url, signed('unproven'))).toEqual({
      outcome: 'unreachable',
      reason: 'bad certificate',
    });
    expect(handshakes).toBe(0);
  });

  it('gets a signature that is good for nobody else', async () => {
    const asking = await TestRelay.start({ auth: 'at_connect' });
    const other = await TestRelay.start({ auth: 'at_connect' });
    cleanups.push(
      () => asking.close(),
      () => other.close(),
    );
    const pool = await openPool({ allowPrivateNetworks: true });
    await pool.publish(asking.url, signed('hello'));
    await pool.publish(other.url, signed('hello'));
    const relayOf = ({ tags }: Event) => tags.find(([name]) => name === 'relay')?.[1];
    expect(asking.authEvents.map(relayOf)).toEqual([asking.url]);
    expect(other.authEvents.map(relayOf)).toEqual([other.url]);
  });
});

describe('a relay that talks much', () => {
  it('fills no memory, be it 100 MB between a thousand honest answers', async () => {
    const chatter = JSON.stringify(['NOTICE', 'blah '.repeat(20_000)]);
    const server = new WebSocketServer({ port: 0, host: '127.0.0.1' });
    await once(server, 'listening');
    cleanups.push(async () => server.close());
    let heard = 0;
    server.on('connection', (socket) => {
      socket.on('message', (data) => {
        heard += 1;
        socket.send(chatter);
        socket.send(
          JSON.stringify(['OK', JSON.parse(String(data))[1].id, true, 'x'.repeat(9_000)]),
        );
      });
    });
    const pool = await openPool({ allowPrivateNetworks: true });
    const url = `ws://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const publishHundred = async (round: number) => {
      const answers = await Promise.all(
        Array.from({ length: 100 }, (_, index) => pool.publish(url, signed(`${round} ${index}`))),
      );
      expect(new Set(answers.map(({ outcome }) => outcome))).toEqual(new Set(['accepted']));
    };
    await publishHundred(0);
    const before = usedBytes();
    for (let round = 1; round < 10; round += 1) {
      await publishHundred(round);
    }
    expect(heard).toBe(1_000);
    expect(usedBytes() - before).toBeLessThan(40 * MEGABYTE);
  });
});

/** What is not given back, in the heap and beside it, where a few buffers of sockets always wait. */
function usedBytes(): number {
  setFlagsFromString('--expose-gc');
  runInNewContext('gc')();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

function signed(content: string): { id: string; text: string } {
  const event = signer.sign({ kind: 1, tags: [], content, created_at: 1_700_000_000 });
  return { id: event.id, text: JSON.stringify(event) };
}

async function openPool(options: { allowPrivateNetworks: boolean }): Promise<RelayPool> {
  const pool = new RelayPool({
    connect: guardedSocketConnector({ ...options, resolve: nameResolver([dns.address]) }),
    signer,
    verifyEvent: await loadEventVerifier(),
    clock: Date.now,
    log: openLog('silent'),
  });
  cleanups.push(() => pool.close());
  return pool;
}

async function listen(server: Server): Promise<string> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  cleanups.push(async () => {
    server.closeAllConnections();
    server.close();
  });
  return `wss://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
