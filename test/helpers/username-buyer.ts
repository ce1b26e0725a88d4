import { type ApiResponse, requestJson, type TestWallet } from './test-wallet.ts';

/** The purchase endpoint (spec.md section 4.6). */
const USERNAME_PATH = '/api/v2/user/username';

/**
 * Requests a username like a wallet.
 *
 * @param token value of `X-Cashu`, if any
 * @param signal aborts the request
 */
export function buyUsername(
  wallet: TestWallet,
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

/** Returns the owner of a name according to NIP-05; undefined if it has none. */
export async function fetchUsernameOwner(base: string, name: string): Promise<string | undefined> {
  const { body } = await requestJson(base, `/.well-known/nostr.json?name=${name}`);
  return body.names[name];
}
