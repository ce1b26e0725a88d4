import { useState } from 'preact/hooks';
import { t } from '../translator.ts';
import { ApiClient, type User } from './api-client.ts';
import { type SavedSession, sessionStore } from './browser-storage.ts';
import { useLoaded } from './elements.tsx';
import { type Signer, SignerError } from './signer.ts';
import { requestSession } from './tabs.ts';

export interface AccountSession {
  signer: Signer;
  api: ApiClient;
  user: User;
}

/** The session of the page, which continues that of this tab, or that of another one. */
export function useSession() {
  const [session, setSession] = useState<AccountSession | null>(null);
  const { data, problem, reload } = useLoaded(async () => {
    setSession(await restoreSession());
    return 'restored';
  }, []);
  return { session, setSession, isLoading: data === null && problem === null, problem, reload };
}

async function restoreSession(): Promise<AccountSession | null> {
  const savedSession = sessionStore.read() ?? (await requestSession());
  if (savedSession === null) {
    return null;
  }
  const controller = new AbortController();
  const signer: Signer = {
    signEvent: () => Promise.reject(new SignerError(t('account.sessionEnded'))),
    close: () => controller.abort(),
  };
  try {
    return await openSession(signer, controller.signal, savedSession);
  } catch (error) {
    if (!(error instanceof SignerError)) {
      throw error;
    }
    signer.close();
    return null;
  }
}

/** Requests the settings of the user, for which a new session needs a signature. */
export async function openSession(
  signer: Signer,
  signal: AbortSignal,
  savedSession: SavedSession | null = null,
): Promise<AccountSession> {
  const api = new ApiClient(signer, signal, savedSession);
  const { data } = await api.request<{ user: User }>('/api/v2/user/info');
  signal.throwIfAborted();
  return { signer, api, user: data.user };
}
