import { t } from '../translator.ts';
import { type ApiClient, ApiError, type User } from './api-client.ts';

/** Throws unless the user owns the name afterwards, or has owned it. */
export async function requestUsername(api: ApiClient, username: string, token: string | null) {
  const { data } = await api.request<{ user: User }>('/api/v2/user/username', {
    method: 'POST',
    body: { username },
    headers: token === null ? {} : { 'x-cashu': token },
  });
  return data.user;
}

/** Returns the payment request (NUT-18) with which the server responds without a token. Throws other errors again. */
export function readPaymentRequest(error: unknown): string {
  const request = error instanceof ApiError ? error.headers.get('x-cashu') : null;
  if (request === null) {
    throw error;
  }
  return request;
}

export function describeSuccess(name: string, user: User): string {
  return user.name === name.toLowerCase()
    ? t('account.nameBought', { address: `${user.name}@${location.host}` })
    : t('account.nameBoughtBefore', { name });
}

/** The page of an available name links to `/account?name=alice`. As on the server, a name that occurs twice is ignored. */
export function readNameInLink(): string {
  const names = new URLSearchParams(location.search).getAll('name');
  return names.length === 1 ? names.join() : '';
}
