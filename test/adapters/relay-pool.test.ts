import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { type Event, type EventTemplate, generateSecretKey } from 'nostr-tools';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { type WebSocket, WebSocketServer } from 'ws';
import { createLogger } from '../../src/log.ts';
import { createGuardedWebSocketConnector } from '../../src/net/guarded-websocket.ts';
import {
  type EventSigner,
  type EventVerifier,
  loadEventSigner,
  loadEventVerifier,
} from '../../src/nostr/events.ts';
import type { RelayTimeouts } from '../../src/zaps/relay-connection.ts';
import { RelayPool, type RelayPoolDeps } from '../../src/zaps/relay-pool.ts';
import { startRelay } from '../helpers/start-test-relay.ts';
import { TestClock } from '../helpers/test-clock.ts';

/** A timeout that the test waits for. */
const SHORT_MS = 100;

/** A timeout that must not elapse: longer than any test. */
const NEVER_MS = 60_000;

/** A timeout that elapses, but leaves time for other work on a busy machine. */
const LONGER_MS = 1_500;

const ACCEPTED = { outcome: 'accepted', message: '' };
const UNANSWERED = { outcome: 'no_response' };

/** Unsolicited messages. */
const NONSENSE = [
  ...[
    '',
    'hello',
    '{}',
    'null',
    '[]',
    '[[[[',
    '["OK"]',
    '["OK",1,true,""]',
    '["EOSE"]',
    '["AUTH"]',
  ],
  ...[`["OK","${'0'.repeat(64)}",true,""]`, '["OK",null,null,null]', '["EVENT","q0",{}]'],
  ...['["EVENT","q0",null]', '["EOSE",["q0"]]', '["CLOSED","other","error: no"]', '["AUTH",{}]'],
  ...['["AUTH",""]', `["AUTH","${'x'.repeat(10_000)}"]`, '["NOTICE","OK"]', '["__proto__"]'],
];

let verifyEvent: EventVerifier;
let signer: EventSigner;

beforeAll(async () => {
  verifyEvent = await loadEventVerifier();
  signer = await loadEventSigner(Buffer.from(generateSecretKey()).toString('hex'));
});

describe('RelayPool.publish', () => {
  it('publishes events over one connection, byte for byte', async () => {
    const relay = await startScripted((socket, text) => {
      const [, { id }] = JSON.parse(text);
      send(socket, ['OK', id, true, '']);
    });
    const pool = openPool();
    const texts = Array.from(
      { length: 50 },
      (_, index) => `{ "id" : "${index}",\t"content":"\\u00e4 \\/ 1.0" }`,
    );
    const answers = await Promise.all(
      texts.map((text, index) => pool.publish(relay.url, { id: `${index}`, eventJson: text })),
    );
    expect(answers).toEqual(Array(50).fill(ACCEPTED));
    expect(relay.received).toEqual(texts.map((text) => `["EVENT",${text}]`));
    expect(relay.sockets()).toBe(1);
  });

  it('uses the first OK, whatever else the relay sends', async () => {
    const relay = await startScripted((socket, text) => {
      const [, { id }] = JSON.parse(text);
      for (const nonsense of NONSENSE) {
        socket.send(nonsense);
      }
      socket.send(Buffer.from(JSON.stringify(['OK', id, false, 'blocked: in binary'])));
      socket.ping();
      send(socket, ['OK', id, true]);
      send(socket, ['OK', id, false, 'blocked: changed my mind']);
    });
    const pool = openPool();
    expect(await publish(pool, relay, signed())).toEqual(ACCEPTED);
    expect(await publish(pool, relay, signed({ content: 'next' }))).toEqual(ACCEPTED);
    expect(relay.sockets()).toBe(1);
  });
});

describe('RelayPool with an unresponsive relay', () => {
  it('disconnects and connects again', async () => {
    const relay = await startRelay({ eventHandling: 'ignore' });
    const pool = openPool({ responseTimeoutMs: SHORT_MS });
    const event = signed();
    expect(await publish(pool, relay, event)).toEqual(UNANSWERED);
    await relay.waitForEvents(() => relay.connections.open === 0);
    relay.switches.eventHandling = 'answer';
    expect(await publish(pool, relay, event)).toEqual(ACCEPTED);
    expect(relay.connections.opened).toBe(2);
  });

  it.each(['handshake', 'event'])(
    'accepts a response that arrived while this process was busy (%s)',
    async (what) => {
      const beBusy = () => {
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, LONGER_MS + SHORT_MS);
      };
      const relay = await startScripted(
        (socket, text) => {
          send(socket, ['OK', JSON.parse(text)[1].id, true, '']);
          if (what === 'event') {
            // The timeout elapses before the response is read.
            setImmediate(beBusy);
          }
        },
        () => what === 'handshake' && beBusy(),
      );
      const timeouts = { responseTimeoutMs: LONGER_MS, handshakeTimeoutMs: LONGER_MS };
      const pool = openPool(timeouts, timeouts);
      expect(await publish(pool, relay, signed())).toEqual(ACCEPTED);
      expect(await publish(pool, relay, signed({ content: 'next' }))).toEqual(ACCEPTED);
      expect(relay.sockets()).toBe(1);
    },
  );
});

