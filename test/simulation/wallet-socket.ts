import { type NostrKey, signRequest } from './recipients.ts';
import type { Actor } from './scheduler.ts';
import type { World } from './world.ts';

/** What a wallet saw on one of its quote sockets. Times are virtual milliseconds. */
export interface SocketSession {
  pubkey: string;
  authenticatedAtMs: number | null;
  /** When it closed, or the client stopped reading, as a phone that sleeps. */
  endedAtMs: number | null;
  /** When the updates of each quote arrived. */
  updates: Map<string, number[]>;
  /** What the wallet knew after the read that followed the authentication. Null: it did not succeed. */
  knownAtStart: ReadonlySet<string> | null;
}

interface SocketEvents {
  onAuthenticated: (session: SocketSession) => void;
  onUpdate: () => void;
  /** @param hadError whether the service sent `error` before the end */
  onClose: (hadError: boolean) => void;
}

/** Opens a quote socket and authenticates. */
export function openSession(
  world: World,
  actor: Actor,
  key: NostrKey,
  address: string,
  events: SocketEvents,
): SocketSession {
  const { scheduler, proxy, random, faults, referee, history, health } = world;
  const session: SocketSession = {
    pubkey: key.pubkey,
    authenticatedAtMs: null,
    endedAtMs: null,
    updates: new Map(),
    knownAtStart: null,
  };
  let hadError = false;
  const openedAtMs = scheduler.nowMs;
  const checkError = (message: string) => {
    // A signature is valid for a minute, by the clock of the process, which may be suspended meanwhile.
    const mayBeRejected = session.authenticatedAtMs === null && health.isDisturbed(openedAtMs);
    if (!message.includes('restarting') && !mayBeRejected) {
      referee.report('live sockets stay open', `${actor.name}: ${message}`);
    }
  };
  const handleMessage = (text: string) => {
    history.add(actor, () => `receives ${text}`);
    const { type, payload } = JSON.parse(text);
    switch (type) {
      case 'challenge': {
        const { pathname } = new URL(payload.url);
        const response = signRequest(key, payload.method, pathname);
        socket.send(JSON.stringify({ type: 'challenge-response', payload: response }));
        break;
      }
      case 'challenge-success':
        session.authenticatedAtMs = scheduler.nowMs;
        events.onAuthenticated(session);
        break;
      case 'update':
        referee.checkUpdate(key.pubkey, payload.quoteId);
        session.updates.getOrInsertComputed(payload.quoteId, () => []).push(scheduler.nowMs);
        events.onUpdate();
        break;
      case 'error':
        hadError = true;
        checkError(payload);
    }
  };
  const socket = proxy.openSocket(address, {
    onMessage: handleMessage,
    onClose: () => {
      session.endedAtMs ??= scheduler.nowMs;
      // Wallets reconnect only after an error message.
      if (!hadError && referee.isCalm(scheduler.nowMs)) {
        referee.report('live sockets stay open', `${actor.name}: closed without an error message`);
      }
      events.onClose(hadError);
    },
  });
  if (faults.choose('silent sockets', 0.05, 'clients')) {
    scheduler.schedule(random.between(1_000, 60_000), () => {
      session.endedAtMs ??= scheduler.nowMs;
      socket.fallSilent();
    });
  }
  return session;
}
