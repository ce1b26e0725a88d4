import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer as createHttpServer, type IncomingMessage } from 'node:http';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Event, EventTemplate } from 'nostr-tools';
import { generateSecretKey } from 'nostr-tools';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type WebSocket, WebSocketServer } from 'ws';
import { type EventSigner, loadEventSigner } from '../../src/auth/event-signer.ts';
import { type EventVerifier, loadEventVerifier } from '../../src/auth/event-verifier.ts';
import { toUnixSeconds } from '../../src/domain/clock.ts';
import { openLog } from '../../src/log.ts';
import type { ResolveAll } from '../../src/net/address-guard.ts';
import { guardedSocketConnector } from '../../src/net/guarded-socket.ts';
import { RelayPool, type RelayPoolParts } from '../../src/relays/relay-pool.ts';
import type { RelayTiming } from '../../src/relays/relay-timing.ts';
import { startRelay } from '../helpers/relays.ts';
import { TestClock } from '../helpers/test-clock.ts';
import type { TestRelay } from '../helpers/test-relay.ts';

/** Where a test is about what happens once time is over. */
const SHORT_MS = 100;

/** Where something else must end it: longer than any test. */
const NEVER_MS = 60_000;

/** Where it is over for one thing, and another is in time on a busy machine, too. */
const LONGER_MS = 1_500;

/** How long a query waits where it is not about that. */
const PATIENT = { timeoutMs: 10_000, limit: 10 };

/** A message that answers nothing, in every way that there is. */
const NONSENSE = [
  '',
  'hello',
  '{}',
  'null',
  '[]',
  '[[[[',
  '["OK"]',
  '["OK",1,true,""]',
  `["OK","${'0'.repeat(64)}",true,""]`,
  '["OK",null,null,null]',
  '["EVENT","q1",{}]',
  '["EVENT","q1",null]',
  '["EOSE"]',
  '["EOSE",["q1"]]',
  '["CLOSED","other","error: no"]',
  '["AUTH"]',
  '["AUTH",{}]',
  '["AUTH",""]',
  `["AUTH","${'x'.repeat(10_000)}"]`,
  '["NOTICE","OK"]',
  '["NOTICE",{"a":[]}]',
  '["COUNT","q1",{"count":1}]',
  '["__proto__","constructor"]',
];

let verifyEvent: EventVerifier;
let signer: EventSigner;
const cleanups: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  verifyEvent = await loadEventVerifier();
  signer = await newSigner();
});
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) {
    await cleanup();
  }
});

describe('events for a relay', () => {
  it('go over one socket, be they a thousand', async () => {
    const relay = await startRelay();
    const pool = openPool();
    const events = Array.from({ length: 1_000 }, (_, index) => signed({ content: `${index}` }));
    const answers = await Promise.all(events.map((event) => publish(pool, relay, event)));
    expect(answers).toEqual(events.map(() => ({ outcome: 'accepted', word: '' })));
    expect([...relay.events.keys()]).toEqual(events.map(({ id }) => id));
    expect(new Set(relay.timesSent.values())).toEqual(new Set([1]));
    expect(relay.connections).toEqual({ opened: 1, open: 1, mostOpen: 1 });
  });

  it('arrive byte for byte as they were given', async () => {
    const heard: string[] = [];
    const relay = await startScripted((socket, text) => {
      heard.push(text);
      say(socket, ['OK', JSON.parse(text)[1].id, true, '']);
    });
    const text = `{ "id" : "${'a'.repeat(64)}",\t"content":"\\u00e4 \\/ 1.0" }`;
    const answer = await openPool().publish(relay.url, { id: 'a'.repeat(64), text });
    expect(answer).toEqual({ outcome: 'accepted', word: '' });
    expect(heard).toEqual([`["EVENT",${text}]`]);
  });

  it('wait here while the relay has many of them to answer', async () => {
    const heard: string[] = [];
    let heardAtFull: number | null = null;
    const relay = await startScripted((socket, text) => {
      const { id } = JSON.parse(text)[1];
      heard.push(id);
      if (heardAtFull !== null) {
        say(socket, ['OK', id, true, '']);
      } else if (heard.length === 32) {
        // The pong comes after everything that was sent before it.
        socket.ping();
        socket.once('pong', () => {
          heardAtFull = heard.length;
          for (const unanswered of heard) {
            say(socket, ['OK', unanswered, true, '']);
          }
        });
      }
    });
    const pool = openPool();
    const events = Array.from({ length: 200 }, (_, index) => signed({ content: `${index}` }));
    await Promise.all(events.map((event) => publish(pool, relay, event)));
    expect(heardAtFull).toBe(32);
    expect(heard).toEqual(events.map(({ id }) => id));
  });

  it('are sent once, where two ask for the same at a time', async () => {
    const relay = await startRelay();
    const pool = openPool();
    const event = signed();
    const release = relay.hold();
    const first = publish(pool, relay, event);
    await relay.waitFor(1);
    const second = publish(pool, relay, event);
    release();
    expect(await Promise.all([first, second])).toEqual([
      { outcome: 'accepted', word: '' },
      { outcome: 'accepted', word: '' },
    ]);
    expect(relay.timesSent.get(event.id)).toBe(1);
  });

  it('that the relay knows are accepted', async () => {
    const relay = await startRelay();
    const pool = openPool();
    const event = signed();
    await publish(pool, relay, event);
    const word = 'duplicate: already have this event';
    expect(await publish(pool, relay, event)).toEqual({ outcome: 'accepted', word });
    relay.switches.rejectWith = 'DUPLICATE:seen';
    expect(await publish(pool, relay, event)).toEqual({
      outcome: 'accepted',
      word: 'DUPLICATE:seen',
    });
    expect(relay.events.size).toBe(1);
  });

  it.each([
    ['blocked: not here', 'blocked'],
    ['invalid: too old', 'invalid'],
    ['pow: 28 bits', 'pow'],
    ['restricted: members only', 'restricted'],
    ['mute: nobody listens', 'mute'],
    ['rate-limited: slow down', 'rate_limited'],
    ['error: disk full', 'error'],
    ['no', 'other'],
    ['', 'other'],
  ])('are refused with the words "%s"', async (rejectWith, refusal) => {
    const relay = await startRelay({ rejectWith });
    const answer = await publish(openPool(), relay, signed());
    expect(answer).toEqual({ outcome: 'refused', refusal, word: rejectWith });
  });

  it('are told apart where only some are too many', async () => {
    const relay = await startRelay({ eventsPerMinute: 2 });
    const pool = openPool();
    const answers = await Promise.all(
      ['a', 'b', 'c'].map((content) => publish(pool, relay, signed({ content }))),
    );
    expect(answers.map(({ outcome }) => outcome)).toEqual(['accepted', 'accepted', 'refused']);
    expect(relay.events.size).toBe(2);
  });

  it('have the first answer that comes, whatever else is said', async () => {
    const relay = await startScripted((socket, text) => {
      const { id } = JSON.parse(text)[1];
      for (const nonsense of NONSENSE) {
        socket.send(nonsense);
      }
      socket.send(Buffer.from(JSON.stringify(['OK', id, false, 'blocked: in binary'])));
      socket.ping();
      say(socket, ['OK', id, true]);
      say(socket, ['OK', id, false, 'blocked: changed my mind']);
    });
    const pool = openPool();
    expect(await publish(pool, relay, signed())).toEqual({ outcome: 'accepted', word: '' });
    expect(await publish(pool, relay, signed({ content: 'next' }))).toEqual({
      outcome: 'accepted',
      word: '',
    });
    expect(relay.heard).toHaveLength(2);
    expect(relay.sockets()).toBe(1);
  });
});