describe('RelayPool with a flooding relay', () => {
  it.each<[string, number, (socket: WebSocket, id: string) => void]>([
    ['notices', 300, (socket) => send(socket, ['NOTICE', 'hello'])],
    ['pings', 300, (socket) => socket.ping()],
    ['pongs', 300, (socket) => socket.pong()],
    ['large messages', 10, (socket) => socket.send('x'.repeat(200_000))],
    ['one message that is too large', 1, (socket) => socket.send('x'.repeat(300 * 1024))],
    ['binary messages', 300, (socket) => socket.send(Buffer.alloc(1_000))],
    ['challenges', 300, (socket) => send(socket, ['AUTH', `${Math.random()}`])],
    ['answers for unknown events', 300, (socket) => send(socket, ['OK', 'f'.repeat(64), true, ''])],
    ['answers for unknown queries', 300, (socket, id) => send(socket, ['EOSE', id])],
    ['one refusal', 300, (socket, id) => send(socket, ['OK', id, false, 'auth-required: who?'])],
  ])('disconnects a relay that sends %s', async (_what, times, talk) => {
    const relay = await startScripted((socket, text) => {
      const [kind, { id }] = JSON.parse(text);
      for (let count = 0; kind === 'EVENT' && count < times; count += 1) {
        talk(socket, id);
      }
    });
    expect(await publish(openPool(), relay, signed())).not.toEqual(ACCEPTED);
    await relay.emptied();
  });
});

describe('RelayPool with an unreachable relay', () => {
  it.each([
    ['speaks another protocol', 'SSH-2.0-OpenSSH\r\n', 'not a relay'],
    ['disconnects', '', 'connection lost'],
  ])('%s', async (_case, bytes, reason) => {
    const server = createServer((socket) => {
      socket.on('error', () => undefined);
      socket.once('data', () => socket.end(bytes));
    }).listen(0, '127.0.0.1');
    onTestFinished(() => {
      server.close();
    });
    await once(server, 'listening');
    const url = `ws://127.0.0.1:${(server.address() as AddressInfo).port}`;
    expect(await publish(openPool(), { url }, signed())).toEqual(unreachable(reason));
  });
});

describe('RelayPool with a relay that requires AUTH', () => {
  it.each(['at_connect', 'at_first_message'] as const)(
    'sends one signature and every event (%s)',
    async (auth) => {
      const clock = new TestClock(1_700_000_000_000);
      const relay = await startRelay({ auth, now: clock.now });
      const pool = openPool({}, { clock: clock.now });
      const events = Array.from({ length: 32 }, (_, index) => signed({ content: `${index}` }));
      const answers = await Promise.all(events.map((event) => publish(pool, relay, event)));
      expect(answers).toEqual(events.map(() => ACCEPTED));
      expect(relay.events.size).toBe(32);
      expect(relay.authEvents).toMatchObject([
        {
          kind: 22242,
          pubkey: signer.pubkey,
          created_at: 1_700_000_000,
          tags: [
            ['relay', relay.url],
            ['challenge', expect.stringMatching(/^[0-9a-f]{32}$/)],
          ],
        },
      ]);
      expect(relay.connections.opened).toBe(1);
    },
  );

  it('returns auth_required without a signing key', async () => {
    const relay = await startRelay({ auth: 'at_connect' });
    const answer = await publish(openPool({}, { signer: null }), relay, signed());
    expect(answer).toMatchObject({ outcome: 'rejected', rejection: 'auth_required' });
    expect(relay.authEvents).toEqual([]);
  });

  it('returns auth_required if the relay sends no challenge', async () => {
    const message = 'auth-required: who?';
    const relay = await startScripted((socket, text) =>
      send(socket, ['OK', JSON.parse(text)[1].id, false, message]),
    );
    const answer = await publish(openPool({ responseTimeoutMs: SHORT_MS }), relay, signed());
    expect(answer).toEqual({ outcome: 'rejected', rejection: 'auth_required', message });
  });

  it.each([
    ['restricted: members only', 'final'],
    ['error: database is busy', 'other'],
  ])(
    'returns the relay\'s response "%s" to AUTH and authenticates again later',
    async (message, rejection) => {
      let isWilling = false;
      const relay = await startScripted((socket, text) => {
        const [kind, { id }] = JSON.parse(text);
        if (kind === 'AUTH') {
          send(socket, ['OK', id, isWilling, isWilling ? '' : message]);
        } else if (isWilling) {
          send(socket, ['OK', id, true, '']);
        } else {
          send(socket, ['AUTH', 'challenge']);
          send(socket, ['OK', id, false, 'auth-required: who?']);
        }
      });
      const pool = openPool();
      expect(await publish(pool, relay, signed())).toEqual({
        outcome: 'rejected',
        rejection,
        message,
      });
      isWilling = true;
      expect(await publish(pool, relay, signed())).toEqual(ACCEPTED);
      expect(relay.sockets()).toBe(2);
    },
  );

  it('sends an event once more, and no more often, if the relay requires AUTH again', async () => {
    const relay = await startScripted((socket, text) => {
      const [kind, { id }] = JSON.parse(text);
      send(socket, ['AUTH', `challenge ${relay.received.length}`]);
      send(socket, ['OK', id, kind === 'AUTH', 'auth-required: again']);
    });
    const pool = openPool({ responseTimeoutMs: LONGER_MS });
    for (const content of ['a', 'b', 'c', 'd', 'e']) {
      const answer = await publish(pool, relay, signed({ content }));
      expect(answer).toMatchObject({ outcome: 'rejected', rejection: 'auth_required' });
    }
    const kinds = relay.received.map((text) => JSON.parse(text)[0]);
    expect(kinds.filter((kind) => kind === 'EVENT')).toHaveLength(10);
    expect(kinds.filter((kind) => kind === 'AUTH')).toHaveLength(4);
  });
});

