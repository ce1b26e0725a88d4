import { MintPolicy } from '../../../src/mints/mint-policy.ts';

export function createMintPolicy(
  operatorMintUrl: string,
  options: {
    zapMintUrls?: readonly string[];
    allowedMintUrls?: readonly string[];
    allowPrivateNetworks?: boolean;
  } = {},
): MintPolicy {
  const { zapMintUrls = null, allowedMintUrls = null, allowPrivateNetworks = false } = options;
  return new MintPolicy({
    defaultMintUrl: operatorMintUrl,
    usernameMintUrl: operatorMintUrl,
    zapMintUrls,
    allowedMintUrls,
    allowPrivateNetworks,
  });
}