describe('a relay that answers nothing', () => {
  it('leaves an event unanswered, and is connected to anew', async () => {
    const relay = await startRelay({ eventFate: 'ignore' });
    const pool = openPool({ answerTimeoutMs: SHORT_MS });
    const event = signed();
    expect(await publish(pool, relay, event)).toEqual({ outcome: 'unanswered' });
    await relay.waitFor(() => relay.connections.open === 0);
    relay.switches.eventFate = 'answer';
    expect(await publish(pool, relay, event)).toEqual({ outcome: 'accepted', word: '' });
    expect(relay.connections.opened).toBe(2);
  });

  it('has what is not sent yet told from what it may have', async () => {
    const relay = await startRelay({ eventFate: 'store_and_ignore' });
    const pool = openPool({ answerTimeoutMs: SHORT_MS });
    const events = Array.from({ length: 70 }, (_, index) => signed({ content: `${index}` }));
    const answers = await Promise.all(events.map((event) => publish(pool, relay, event)));
    expect(answers.slice(0, 32)).toEqual(Array(32).fill({ outcome: 'unanswered' }));
    const unsent = { outcome: 'unreachable', reason: 'connection lost' };
    expect(answers.slice(32)).toEqual(Array(38).fill(unsent));
    expect(relay.events.size).toBe(32);
  });

  it('to one event alone keeps its connection', async () => {
    const lost = signed({ content: 'lost' });
    const relay = await startScripted((socket, text) => {
      const { id } = JSON.parse(text)[1];
      if (id !== lost.id) {
        say(socket, ['OK', id, true, '']);
      }
    });
    const pool = openPool({ answerTimeoutMs: LONGER_MS });
    const answers = await Promise.all([publish(pool, relay, lost), publish(pool, relay, signed())]);
    expect(answers).toEqual([{ outcome: 'unanswered' }, { outcome: 'accepted', word: '' }]);
    await publish(pool, relay, signed({ content: 'later' }));
    expect(relay.sockets()).toBe(1);
  });

  it('in time is not misunderstood when it answers late', async () => {
    const late = signed({ content: 'late' });
    const last = signed({ content: 'last' });
    const relay = await startScripted((socket, text) => {
      const { id } = JSON.parse(text)[1];
      if (id === last.id) {
        say(socket, ['OK', late.id, false, 'blocked: at last']);
      }
      if (id !== late.id) {
        say(socket, ['OK', id, true, '']);
      }
    });
    const pool = openPool({ answerTimeoutMs: LONGER_MS });
    const answers = await Promise.all([publish(pool, relay, late), publish(pool, relay, signed())]);
    expect(answers).toEqual([{ outcome: 'unanswered' }, { outcome: 'accepted', word: '' }]);
    expect(await publish(pool, relay, last)).toEqual({ outcome: 'accepted', word: '' });
    expect(relay.sockets()).toBe(1);
  });

  it('and reads nothing has little waiting for it here', async () => {
    const relay = await startScripted(
      () => undefined,
      (socket) => socket.pause(),
    );
    const connect = guardedSocketConnector({ allowPrivateNetworks: true });
    const opened = Promise.withResolvers<WebSocket>();
    const pool = openPool(
      { answerTimeoutMs: SHORT_MS },
      {
        connect: (url) => {
          const socket = connect(url);
          socket.once('open', () => setImmediate(() => opened.resolve(socket)));
          return socket;
        },
      },
    );
    const large = 'x'.repeat(200_000);
    const published = Promise.all(
      Array.from({ length: 64 }, (_, id) => pool.publish(relay.url, { id: `${id}`, text: large })),
    );
    expect((await opened.promise).bufferedAmount).toBeLessThan(500_000);
    const outcomes = (await published).map(({ outcome }) => outcome);
    expect(outcomes).toContain('unanswered');
    expect(outcomes).toContain('unreachable');
  });

  it('that it has read, only what it never read, keeps nothing waiting to be sent', async () => {
    const opened = Promise.withResolvers<Duplex>();
    const url = await startRaw((socket) => opened.resolve(socket.pause()));
    const pool = openPool({ answerTimeoutMs: NEVER_MS, sendTimeoutMs: LONGER_MS });
    const text = 'x'.repeat(250_000);
    const published = Array.from({ length: 100 }, (_, id) =>
      pool.publish(url, { id: `${id}`, text }),
    );
    const socket = await opened.promise;
    for (const [id, answer] of published.entries()) {
      socket.write(textFrame(`["OK","${id}",true,""]`));
      await answer;
    }
    expect(await published.at(0)).toEqual({ outcome: 'accepted', word: '' });
    const unsent = { outcome: 'unreachable', reason: 'connection lost' };
    expect(await published.at(-1)).toEqual(unsent);
  });

  it.each(['hang_up', 'store_and_hang_up'] as const)(
    'and hangs up (%s) leaves it unanswered at once',
    async (eventFate) => {
      const relay = await startRelay({ eventFate });
      const pool = openPool();
      const event = signed();
      expect(await publish(pool, relay, event)).toEqual({ outcome: 'unanswered' });
      relay.switches.eventFate = 'answer';
      expect(await publish(pool, relay, event)).toMatchObject({ outcome: 'accepted' });
      expect([...relay.events.keys()]).toEqual([event.id]);
    },
  );

  it('and closes right after the handshake leaves it unanswered', async () => {
    const relay = await startScripted(
      () => undefined,
      (socket) => socket.close(1008, 'blocked'),
    );
    expect(await publish(openPool(), relay, signed())).toEqual({ outcome: 'unanswered' });
  });

  it('and says goodbye after each event is connected to for each', async () => {
    const relay = await startRelay({ eventFate: 'answer_and_hang_up' });
    const pool = openPool();
    for (const content of ['a', 'b', 'c']) {
      expect(await publish(pool, relay, signed({ content }))).toMatchObject({
        outcome: 'accepted',
      });
      await relay.waitFor(() => relay.connections.open === 0);
    }
    expect(relay.connections.opened).toBe(3);
  });
});

