import { expect, it } from 'vitest';
import { pubkeyOf, startOfToken, walletHeaders } from '../../bench/harness/wallets.ts';

it("knows how each wallet's token begins, and no other's", async () => {
  const tokens = await Promise.all([1, 2, 3].map(tokenOf));
  const starts = [1, 2, 3].map((user) => startOfToken(pubkeyOf(user)));

  const owners = starts.map((start) => tokens.findIndex((token) => token.startsWith(start)));
  expect(owners).toEqual([0, 1, 2]);
});

async function tokenOf(user: number): Promise<string> {
  const { authorization } = await walletHeaders(user);
  return authorization.slice('Bearer '.length);
}
