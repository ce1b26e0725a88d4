import { type ApiAnswer, request, type TestWallet } from './wallet.ts';

/** Where names are bought (spec.md section 4.6). */
const PATH = '/api/v2/user/username';

/**
 * A request for a name, as wallets make it.
 *
 * @param token in `X-Cashu`, where there is one
 * @param signal the buyer hangs up
 */
export function buyUsername(
  wallet: TestWallet,
  username: string,
  token?: string,
  signal?: AbortSignal,
): Promise<ApiAnswer> {
  return request(wallet.base, PATH, {
    method: 'POST',
    headers: {
      authorization: wallet.sign(PATH, 'POST'),
      'content-type': 'application/json',
      ...(token !== undefined && { 'x-cashu': token }),
    },
    body: JSON.stringify({ username }),
    ...(signal && { signal }),
  });
}

/** Who has a name, as everybody is told (NIP-05); undefined: nobody. */
export async function ownerOf(base: string, name: string): Promise<string | undefined> {
  const { body } = await request(base, `/.well-known/nostr.json?name=${name}`);
  return body.names[name];
}