describe('a relay that talks without end', () => {
  it('is cut off, long before it would have to answer', async () => {
    const relay = await startRelay({ eventFate: 'ignore', isFlooding: true });
    const pool = openPool({ answerTimeoutMs: NEVER_MS });
    expect(await publish(pool, relay, signed())).toEqual({ outcome: 'unanswered' });
    await relay.waitFor(() => relay.connections.open === 0);
  });

  it.each<[string, number, (socket: WebSocket, id: string) => void]>([
    ['in pings', 300, (socket) => socket.ping()],
    ['in pongs', 300, (socket) => socket.pong()],
    ['in large messages', 10, (socket) => socket.send('x'.repeat(200_000))],
    ['in binary', 300, (socket) => socket.send(Buffer.alloc(1_000))],
    ['of challenges', 300, (socket) => say(socket, ['AUTH', `${Math.random()}`])],
    ['of unknown events', 300, (socket) => say(socket, ['OK', 'f'.repeat(64), true, ''])],
    ['of queries that nobody made', 300, (socket, id) => say(socket, ['EOSE', id])],
  ])('%s is cut off', async (_how, times, talk) => {
    const relay = await startScripted((socket, text) => {
      for (let count = 0; count < times; count += 1) {
        talk(socket, JSON.parse(text)[1].id);
      }
    });
    const pool = openPool({ answerTimeoutMs: NEVER_MS });
    expect(await publish(pool, relay, signed())).toEqual({ outcome: 'unanswered' });
    await relay.emptied();
  });

  it('of the same refusal is cut off', async () => {
    const relay = await startScripted((socket, text) => {
      for (let count = 0; count < 300; count += 1) {
        say(socket, ['OK', JSON.parse(text)[1].id, false, 'auth-required: who?']);
      }
    });
    const pool = openPool({ answerTimeoutMs: NEVER_MS, challengeTimeoutMs: NEVER_MS });
    expect(await publish(pool, relay, signed())).toEqual({ outcome: 'unanswered' });
    await relay.emptied();
  });

  it('of the same event is cut off', async () => {
    const event = signed();
    const relay = await startScripted((socket, text) => {
      for (let count = 0; count < 300; count += 1) {
        say(socket, ['EVENT', JSON.parse(text)[1], event]);
      }
    });
    const found = await openPool().query(relay.url, {}, { timeoutMs: NEVER_MS, limit: 10 });
    expect(found?.map(({ id }) => id)).toEqual([event.id]);
    await relay.emptied();
  });

  it('in one message is cut off', async () => {
    const relay = await startScripted((socket) => socket.send('x'.repeat(300 * 1024)));
    expect(await publish(openPool({ answerTimeoutMs: NEVER_MS }), relay, signed())).toEqual({
      outcome: 'unanswered',
    });
    await relay.emptied();
  });

  it('between its answers is borne with, so that a chatty one gets everything', async () => {
    const notice = JSON.stringify(['NOTICE', 'x'.repeat(1_000)]);
    const relay = await startScripted((socket, text) => {
      for (let count = 0; count < 100; count += 1) {
        socket.send(notice);
      }
      say(socket, ['OK', JSON.parse(text)[1].id, true, '']);
    });
    const pool = openPool();
    const events = Array.from({ length: 100 }, (_, index) => signed({ content: `${index}` }));
    const answers = await Promise.all(events.map((event) => publish(pool, relay, event)));
    expect(answers).toEqual(events.map(() => ({ outcome: 'accepted', word: '' })));
    expect(relay.sockets()).toBe(1);
  });
});

