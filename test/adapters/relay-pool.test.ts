import { type Event, type EventTemplate, generateSecretKey } from 'nostr-tools';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { createLogger } from '../../src/log.ts';
import { createGuardedWebSocketConnector } from '../../src/net/guarded-websocket.ts';
import {
  type EventSigner,
  type EventVerifier,
  loadEventSigner,
  loadEventVerifier,
} from '../../src/nostr/events.ts';
import { type RelayContext, RelayPool } from '../../src/relays/relay-pool.ts';
import { startFakeRelay, startScriptedRelay } from '../helpers/relays/start-fake-relay.ts';

/** A timeout that elapses during the test. */
const SHORT_TIMEOUT_MS = 100;

/** A timeout that does not elapse during the test. */
const NO_TIMEOUT_MS = 60_000;

/** A timeout long enough for other work on a busy machine. */
const LONG_TIMEOUT_MS = 1_500;

const ACCEPTED = { outcome: 'accepted', message: '' };
const NO_RESPONSE = { outcome: 'no_response' };
const AUTH_REQUIRED = { outcome: 'auth_required', message: 'auth-required: who?' };

let verifyEvent: EventVerifier;
let signer: EventSigner;

beforeAll(async () => {
  verifyEvent = await loadEventVerifier();
  signer = await loadEventSigner(Buffer.from(generateSecretKey()).toString('hex'));
});

describe('RelayPool.publish', () => {
  it('uses the first OK for an event and ignores all other messages', async () => {
    const relay = await startScriptedRelay((send, [, { id }], socket) => {
      socket.send('hello');
      for (const message of [
        ...[{}, null, [], ['OK'], ['OK', 1, true, ''], ['OK', '0'.repeat(64), true, '']],
        ...[['EVENT', 'q0', null], ['EOSE', ['q0']], ['__proto__']],
        ...[
          ['AUTH', {}],
          ['AUTH', ''],
          ['AUTH', 'x'.repeat(10_000)],
        ],
      ]) {
        send(message);
      }
      socket.send(Buffer.from(JSON.stringify(['OK', id, false, 'blocked: in binary'])));
      socket.ping();
      send(['OK', id, true]);
      send(['OK', id, false, 'blocked: changed my mind']);
    });
    const pool = createPool();
    expect(await publishEvent(pool, relay, signEvent())).toEqual(ACCEPTED);
    expect(await publishEvent(pool, relay, signEvent({ content: 'next' }))).toEqual(ACCEPTED);
    expect(relay.socketCount).toBe(1);
  });

  it('accepts a response that arrived while this process was busy', async () => {
    const relay = await startScriptedRelay((send, [, { id }]) => {
      send(['OK', id, true, '']);
      setImmediate(() => {
        const blockedMs = LONG_TIMEOUT_MS + SHORT_TIMEOUT_MS;
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, blockedMs);
      });
    });
    const pool = createPool({ responseTimeoutMs: LONG_TIMEOUT_MS });
    expect(await publishEvent(pool, relay, signEvent())).toEqual(ACCEPTED);
    expect(relay.socketCount).toBe(1);
  });
});