describe('RelayPool.query', () => {
  const filter = { kinds: [10_002] };

  it('returns the newest event', async () => {
    const relay = await startRelay();
    const events = [1, 2].map((created_at) => signed({ kind: 10_002, created_at }));
    for (const event of [...events, signed()]) {
      relay.store(event);
    }
    const pool = openPool();
    const found = { outcome: 'found', event: { id: events[1]?.id } };
    expect(await pool.query(relay.url, filter, NEVER_MS)).toMatchObject(found);
    expect(await pool.query(relay.url, { kinds: [7] }, NEVER_MS)).toEqual({ outcome: 'none' });
    expect(relay.connections.opened).toBe(1);
  });

  it('ignores mismatched or forged events and closes its subscription', async () => {
    const good = signed({ kind: 10_002 });
    const relay = await startScripted((socket, text) => {
      const [kind, id] = JSON.parse(text);
      if (kind === 'REQ') {
        const forged = { ...good, content: 'forged' };
        const stolen = { ...signed({ kind: 10_002, content: 'x' }), sig: good.sig };
        send(socket, ['EVENT', 'another', good]);
        for (const event of [signed(), forged, stolen, { id: good.id }, good]) {
          send(socket, ['EVENT', id, event]);
        }
      }
    });
    const answer = await openPool().query(relay.url, filter, NEVER_MS);
    expect(answer).toMatchObject({ outcome: 'found', event: { id: good.id, sig: good.sig } });
    await relay.waitForMessage('["CLOSE","q0"]');
  });

  it('returns no_response if the relay is silent, rejects it or is down, and works later', async () => {
    const relay = await startRelay({ queryHandling: 'ignore' });
    const pool = openPool();
    expect(await pool.query(relay.url, filter, SHORT_MS)).toEqual(UNANSWERED);
    relay.switches.queryHandling = 'error: shutting down idle subscription';
    expect(await pool.query(relay.url, filter, NEVER_MS)).toEqual(UNANSWERED);
    await relay.stop();
    expect(await pool.query(relay.url, filter, NEVER_MS)).toEqual(UNANSWERED);
    await relay.restart();
    relay.switches.queryHandling = 'answer';
    expect(await pool.query(relay.url, filter, NEVER_MS)).toEqual({ outcome: 'none' });
  });

  it('leaves published events in flight if a query gets no response', async () => {
    const relay = await startRelay({ queryHandling: 'ignore' });
    const pool = openPool();
    const release = relay.holdResponses();
    const published = publish(pool, relay, signed());
    await relay.waitForEvents(1);
    expect(await pool.query(relay.url, filter, SHORT_MS)).toEqual(UNANSWERED);
    release();
    expect(await published).toEqual(ACCEPTED);
    expect(relay.connections.opened).toBe(1);
  });

  it('returns no_response immediately beside ten pending queries', async () => {
    const relay = await startRelay();
    const pool = openPool();
    const release = relay.holdResponses();
    const answers = Array.from({ length: 11 }, () => pool.query(relay.url, filter, NEVER_MS));
    expect(await answers[10]).toEqual(UNANSWERED);
    release();
    expect(await Promise.all(answers.slice(0, 10))).toEqual(Array(10).fill({ outcome: 'none' }));
  });
});

