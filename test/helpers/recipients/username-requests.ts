import { type ApiResponse, type RecipientClient, requestJson } from './recipient-client.ts';

const USERNAME_PATH = '/api/v2/user/username';

/**
 * Sends a wallet's request for a username.
 *
 * @param token the payment. Without a token, the service responds with a payment request
 * @param signal aborts the request
 */
export function requestUsername(
  wallet: RecipientClient,
  username: string,
  token?: string,
  signal?: AbortSignal,
): Promise<ApiResponse> {
  return requestJson(wallet.origin, USERNAME_PATH, {
    method: 'POST',
    headers: {
      authorization: wallet.signRequest(USERNAME_PATH, 'POST'),
      'content-type': 'application/json',
      ...(token !== undefined && { 'x-cashu': token }),
    },
    body: JSON.stringify({ username }),
    ...(signal && { signal }),
  });
}

/** Returns the public key of a username's owner according to NIP-05, or undefined if it has no owner. */
export async function fetchUsernameOwner(
  origin: string,
  name: string,
): Promise<string | undefined> {
  const { body } = await requestJson(origin, `/.well-known/nostr.json?name=${name}`);
  return body.names[name];
}
