import { MintPolicy } from '../../../src/mints/mint-policy.ts';

export function createMintPolicy(
  operatorMintUrl: string,
  options: {
    zapMintUrls?: readonly string[];
    allowPrivateNetworks?: boolean;
  } = {},
): MintPolicy {
  const { zapMintUrls = null, allowPrivateNetworks = false } = options;
  return new MintPolicy({
    defaultMintUrl: operatorMintUrl,
    usernames: { mintUrl: operatorMintUrl },
    zaps: { mints: zapMintUrls },
    allowedMints: null,
    allowPrivateNetworks,
  });
}