describe('RelayPool with a relay that requires AUTH', () => {
  it('returns auth_required without a signing key', async () => {
    const relay = await startFakeRelay({ auth: 'at_connect' });
    const result = await publishEvent(createPool({ signer: null }), relay, signEvent());
    expect(result).toMatchObject({ outcome: 'auth_required' });
    expect(relay.authEvents).toEqual([]);
  });

  it.each([
    ['restricted: members only', 'rejected'],
    ['error: database is busy', 'error'],
  ])(
    'returns the relay\'s response "%s" to AUTH and authenticates again later',
    async (message, outcome) => {
      let isAuthAccepted = false;
      const relay = await startScriptedRelay((send, [kind, { id }]) => {
        if (isAuthAccepted) {
          send(['OK', id, true, '']);
        } else if (kind === 'AUTH') {
          send(['OK', id, false, message]);
        } else {
          requireAuth(send, id);
        }
      });
      const pool = createPool();
      expect(await publishEvent(pool, relay, signEvent())).toEqual({ outcome, message });
      isAuthAccepted = true;
      expect(await publishEvent(pool, relay, signEvent())).toEqual(ACCEPTED);
      expect(relay.socketCount).toBe(2);
    },
  );

  it('resends an event only once and authenticates once per connection if AUTH does not suffice', async () => {
    let doesAuthSuffice = false;
    const relay = await startScriptedRelay((send, [kind, { id }]) => {
      if (kind === 'AUTH' || doesAuthSuffice) {
        send(['OK', id, true, '']);
      } else {
        requireAuth(send, id);
      }
    });
    const pool = createPool({ responseTimeoutMs: LONG_TIMEOUT_MS });
    for (const content of ['a', 'b']) {
      expect(await publishEvent(pool, relay, signEvent({ content }))).toEqual(AUTH_REQUIRED);
    }
    expect(relay.kinds).toEqual(['EVENT', 'AUTH', 'EVENT', 'EVENT', 'AUTH', 'EVENT']);
    doesAuthSuffice = true;
    expect(await publishEvent(pool, relay, signEvent({ content: 'c' }))).toEqual(ACCEPTED);
    expect(relay.socketCount).toBe(3);
  });
});

describe('RelayPool.query', () => {
  const filter = { kinds: [10_002] };

  it('returns the newest matching event, or none if no event matches', async () => {
    const relay = await startFakeRelay();
    const events = [1, 2].map((created_at) => signEvent({ kind: 10_002, created_at }));
    for (const event of [...events, signEvent()]) {
      relay.storeEvent(event);
    }
    const pool = createPool();
    const found = { outcome: 'found', event: { id: events[1]?.id } };
    expect(await pool.query(relay.url, filter, NO_TIMEOUT_MS)).toMatchObject(found);
    expect(await pool.query(relay.url, { kinds: [7] }, NO_TIMEOUT_MS)).toEqual({
      outcome: 'none',
    });
    expect(relay.connections.opened).toBe(1);
  });

  it.each<[string, (validEvent: Event) => unknown]>([
    ['does not match', () => signEvent()],
    ['was forged', (validEvent) => ({ ...validEvent, content: 'forged' })],
    [
      'has the signature of another event',
      ({ sig }) => ({ ...signEvent({ kind: 10_002, content: 'x' }), sig }),
    ],
    ['is malformed', ({ id }) => ({ id })],
  ])('ends if an event %s', async (_case, createInvalidEvent) => {
    const validEvent = signEvent({ kind: 10_002 });
    const relay = await startScriptedRelay((send, [kind, id]) => {
      if (kind === 'REQ') {
        send(['EVENT', id, createInvalidEvent(validEvent)]);
        send(['EVENT', id, validEvent]);
      }
    });
    expect(await createPool().query(relay.url, filter, NO_TIMEOUT_MS)).toEqual({ outcome: 'none' });
    await expect.poll(() => relay.kinds).toEqual(['REQ', 'CLOSE']);
  });

  it('returns no_response if the relay is silent, rejects the query or is down, and later recovers', async () => {
    const relay = await startFakeRelay({ queryHandling: 'ignore' });
    const pool = createPool();
    expect(await pool.query(relay.url, filter, SHORT_TIMEOUT_MS)).toEqual(NO_RESPONSE);
    relay.switches.queryHandling = 'error: shutting down idle subscription';
    expect(await pool.query(relay.url, filter, NO_TIMEOUT_MS)).toEqual(NO_RESPONSE);
    await relay.stop();
    expect(await pool.query(relay.url, filter, NO_TIMEOUT_MS)).toEqual(NO_RESPONSE);
    await relay.restart();
    relay.switches.queryHandling = 'answer';
    expect(await pool.query(relay.url, filter, NO_TIMEOUT_MS)).toEqual({ outcome: 'none' });
  });

  it('returns no_response immediately if ten queries are pending', async () => {
    const relay = await startFakeRelay();
    const pool = createPool();
    const release = relay.holdResponses();
    const results = Array.from({ length: 11 }, () => pool.query(relay.url, filter, NO_TIMEOUT_MS));
    expect(await results[10]).toEqual(NO_RESPONSE);
    release();
    expect(await Promise.all(results.slice(0, 10))).toEqual(Array(10).fill({ outcome: 'none' }));
  });
});