describe('a relay that cannot be reached', () => {
  it.each([301, 302, 307, 401, 403, 429, 500, 503, 200])(
    'because it answers the handshake with %i refused it',
    async (handshake) => {
      const relay = await startRelay({ handshake });
      expect(await publish(openPool(), relay, signed())).toEqual({
        outcome: 'unreachable',
        reason: 'handshake refused',
      });
      await relay.waitFor(() => relay.connections.open === 0);
      expect(relay.connections.opened).toBe(1);
    },
  );

  it('because nobody listens there refuses connections, until somebody does', async () => {
    const relay = await startRelay();
    await relay.stop();
    const pool = openPool();
    expect(await publish(pool, relay, signed())).toEqual({
      outcome: 'unreachable',
      reason: 'connection refused',
    });
    await relay.restart();
    expect(await publish(pool, relay, signed())).toEqual({ outcome: 'accepted', word: '' });
  });

  it('because it never answers the handshake is given up', async () => {
    const relay = await startRelay({ handshake: 'silent' });
    const pool = openPool({}, { handshakeTimeoutMs: SHORT_MS });
    const answers = await Promise.all(
      ['a', 'b'].map((content) => publish(pool, relay, signed({ content }))),
    );
    const late = { outcome: 'unreachable', reason: 'timed out' };
    expect(answers).toEqual([late, late]);
    await relay.waitFor(() => relay.connections.opened === 1 && relay.connections.open === 0);
  });

  it.each([
    ['speaks something else', 'SSH-2.0-OpenSSH\r\n', 'not a relay'],
    [
      'shakes hands with another',
      'HTTP/1.1 101 Go\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n',
      'not a relay',
    ],
    [
      'upgrades to another thing',
      'HTTP/1.1 101 Go\r\nUpgrade: tea\r\nConnection: Upgrade\r\n\r\n',
      'not a relay',
    ],
    ['hangs up', '', 'connection lost'],
  ])('because what answers %s is no relay', async (_what, bytes, reason) => {
    const url = await startTcp((socket) => socket.end(bytes));
    const answer = await openPool().publish(url, asText(signed()));
    expect(answer).toEqual({ outcome: 'unreachable', reason });
  });

  it('because it is private, where that is forbidden, is not connected to', async () => {
    const relay = await startRelay();
    const pool = openPool({}, { allowPrivateNetworks: false });
    const url = relay.url.replace('ws:', 'wss:');
    const answer = await pool.publish(url, asText(signed()));
    expect(answer).toEqual({ outcome: 'unreachable', reason: 'forbidden address' });
    expect(await pool.query(url, {}, PATIENT)).toBeNull();
    expect(relay.connections.opened).toBe(0);
  });

  it('because its name does not exist is not found', async () => {
    const unknown = Object.assign(new Error('queryA ENOTFOUND'), { code: 'ENOTFOUND' });
    const resolve: ResolveAll = (_name, _options, callback) => callback(unknown, []);
    const pool = openPool({}, { allowPrivateNetworks: false, resolve });
    expect(await pool.publish('wss://relay.example', asText(signed()))).toEqual({
      outcome: 'unreachable',
      reason: 'name not found',
    });
  });
});

