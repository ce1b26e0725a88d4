import type { Event } from 'nostr-tools';
import { verifyEvent } from 'nostr-tools/wasm';
import type { SeededRandom } from '../../demo/test-mint/seeded-random.ts';
import type { FaultPlan } from './faults.ts';
import type { History } from './history.ts';
import { Actor, type Scheduler } from './scheduler.ts';
import type { HostResponse, HostSocket, SimulatedHost } from './simulated-network.ts';

/** When clients must authenticate (NIP-42), and when the relay sends its challenge. */
const AUTHENTICATION = ['never', 'never', 'at the start', 'before OK', 'after OK'] as const;

interface RelayContext {
  scheduler: Scheduler;
  random: SeededRandom;
  faults: FaultPlan;
  history: History;
  /** Called with each event that arrives, whether the relay stores it or not. */
  onEvent: (relay: SimulatedRelay, eventJson: string) => void;
}

/** A Nostr relay (NIP-01): stores events, and finds none. A restart ends its connections, and loses no event. */
export class SimulatedRelay implements SimulatedHost {
  readonly url: string;
  actor: Actor;
  /** When it stored each event, by id. */
  readonly storedAtMs = new Map<string, number>();
  /** The ids of events that it never stores. */
  readonly refusedIds = new Set<string>();
  readonly #context: RelayContext;
  readonly #authentication: (typeof AUTHENTICATION)[number];
  readonly #acceptsDuplicates: boolean;

  constructor(host: string, context: RelayContext) {
    this.url = `wss://${host}`;
    this.actor = new Actor(host.replace('.example', ''));
    this.#context = context;
    this.#authentication = context.random.pick(AUTHENTICATION);
    this.#acceptsDuplicates = context.random.chance(0.5);
  }

  async handleRequest(): Promise<HostResponse> {
    return { status: 404, headers: {}, body: '' };
  }

  acceptSocket(socket: HostSocket): number | null {
    const { scheduler, random, faults } = this.#context;
    if (faults.choose('relay rejects sockets', 0.2)) {
      return 503;
    }
    const challenge = String(random.next());
    const session = { challenge, isAuthenticated: this.#authentication === 'never' };
    socket.on('message', (text) => this.#handleMessage(socket, session, text));
    if (this.#authentication === 'at the start') {
      // After the handshake.
      scheduler.schedule(0, () => send(socket, ['AUTH', challenge]), this.actor);
    }
    return null;
  }

  stop(): void {
    this.#context.history.add(this.actor, () => 'is gone');
    this.actor.die();
  }

  start(): void {
    if (!this.actor.isAlive) {
      this.actor = new Actor(this.actor.name);
      this.#context.history.add(this.actor, () => 'is back');
    }
  }

  #handleMessage(socket: HostSocket, session: Session, text: string): void {
    const [kind, value] = JSON.parse(text) as [string, unknown];
    if (this.#context.faults.choose('relay sends garbage', 0.2)) {
      socket.send(this.#context.random.pick(['', '["OK"]', '["NOTICE","hello"]', '{"OK":true}']));
    }
    if (kind === 'REQ') {
      send(socket, ['EOSE', value]);
    } else if (kind === 'AUTH') {
      this.#authenticate(socket, session, value as Event);
    } else if (kind === 'EVENT') {
      const { id } = value as Event;
      this.#context.onEvent(this, text.slice('["EVENT",'.length, -1));
      this.#handleEvent(socket, session, id);
    }
  }

  #authenticate(socket: HostSocket, session: Session, event: Event): void {
    const tags = new Map(event.tags as [string, string][]);
    session.isAuthenticated =
      event.kind === 22_242 &&
      tags.get('challenge') === session.challenge &&
      tags.get('relay')?.replace(/\/$/, '') === this.url &&
      verifyEvent(event);
    const message = session.isAuthenticated ? '' : 'restricted: wrong AUTH event';
    send(socket, ['OK', event.id, session.isAuthenticated, message]);
  }

  #handleEvent(socket: HostSocket, session: Session, id: string): void {
    const { scheduler, random, faults, history } = this.#context;
    const answer = (isAccepted: boolean, message: string) => {
      const copies = faults.choose('relay repeats answers', 0.2) ? 2 : 1;
      const delayMs = faults.choose('relay is late', 0.2) ? random.exponential(5_000) : 0;
      for (let copy = 0; copy < copies; copy += 1) {
        const response = () => send(socket, ['OK', id, isAccepted, message]);
        scheduler.schedule(delayMs, response, this.actor);
      }
    };
    const store = () => {
      history.add(this.actor, () => `stores ${id}`);
      this.storedAtMs.set(id, scheduler.nowMs);
    };
    if (this.#authentication !== 'never' && faults.choose('relay forgets sessions', 0.2)) {
      session.isAuthenticated = false;
    }
    if (!session.isAuthenticated) {
      if (this.#authentication === 'before OK') {
        send(socket, ['AUTH', session.challenge]);
      }
      send(socket, ['OK', id, false, 'auth-required: this relay knows its clients']);
      if (this.#authentication === 'after OK') {
        send(socket, ['AUTH', session.challenge]);
      }
    } else if (this.storedAtMs.has(id)) {
      answer(this.#acceptsDuplicates, 'duplicate: already have this event');
    } else if (this.refusedIds.has(id) || faults.choose('relay refuses events for ever', 0.05)) {
      this.refusedIds.add(id);
      answer(false, random.pick(['blocked: not here', 'restricted: members only', 'invalid: no']));
    } else if (faults.choose('relay limits events', 0.2)) {
      answer(false, 'rate-limited: slow down');
    } else if (faults.choose('relay has errors', 0.2)) {
      answer(false, random.pick(['error: cannot store', 'oops', '']));
    } else if (faults.choose('relay is silent', 0.1)) {
      if (random.chance(0.5)) {
        store();
      }
    } else if (faults.choose('relay closes sockets', 0.1)) {
      if (random.chance(0.5)) {
        store();
      }
      socket.close();
    } else {
      store();
      answer(true, '');
    }
  }
}

interface Session {
  challenge: string;
  isAuthenticated: boolean;
}

function send(socket: HostSocket, message: readonly unknown[]): void {
  socket.send(JSON.stringify(message));
}
