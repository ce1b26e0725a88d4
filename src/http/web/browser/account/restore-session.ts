import { t } from '../translator.ts';
import { ApiClient, type User } from './api-client.ts';
import { readSession } from './saved-session.ts';
import { type Signer, SignerError } from './signer.ts';
import { requestSession } from './tabs.ts';

export interface AccountSession {
  signer: Signer;
  api: ApiClient;
  user: User;
}

/** Continues the session of this tab, or that of another one. */
export async function restoreSession(): Promise<{ session: AccountSession | null }> {
  const savedSession = readSession() ?? (await requestSession());
  if (savedSession === null) {
    return { session: null };
  }
  const controller = new AbortController();
  const signer: Signer = {
    signEvent: () => Promise.reject(new SignerError(t('account.sessionEnded'))),
    close: () => controller.abort(),
  };
  try {
    const api = new ApiClient(signer, controller.signal, savedSession);
    return { session: { signer, api, user: await fetchUser(api) } };
  } catch (error) {
    if (!(error instanceof SignerError)) {
      throw error;
    }
    signer.close();
    return { session: null };
  }
}

export async function fetchUser(api: ApiClient): Promise<User> {
  const { data } = await api.request<{ user: User }>('/api/v2/user/info');
  return data.user;
}