describe('a relay that wants to know who writes', () => {
  it.each(['at_connect', 'at_first_message'] as const)(
    '%s is told, by the signer and its clock, and gets every event',
    async (auth) => {
      const clock = new TestClock(1_700_000_000_000);
      const relay = await startRelay({ auth, now: clock.now, allowedKeys: [signer.pubkey] });
      const pool = openPool({}, { clock: clock.now });
      const events = Array.from({ length: 100 }, (_, index) => signed({ content: `${index}` }));
      const answers = await Promise.all(events.map((event) => publish(pool, relay, event)));
      expect(answers).toEqual(events.map(() => ({ outcome: 'accepted', word: '' })));
      expect(relay.events.size).toBe(100);
      expect(Math.max(...relay.timesSent.values())).toBeLessThanOrEqual(2);
      expect(relay.authEvents).toHaveLength(1);
      expect(relay.authEvents[0]).toMatchObject({
        kind: 22242,
        pubkey: signer.pubkey,
        created_at: 1_700_000_000,
        content: '',
        tags: [
          ['relay', relay.url],
          ['challenge', expect.stringMatching(/^[0-9a-f]{32}$/)],
        ],
      });
      expect(relay.connections.opened).toBe(1);
    },
  );

  it('is told again on a new connection', async () => {
    const relay = await startRelay({ auth: 'at_first_message' });
    const pool = openPool();
    await publish(pool, relay, signed({ content: 'a' }));
    relay.hangUp();
    await relay.waitFor(() => relay.connections.open === 0);
    const answer = await publishUntilSent(pool, relay, signed({ content: 'b' }));
    expect(answer).toEqual({ outcome: 'accepted', word: '' });
    expect(relay.authEvents).toHaveLength(2);
  });

  it('refuses where nobody can sign', async () => {
    const relay = await startRelay({ auth: 'at_connect' });
    const pool = openPool(
      { answerTimeoutMs: NEVER_MS, challengeTimeoutMs: NEVER_MS },
      { signer: null },
    );
    expect(await publish(pool, relay, signed())).toEqual({
      outcome: 'refused',
      refusal: 'auth_required',
      word: 'auth-required: whoever writes here says who they are',
    });
    expect(relay.authEvents).toEqual([]);
  });

  it('but never says what to sign may do so one day', async () => {
    const relay = await startRelay({ auth: 'unasked' });
    const pool = openPool({ challengeTimeoutMs: SHORT_MS });
    for (const content of ['a', 'b']) {
      expect(await publish(pool, relay, signed({ content }))).toEqual({
        outcome: 'refused',
        refusal: 'error',
        word: 'auth-required: whoever writes here says who they are',
      });
    }
    expect([...relay.timesSent.values()]).toEqual([1, 1]);
    expect(relay.connections.opened).toBe(1);
  });

  it('and says late what to sign gets the next event, on the same connection', async () => {
    const relay = await startRelay({ auth: 'unasked' });
    const pool = openPool({ challengeTimeoutMs: SHORT_MS });
    const late = signed({ content: 'late' });
    expect(await publish(pool, relay, late)).toMatchObject({ refusal: 'error' });
    relay.switches.auth = 'at_first_message';
    expect(await publish(pool, relay, late)).toEqual({ outcome: 'accepted', word: '' });
    expect(relay.connections.opened).toBe(1);
  });

  it('refuses where it does not want the signer', async () => {
    const relay = await startRelay({ auth: 'at_first_message', allowedKeys: [] });
    const pool = openPool();
    for (const content of ['a', 'b']) {
      expect(await publish(pool, relay, signed({ content }))).toMatchObject({
        outcome: 'refused',
        refusal: 'auth_required',
      });
    }
    expect([...relay.timesSent.values()]).toEqual([1, 1]);
    expect(relay.authEvents).toHaveLength(1);
  });

  it('but is in trouble when it hears it is asked again, on another connection', async () => {
    let trouble: string | null = 'error: database is busy';
    const relay = await startAsking((socket, id) =>
      say(socket, ['OK', id, trouble === null, trouble ?? '']),
    );
    const pool = openPool();
    const event = signed();
    expect(await publish(pool, relay, event)).toEqual({
      outcome: 'refused',
      refusal: 'error',
      word: 'error: database is busy',
    });
    trouble = 'rate-limited: slow down';
    expect(await publish(pool, relay, event)).toEqual({
      outcome: 'refused',
      refusal: 'rate_limited',
      word: 'rate-limited: slow down',
    });
    trouble = null;
    expect(await publish(pool, relay, event)).toEqual({ outcome: 'accepted', word: '' });
    expect(relay.sockets()).toBe(3);
  });

  it('but says nothing when it hears it is asked again, on another connection', async () => {
    let isBusy = true;
    const relay = await startAsking((socket, id) => {
      if (!isBusy) {
        say(socket, ['OK', id, true, '']);
      }
    });
    const pool = openPool({ answerTimeoutMs: LONGER_MS });
    const event = signed();
    expect(await publish(pool, relay, event)).toEqual({
      outcome: 'refused',
      refusal: 'error',
      word: 'auth-required: who?',
    });
    isBusy = false;
    await relay.emptied();
    expect(await publish(pool, relay, event)).toEqual({ outcome: 'accepted', word: '' });
    expect(relay.sockets()).toBe(2);
  });

  it('and hangs up when it hears it leaves the event unanswered', async () => {
    const relay = await startAsking((socket) => socket.terminate());
    expect(await publish(openPool(), relay, signed())).toEqual({ outcome: 'unanswered' });
  });

  it.each(['invalid: wrong relay', 'restricted: members only', 'blocked: you', 'no', ''])(
    'refuses for good where it says "%s" to who signs',
    async (word) => {
      const relay = await startAsking((socket, id) => say(socket, ['OK', id, false, word]));
      expect(await publish(openPool(), relay, signed())).toEqual({
        outcome: 'refused',
        refusal: 'auth_required',
        word: 'auth-required: who?',
      });
    },
  );

  it('refuses where it is never content', async () => {
    const relay = await startScripted((socket, text) => {
      const [kind, { id }] = JSON.parse(text);
      say(socket, ['OK', id, kind === 'AUTH', 'auth-required: again']);
      say(socket, ['AUTH', `challenge ${relay.heard.length}`]);
    });
    const pool = openPool({ challengeTimeoutMs: SHORT_MS });
    for (const content of ['a', 'b', 'c', 'd', 'e', 'f']) {
      const answer = await publish(pool, relay, signed({ content }));
      expect(answer).toMatchObject({ outcome: 'refused', refusal: 'auth_required' });
    }
    expect(relay.heard.filter((text) => text.startsWith('["AUTH"'))).toHaveLength(4);
    const events = relay.heard.filter((text) => text.startsWith('["EVENT"'));
    const timesHeard = [...new Set(events)].map(
      (text) => events.filter((it) => it === text).length,
    );
    expect(timesHeard).toHaveLength(6);
    expect(Math.max(...timesHeard)).toBe(2);
  });

  it('refuses where it grants AUTH and wants it all the same', async () => {
    const relay = await startScripted((socket, text) => {
      const [kind, { id }] = JSON.parse(text);
      if (relay.heard.length === 1) {
        say(socket, ['AUTH', 'challenge']);
      }
      say(socket, ['OK', id, kind === 'AUTH', 'auth-required: still']);
    });
    const pool = openPool();
    for (const content of ['a', 'b']) {
      const answer = await publish(pool, relay, signed({ content }));
      expect(answer).toMatchObject({ outcome: 'refused', refusal: 'auth_required' });
    }
    const kinds = relay.heard.map((text) => JSON.parse(text)[0]);
    expect(kinds).toEqual(['EVENT', 'AUTH', 'EVENT', 'EVENT']);
  });

  it('leaves an event unanswered where it hangs up on it after AUTH', async () => {
    const relay = await startScripted((socket, text) => {
      const [kind, { id }] = JSON.parse(text);
      if (relay.heard.length === 3) {
        socket.terminate();
      } else {
        say(socket, ['AUTH', 'challenge']);
        say(socket, ['OK', id, kind === 'AUTH', 'auth-required: who?']);
      }
    });
    expect(await publish(openPool(), relay, signed())).toEqual({ outcome: 'unanswered' });
    expect(relay.heard).toHaveLength(3);
  });

  it.each([
    ['auth-required: who are you?', 'after'],
    ['auth-required: who are you?', 'before'],
    ['restricted: we know you not', 'before'],
  ])('by "%s", %s which it says what to sign, gets the event once more', async (word, order) => {
    let isKnown = false;
    const relay = await startScripted((socket, text) => {
      const [kind, { id }] = JSON.parse(text);
      if (kind === 'AUTH') {
        isKnown = true;
        say(socket, ['OK', id, true, '']);
      } else if (isKnown) {
        say(socket, ['OK', id, true, 'welcome']);
      } else {
        const messages = [
          ['OK', id, false, word],
          ['AUTH', 'challenge'],
          ['AUTH', 'challenge'],
        ];
        for (const message of order === 'before' ? messages.reverse() : messages) {
          say(socket, message);
        }
      }
    });
    const answer = await publish(openPool(), relay, signed());
    expect(answer).toEqual({ outcome: 'accepted', word: 'welcome' });
    expect(relay.heard.map((text) => JSON.parse(text)[0])).toEqual(['EVENT', 'AUTH', 'EVENT']);
  });
});

