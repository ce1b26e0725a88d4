import { type ApiResponse, type RecipientClient, requestJson } from './recipient-client.ts';

export function requestUsername(
  wallet: RecipientClient,
  username: string,
  token?: string,
  { signal, address }: { signal?: AbortSignal; address?: string } = {},
): Promise<ApiResponse> {
  const headers = {
    ...(token !== undefined && { 'x-cashu': token }),
    ...(address !== undefined && { 'x-forwarded-for': address }),
  };
  return wallet.send(
    'POST',
    '/api/v2/user/username',
    { username },
    { headers, signal: signal ?? null },
  );
}

export async function fetchUsernameOwner(
  origin: string,
  name: string,
): Promise<string | undefined> {
  const { body } = await requestJson(origin, `/.well-known/nostr.json?name=${name}`);
  return body.names[name];
}
