import type { User } from './api-client.ts';
import { readSession, type SavedSession } from './saved-session.ts';

// The tabs of the account page share the session and the settings of the user.

type TabMessage =
  | { type: 'session_wanted' }
  | { type: 'session'; session: SavedSession }
  | { type: 'user_changed'; user: User }
  | { type: 'signed_out'; pubkey: string };

/** A tab in the background responds within some milliseconds. */
const RESPONSE_TIMEOUT_MS = 200;

const channel = new BroadcastChannel('account');

channel.addEventListener('message', ({ data }: MessageEvent<TabMessage>) => {
  const session = readSession();
  if (data.type === 'session_wanted' && session !== null) {
    send({ type: 'session', session });
  }
});

function send(message: TabMessage): void {
  channel.postMessage(message);
}

/** Returns the session of another tab; null if none is signed in. */
export function requestSession(): Promise<SavedSession | null> {
  return new Promise((resolve) => {
    const receive = ({ data }: MessageEvent<TabMessage>) =>
      data.type === 'session' && finish(data.session);
    const finish = (session: SavedSession | null) => {
      channel.removeEventListener('message', receive);
      resolve(session);
    };
    channel.addEventListener('message', receive);
    setTimeout(() => finish(null), RESPONSE_TIMEOUT_MS);
    send({ type: 'session_wanted' });
  });
}

export function announceUser(user: User): void {
  send({ type: 'user_changed', user });
}

export function announceSignOut({ pubkey }: User): void {
  send({ type: 'signed_out', pubkey });
}

/** Follows what the user changes in other tabs. Returns a function that ends this. */
export function followTabs(
  { pubkey }: User,
  onUserChange: (user: User) => void,
  onSignOut: () => void,
): () => void {
  const listening = new AbortController();
  const { signal } = listening;
  const receive = ({ data }: MessageEvent<TabMessage>) => {
    if (data.type === 'user_changed' && data.user.pubkey === pubkey) {
      onUserChange(data.user);
    } else if (data.type === 'signed_out' && data.pubkey === pubkey) {
      onSignOut();
    }
  };
  channel.addEventListener('message', receive, { signal });
  // The back/forward cache may return a page from before the user signed out.
  const checkReturn = ({ persisted }: PageTransitionEvent) =>
    persisted && readSession() === null && onSignOut();
  addEventListener('pageshow', checkReturn, { signal });
  return () => listening.abort();
}