describe('a query', () => {
  it('finds the stored events that match, the newest first, and no more than are enough', async () => {
    const relay = await startRelay();
    const events = [1, 2, 3].map((created_at) => signed({ kind: 10_002, created_at }));
    for (const event of [...events, signed({ kind: 1 })]) {
      relay.store(event);
    }
    const pool = openPool();
    const filter = { kinds: [10_002], authors: [signer.pubkey] };
    const all = await pool.query(relay.url, filter, PATIENT);
    expect(all?.map(({ id }) => id)).toEqual(events.map(({ id }) => id).reverse());
    const newest = await pool.query(relay.url, filter, { ...PATIENT, limit: 1 });
    expect(newest?.map(({ id }) => id)).toEqual([events[2]?.id]);
    expect(await pool.query(relay.url, { kinds: [7] }, PATIENT)).toEqual([]);
    expect(relay.connections.opened).toBe(1);
  });

  it('takes nothing that was not asked for, is forged or comes twice, and ends what it began', async () => {
    const good = signed({ kind: 10_002 });
    const relay = await startScripted((socket, text) => {
      const [kind, id] = JSON.parse(text);
      if (kind === 'REQ') {
        const forged = { ...good, content: 'forged' };
        const stolen = { ...signed({ kind: 10_002, content: 'x' }), sig: good.sig };
        for (const event of [signed({ kind: 1 }), forged, stolen, { id: good.id }, good, good]) {
          say(socket, ['EVENT', id, event]);
        }
        say(socket, ['EVENT', 'another', signed({ kind: 10_002, content: 'y' })]);
        say(socket, ['EOSE', id]);
      }
    });
    const pool = openPool();
    const events = await pool.query(relay.url, { kinds: [10_002] }, PATIENT);
    expect(events).toHaveLength(1);
    expect(events).toMatchObject([{ id: good.id, sig: good.sig }]);
    await relay.hears((text) => text === '["CLOSE","q1"]');
  });

  it('has what came where the relay never says that it was all', async () => {
    const good = signed({ kind: 10_002 });
    const relay = await startScripted((socket, text) => {
      const [kind, id] = JSON.parse(text);
      if (kind === 'REQ') {
        say(socket, ['EVENT', id, good]);
      }
    });
    const patience = { timeoutMs: LONGER_MS, limit: 2 };
    const events = await openPool().query(relay.url, {}, patience);
    expect(events?.map(({ id }) => id)).toEqual([good.id]);
  });

  it('has no answer where the relay gives none, says no or is not there', async () => {
    const relay = await startRelay({ queryFate: 'ignore' });
    const pool = openPool();
    const hasty = { ...PATIENT, timeoutMs: SHORT_MS };
    expect(await pool.query(relay.url, {}, hasty)).toBeNull();
    relay.switches.queryFate = 'error: shutting down idle subscription';
    expect(await pool.query(relay.url, {}, PATIENT)).toBeNull();
    // The connection on which nothing was answered may be dead: it was not used again.
    expect(relay.connections.opened).toBe(2);
    await relay.stop();
    expect(await pool.query(relay.url, {}, PATIENT)).toBeNull();
    await relay.restart();
    relay.switches.handshake = 'silent';
    expect(await pool.query(relay.url, {}, hasty)).toBeNull();
  });

  it('that has no answer leaves events under way alone', async () => {
    const relay = await startRelay({ queryFate: 'ignore' });
    const pool = openPool();
    const release = relay.hold();
    const published = publish(pool, relay, signed());
    await relay.waitFor(1);
    expect(await pool.query(relay.url, {}, { ...PATIENT, timeoutMs: SHORT_MS })).toBeNull();
    release();
    expect(await published).toEqual({ outcome: 'accepted', word: '' });
    expect(relay.connections.opened).toBe(1);
  });

  it('is made once more where the relay wants to know who asks', async () => {
    const relay = await startRelay({ auth: 'at_first_message' });
    const event = signed({ kind: 10_002 });
    relay.store(event);
    const found = await openPool().query(relay.url, { kinds: [10_002] }, PATIENT);
    expect(found?.map(({ id }) => id)).toEqual([event.id]);
    relay.switches.allowedKeys = [];
    expect(await openPool().query(relay.url, { kinds: [10_002] }, PATIENT)).toBeNull();
  });

  it('takes its turn where there are many', async () => {
    let openAtFull: number | null = null;
    const open: string[] = [];
    const relay = await startScripted((socket, text) => {
      const [kind, id] = JSON.parse(text);
      if (kind !== 'REQ') {
        return;
      }
      open.push(id);
      if (openAtFull !== null) {
        say(socket, ['EOSE', id]);
      } else if (open.length === 10) {
        // The pong comes after everything that was sent before it.
        socket.ping();
        socket.once('pong', () => {
          openAtFull = open.length;
          for (const unanswered of open) {
            say(socket, ['EOSE', unanswered]);
          }
        });
      }
    });
    const pool = openPool();
    const answers = await Promise.all(
      Array.from({ length: 50 }, () => pool.query(relay.url, { kinds: [1] }, PATIENT)),
    );
    expect(answers).toEqual(Array(50).fill([]));
    expect(openAtFull).toBe(10);
  });
});