describe('RelayPool connections', () => {
  it('are closed when idle and opened again', async () => {
    const relay = await startRelay();
    const pool = openPool({ idleTimeoutMs: 50 });
    await publish(pool, relay, signed());
    await relay.waitForEvents(() => relay.connections.open === 0);
    // Longer than the idle timeout.
    setTimeout(relay.holdResponses(), 200);
    expect(await publish(pool, relay, signed({ content: 'slow' }))).toEqual(ACCEPTED);
    expect(relay.connections.opened).toBe(2);
  });

  it('to one host are limited to eight: the least recently used is closed', async () => {
    const relay = await startRelay();
    const pool = openPool();
    for (let index = 0; index < 20; index += 1) {
      await publish(pool, { url: `${relay.url}/${index}` }, signed());
    }
    await relay.waitForEvents(() => relay.connections.open === 8);
    await publish(pool, { url: `${relay.url}/19` }, signed());
    expect(relay.connections.opened).toBe(20);
  });

  it('are not used after the relay closes them', async () => {
    const relay = await startScripted((socket, text) => {
      send(socket, ['OK', JSON.parse(text)[1].id, true, '']);
      socket.close();
    });
    const pool = openPool();
    for (const content of ['first', 'second']) {
      expect(await publish(pool, relay, signed({ content }))).toEqual(ACCEPTED);
    }
    expect(relay.sockets()).toBe(2);
  });

  it('all close with the pool, whatever is in flight', async () => {
    const relay = await startRelay({ eventHandling: 'store_and_ignore' });
    const silent = await startRelay({ handshake: 'silent' });
    const pool = openPool();
    const sent = publish(pool, relay, signed());
    const query = pool.query(silent.url, {}, NEVER_MS);
    const unsent = publish(pool, silent, signed());
    await relay.waitForEvents(1);
    await pool.close();
    expect(await sent).toEqual(UNANSWERED);
    expect(await unsent).toEqual(unreachable('closed'));
    expect(await query).toEqual(UNANSWERED);
    expect(await publish(pool, relay, signed())).toEqual(unreachable('closed'));
    await relay.waitForEvents(() => relay.connections.open === 0);
    await silent.waitForEvents(() => silent.connections.open === 0);
    expect(relay.connections.opened).toBe(1);
  });
});

function unreachable(reason: string) {
  return { outcome: 'unreachable', reason };
}

function signed(template: Partial<EventTemplate> = {}): Event {
  const created_at = Math.floor(Date.now() / 1_000);
  return signer.sign({ kind: 1, tags: [], content: 'hello', created_at, ...template });
}

function publish(pool: RelayPool, relay: { url: string }, event: Event) {
  return pool.publish(relay.url, { id: event.id, eventJson: JSON.stringify(event) });
}

function openPool(
  timing: Partial<RelayTimeouts> = {},
  options: { handshakeTimeoutMs?: number } & Partial<Pick<RelayPoolDeps, 'signer' | 'clock'>> = {},
): RelayPool {
  const { handshakeTimeoutMs = NEVER_MS } = options;
  const pool = new RelayPool({
    connect: createGuardedWebSocketConnector({ allowPrivateNetworks: true, handshakeTimeoutMs }),
    signer,
    verifyEvent,
    clock: Date.now,
    log: createLogger('silent'),
    timeouts: { responseTimeoutMs: NEVER_MS, ...timing },
    ...options,
  });
  onTestFinished(() => pool.close());
  return pool;
}

/** Starts a relay with a scripted message handler. */
async function startScripted(
  onMessage: (socket: WebSocket, text: string) => void,
  onOpened: (socket: WebSocket) => void = () => undefined,
) {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' });
  await once(server, 'listening');
  const received: string[] = [];
  let sockets = 0;
  server.on('connection', (socket) => {
    sockets += 1;
    socket.on('error', () => undefined);
    socket.on('close', () => server.emit('gone'));
    socket.on('message', (data) => {
      received.push(String(data));
      onMessage(socket, String(data));
      server.emit('received');
    });
    onOpened(socket);
  });
  onTestFinished(() => {
    for (const socket of server.clients) {
      socket.terminate();
    }
    server.close();
  });
  return {
    url: `ws://127.0.0.1:${(server.address() as AddressInfo).port}`,
    received,
    /** Number of sockets opened so far. */
    sockets: () => sockets,
    /** Resolves when no client is connected. */
    emptied: async () => {
      while (server.clients.size > 0) {
        await once(server, 'gone');
      }
    },
    waitForMessage: async (text: string) => {
      while (!received.includes(text)) {
        await once(server, 'received');
      }
    },
  };
}

function send(socket: WebSocket, message: unknown): void {
  socket.send(JSON.stringify(message));
}