describe('RelayPool connections', () => {
  it('closes a connection when idle and opens another for the next event', async () => {
    const relay = await startFakeRelay();
    const idleTimeoutMs = 50;
    const pool = createPool({ idleTimeoutMs });
    await publishEvent(pool, relay, signEvent());
    await relay.waitForEvents(() => relay.connections.open === 0);
    // A pending event keeps the connection open for longer than the idle timeout.
    const releaseResponses = relay.holdResponses();
    setTimeout(releaseResponses, 4 * idleTimeoutMs);
    expect(await publishEvent(pool, relay, signEvent({ content: 'slow' }))).toEqual(ACCEPTED);
    expect(relay.connections.opened).toBe(2);
  });

  it('keeps eight connections to one host and closes the least recently used', async () => {
    const relay = await startFakeRelay();
    const pool = createPool();
    for (let index = 0; index < 20; index += 1) {
      await publishEvent(pool, { url: `${relay.url}/${index}` }, signEvent());
    }
    await relay.waitForEvents(() => relay.connections.open === 8);
    await publishEvent(pool, { url: `${relay.url}/19` }, signEvent());
    expect(relay.connections.opened).toBe(20);
  });

  it('ends all connections when the pool closes, even if events and queries are pending', async () => {
    const relay = await startFakeRelay({ eventHandling: 'store_and_ignore' });
    const silentRelay = await startFakeRelay({ handshake: 'silent' });
    const pool = createPool();
    const sentEvent = publishEvent(pool, relay, signEvent());
    const pendingQuery = pool.query(silentRelay.url, {}, NO_TIMEOUT_MS);
    const unsentEvent = publishEvent(pool, silentRelay, signEvent());
    await relay.waitForEvents(1);
    await pool.close();
    const unsent = { outcome: 'unreachable', message: 'closed' };
    expect(await sentEvent).toMatchObject(NO_RESPONSE);
    expect(await unsentEvent).toEqual(unsent);
    expect(await pendingQuery).toEqual(NO_RESPONSE);
    expect(await publishEvent(pool, relay, signEvent())).toEqual(unsent);
    await relay.waitForEvents(() => relay.connections.open === 0);
    await silentRelay.waitForEvents(() => silentRelay.connections.open === 0);
    expect(relay.connections.opened).toBe(1);
  });
});

function requireAuth(send: (message: unknown) => void, id: string): void {
  send(['AUTH', 'challenge']);
  send(['OK', id, false, AUTH_REQUIRED.message]);
}

function signEvent(template: Partial<EventTemplate> = {}): Event {
  const created_at = Math.floor(Date.now() / 1_000);
  return signer.sign({ kind: 1, tags: [], content: 'hello', created_at, ...template });
}

function publishEvent(pool: RelayPool, relay: { url: string }, event: Event) {
  return pool.publish(relay.url, { id: event.id, eventJson: JSON.stringify(event) });
}

function createPool(options: Partial<RelayContext> = {}): RelayPool {
  const connect = createGuardedWebSocketConnector({
    allowPrivateNetworks: true,
    handshakeTimeoutMs: NO_TIMEOUT_MS,
  });
  const pool = new RelayPool(connect, {
    signer,
    verifyEvent,
    clock: Date.now,
    log: createLogger('silent'),
    responseTimeoutMs: NO_TIMEOUT_MS,
    ...options,
  });
  onTestFinished(() => pool.close());
  return pool;
}