describe('connections to relays', () => {
  it('end when nothing was under way for a while, and are opened when there is something', async () => {
    const relay = await startRelay();
    const pool = openPool({ idleMs: 10 });
    await publish(pool, relay, signed());
    await relay.waitFor(() => relay.connections.open === 0);
    expect(await publish(pool, relay, signed())).toMatchObject({ outcome: 'accepted' });
    expect(relay.connections.opened).toBe(2);
  });

  it('do not end while something is under way', async () => {
    const relay = await startRelay();
    const pool = openPool({ idleMs: 50 });
    expect(await publish(pool, relay, signed())).toEqual({ outcome: 'accepted', word: '' });
    relay.switches.answerDelayMs = 200;
    const answer = await publish(pool, relay, signed({ content: 'slow' }));
    expect(answer).toEqual({ outcome: 'accepted', word: '' });
    expect(relay.connections.opened).toBe(1);
  });

  it('are few where nothing is under way, be the relays many', async () => {
    const relays = await Promise.all(Array.from({ length: 70 }, () => startRelay()));
    const pool = openPool();
    const event = signed();
    for (const relay of relays) {
      expect(await publish(pool, relay, event)).toMatchObject({ outcome: 'accepted' });
    }
    const isOpen = ({ connections }: TestRelay) => connections.open > 0;
    await Promise.all(relays.slice(0, 6).map((relay) => relay.waitFor(() => !isOpen(relay))));
    // Those that were used last are those that are kept.
    expect(relays.slice(6).every(isOpen)).toBe(true);
  });

  it('to one host are fewer still, however many relays it is said to have', async () => {
    const relay = await startRelay();
    const pool = openPool();
    const event = asText(signed());
    for (let index = 0; index < 10; index += 1) {
      const answer = await pool.publish(`${relay.url}/${index}`, event);
      expect(answer).toMatchObject({ outcome: 'accepted' });
    }
    await relay.waitFor(() => relay.connections.open === 4);
    await pool.publish(`${relay.url}/9`, event);
    expect(relay.connections.opened).toBe(10);
    await pool.publish(`${relay.url}/0`, event);
    expect(relay.connections.opened).toBe(11);
  });

  it('are not used again once the relay has said goodbye, though it does not hang up', async () => {
    const goodbyeAnswered = Promise.withResolvers<void>();
    let connections = 0;
    const ok = textFrame('["OK","1",true,""]');
    // RFC 6455 section 5.5.1.
    const goodbye = Buffer.of(0x88, 0);
    const url = await startRaw((socket) => {
      connections += 1;
      if (connections > 1) {
        socket.on('data', () => socket.write(ok));
        return;
      }
      socket.once('data', () => {
        socket.write(Buffer.concat([ok, goodbye]));
        socket.once('data', () => goodbyeAnswered.resolve());
      });
    });
    const connect = guardedSocketConnector({ allowPrivateNetworks: true });
    const closings: Promise<unknown>[] = [];
    const pool = openPool(
      {},
      {
        connect: (to) => {
          const socket = connect(to);
          closings.push(once(socket, 'close'));
          return socket;
        },
      },
    );
    const accepted = { outcome: 'accepted', word: '' };
    expect(await pool.publish(url, { id: '1', text: '{}' })).toEqual(accepted);
    await goodbyeAnswered.promise;
    expect(await pool.publish(url, { id: '1', text: '{}' })).toEqual(accepted);
    await closings[0];
    expect(await pool.publish(url, { id: '1', text: '{}' })).toEqual(accepted);
    expect(connections).toBe(2);
  });

  it('all end with the pool, whatever is under way', async () => {
    const relay = await startRelay({ eventFate: 'store_and_ignore' });
    const silent = await startRelay({ handshake: 'silent' });
    const pool = openPool();
    const sent = publish(pool, relay, signed());
    const query = pool.query(silent.url, {}, PATIENT);
    const unsent = publish(pool, silent, signed());
    await relay.waitFor(1);
    await pool.close();
    expect(await sent).toEqual({ outcome: 'unanswered' });
    const closed = { outcome: 'unreachable', reason: 'closed' };
    expect(await unsent).toEqual(closed);
    expect(await query).toBeNull();
    expect(await publish(pool, relay, signed())).toEqual(closed);
    expect(await pool.query(relay.url, {}, PATIENT)).toBeNull();
    await relay.waitFor(() => relay.connections.open === 0);
    await silent.waitFor(() => silent.connections.open === 0);
    expect(relay.connections.opened).toBe(1);
  });

  it('all end with the pool, also one that another has taken the place of', async () => {
    const relay = await startScripted((socket, text) => {
      const [kind, { id }] = JSON.parse(text);
      if (relay.sockets() > 1) {
        say(socket, ['OK', id, true, '']);
      } else if (kind === 'AUTH') {
        say(socket, ['OK', id, false, 'error: database is busy']);
      } else if (relay.heard.length === 1) {
        say(socket, ['AUTH', 'challenge']);
        say(socket, ['OK', id, false, 'auth-required: who?']);
      }
    });
    const pool = openPool({ answerTimeoutMs: NEVER_MS });
    const first = publish(pool, relay, signed({ content: 'a' }));
    const unanswered = publish(pool, relay, signed({ content: 'b' }));
    expect(await first).toMatchObject({ outcome: 'refused', refusal: 'error' });
    const last = await publish(pool, relay, signed({ content: 'c' }));
    expect(last).toEqual({ outcome: 'accepted', word: '' });
    expect(relay.sockets()).toBe(2);
    await pool.close();
    expect(await unanswered).toEqual({ outcome: 'unanswered' });
    await relay.emptied();
  });
});

