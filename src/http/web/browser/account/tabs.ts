import type { User } from './api-client.ts';
import { type SavedSession, sessionStore } from './browser-storage.ts';

// The tabs of the account page share the session and the settings of the user.

type TabMessage =
  | { type: 'session_wanted' }
  | { type: 'session'; session: SavedSession }
  | { type: 'user_changed'; user: User }
  | { type: 'signed_out'; pubkey: string };

/** A tab that is signed in responds within some milliseconds, unless it or the device is busy. */
const RESPONSE_TIMEOUT_MS = 5_000;

/** Each tab that is signed in holds this lock, with others. */
const SESSION_LOCK = 'session';

const channel = new BroadcastChannel('account');

channel.addEventListener('message', ({ data }: MessageEvent<TabMessage>) => {
  const session = sessionStore.read();
  if (data.type === 'session_wanted' && session !== null) {
    sendToTabs({ type: 'session', session });
  }
});

export function sendToTabs(message: TabMessage): void {
  channel.postMessage(message);
}

/** Returns the session of another tab; null if none is signed in. */
export async function requestSession(): Promise<SavedSession | null> {
  // Browsers offer no locks to pages without TLS.
  const { held = [] } = (await navigator.locks?.query()) ?? {};
  if (!held.some(({ name }) => name === SESSION_LOCK)) {
    return null;
  }
  return await new Promise((resolve) => {
    const receive = ({ data }: MessageEvent<TabMessage>) =>
      data.type === 'session' && finish(data.session);
    const finish = (session: SavedSession | null) => {
      channel.removeEventListener('message', receive);
      resolve(session);
    };
    channel.addEventListener('message', receive);
    setTimeout(() => finish(null), RESPONSE_TIMEOUT_MS);
    sendToTabs({ type: 'session_wanted' });
  });
}

/** Shows other tabs that this one is signed in, and follows what the user changes in them. Returns a function that ends this. */
export function followTabs(
  { pubkey }: User,
  onUserChange: (user: User) => void,
  onSignOut: () => void,
): () => void {
  const listening = new AbortController();
  const { signal } = listening;
  const ended = new Promise((resolve) => signal.addEventListener('abort', resolve));
  void navigator.locks?.request(SESSION_LOCK, { mode: 'shared' }, () => ended);
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
    persisted && sessionStore.read() === null && onSignOut();
  addEventListener('pageshow', checkReturn, { signal });
  return () => listening.abort();
}
