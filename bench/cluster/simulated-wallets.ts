/**
 * What all processes of the benchmark know about the simulated wallets. A wallet's number determines its key, its
 * address and its mint.
 */

/** The User-Agent of the wallets, to which their JWTs are bound. */
export const USER_AGENT = 'bench';

export function createSecretKey(wallet: number): Uint8Array {
  return Buffer.from((wallet + 1).toString(16).padStart(64, '0'), 'hex');
}

/** Returns the loopback address of a wallet. Each wallet has its own, as the limits per address assume. */
export function getWalletAddress(wallet: number): string {
  return `127.${1 + (wallet >> 16)}.${(wallet >> 8) & 255}.${wallet & 255}`;
}

/** Returns the loopback address of a payer's network. */
export function getPayerAddress(payer: number): string {
  return `127.200.0.${payer}`;
}

export function getMintIndex(wallet: number, mintCount: number): number {
  return wallet % mintCount;
}