describe('a moment in which this process is busy', () => {
  it('does not make a relay late that has answered the handshake', async () => {
    const relay = await startScripted(
      (socket, text) => say(socket, ['OK', JSON.parse(text)[1].id, true, '']),
      () => beBusy(LONGER_MS + SHORT_MS),
    );
    const pool = openPool({}, { handshakeTimeoutMs: LONGER_MS });
    expect(await publish(pool, relay, signed())).toEqual({ outcome: 'accepted', word: '' });
  });

  it('does not make a relay late that has said what to sign', async () => {
    let isKnown = false;
    const relay = await startScripted((socket, text) => {
      const [kind, { id }] = JSON.parse(text);
      isKnown ||= kind === 'AUTH';
      say(socket, ['OK', id, isKnown, isKnown ? '' : 'auth-required: who?']);
      if (!isKnown) {
        // The pong comes when it is known that AUTH is wanted.
        socket.ping();
        socket.once('pong', () => {
          say(socket, ['AUTH', 'challenge']);
          beBusy(LONGER_MS + SHORT_MS);
        });
      }
    });
    const pool = openPool({ challengeTimeoutMs: LONGER_MS });
    expect(await publish(pool, relay, signed())).toEqual({ outcome: 'accepted', word: '' });
  });
});

async function newSigner(): Promise<EventSigner> {
  return loadEventSigner(Buffer.from(generateSecretKey()).toString('hex'));
}

function signed(template: Partial<EventTemplate> = {}): Event {
  const created_at = toUnixSeconds(Date.now());
  return signer.sign({ kind: 1, tags: [], content: 'hello', created_at, ...template });
}

function asText(event: Event): { id: string; text: string } {
  return { id: event.id, text: JSON.stringify(event) };
}

function publish(pool: RelayPool, relay: { url: string }, event: Event) {
  return pool.publish(relay.url, asText(event));
}

/** The pool may hear later than the relay that a connection ended. */
async function publishUntilSent(pool: RelayPool, relay: { url: string }, event: Event) {
  const answer = await publish(pool, relay, event);
  return answer.outcome === 'unanswered' ? publish(pool, relay, event) : answer;
}

function openPool(
  timing: Partial<RelayTiming> = {},
  options: Partial<Parameters<typeof guardedSocketConnector>[0]> &
    Partial<Pick<RelayPoolParts, 'connect' | 'signer' | 'clock'>> = {},
): RelayPool {
  const pool = new RelayPool({
    connect: options.connect ?? guardedSocketConnector({ allowPrivateNetworks: true, ...options }),
    signer: options.signer === undefined ? signer : options.signer,
    verifyEvent,
    clock: options.clock ?? Date.now,
    log: openLog('silent'),
    timing,
  });
  cleanups.push(() => pool.close());
  return pool;
}

/** A relay that does with each message what the script says. */
async function startScripted(
  onMessage: (socket: WebSocket, text: string) => void,
  onOpened: (socket: WebSocket) => void = () => undefined,
) {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' });
  await once(server, 'listening');
  const heard: string[] = [];
  let sockets = 0;
  server.on('connection', (socket) => {
    sockets += 1;
    socket.on('error', () => undefined);
    socket.on('close', () => server.emit('gone'));
    socket.on('message', (data) => {
      heard.push(String(data));
      onMessage(socket, String(data));
      server.emit('heard');
    });
    onOpened(socket);
  });
  cleanups.push(async () => {
    for (const socket of server.clients) {
      socket.terminate();
    }
    server.close();
  });
  return {
    url: `ws://127.0.0.1:${(server.address() as AddressInfo).port}`,
    heard,
    /** Opened so far. */
    sockets: () => sockets,
    /** Resolves once nobody is connected. */
    emptied: async () => {
      while (server.clients.size > 0) {
        await once(server, 'gone');
      }
    },
    hears: async (isIt: (text: string) => boolean) => {
      while (!heard.some(isIt)) {
        await once(server, 'heard');
      }
    },
  };
}

/** A relay that takes no event before AUTH, and does with an AUTH what the script says. */
async function startAsking(onAuth: (socket: WebSocket, id: string) => void) {
  const greeted = new WeakSet<WebSocket>();
  return startScripted((socket, text) => {
    const [kind, { id }] = JSON.parse(text);
    if (kind === 'AUTH') {
      greeted.add(socket);
      onAuth(socket, id);
    } else if (greeted.has(socket)) {
      say(socket, ['OK', id, true, '']);
    } else {
      say(socket, ['AUTH', 'challenge']);
      say(socket, ['OK', id, false, 'auth-required: who?']);
    }
  });
}

/** A host that does something with each connection, once it has heard something. */
async function startTcp(onData: (socket: Socket) => void): Promise<string> {
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.once('data', () => onData(socket));
  });
  return listenTcp(server);
}

async function listenTcp(server: Server): Promise<string> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  cleanups.push(async () => server.close());
  return `ws://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** A relay that shakes hands, and by itself does nothing more. */
async function startRaw(onOpened: (socket: Duplex) => void): Promise<string> {
  const server = createHttpServer().on('upgrade', (request, socket) => {
    cleanups.push(async () => socket.destroy());
    socket.on('error', () => undefined);
    socket.write(handshakeOf(request));
    onOpened(socket);
  });
  return listenTcp(server);
}

/** One message of up to 125 bytes, as a server sends it (RFC 6455 section 5.2). */
function textFrame(text: string): Buffer {
  return Buffer.concat([Buffer.of(0x81, text.length), Buffer.from(text)]);
}

/** The answer to a handshake (RFC 6455 section 4.2.2). */
function handshakeOf(request: IncomingMessage): string {
  const accept = createHash('sha1')
    .update(`${request.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`)
    .digest('base64');
  return (
    'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n' +
    `Sec-WebSocket-Accept: ${accept}\r\n\r\n`
  );
}

/** Nothing is read and no timer looked at, as in a long calculation. */
function beBusy(durationMs: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, durationMs);
}

function say(socket: WebSocket, message: unknown): void {
  socket.send(JSON.stringify(message));
}
