import { onTestFinished } from 'vitest';
import type { TestMintSwitches } from '../../demo/test-mint/switches.ts';
import { TestMint } from '../../demo/test-mint.ts';
import type { ApiAnswer, TestWallet } from './wallet.ts';

/**
 * Starts a mint and makes it the wallet's choice, for as long as the test runs: its switches, its
 * counts and what may be sent to its socket belong to this wallet alone.
 */
export async function giveOwnMint(
  wallet: TestWallet,
  switches: Partial<TestMintSwitches> = {},
): Promise<TestMint> {
  const mint = await TestMint.start({ switches });
  onTestFinished(() => mint.close());
  const { status, body } = await chooseMint(wallet, mint.url);
  if (status !== 200) {
    throw new Error(`the mint was not accepted: ${JSON.stringify(body)}`);
  }
  return mint;
}

/** A user's wish for another mint (spec.md section 4.4). */
export function chooseMint(wallet: TestWallet, mintUrl: string): Promise<ApiAnswer> {
  return wallet.send('PATCH', '/api/v2/user/mint', { mint_url: mintUrl });
}

/** A user's wish for locked quotes, or not (spec.md section 4.5). */
export function setLock(wallet: TestWallet, lockQuotes: boolean): Promise<ApiAnswer> {
  return wallet.send('PATCH', '/api/v2/user/lock', { lockQuotes });
}
