import { MintPolicy } from '../../../src/mints/mint-policy.ts';

/** Creates the policy of an operator who named one mint. */
export function createMintPolicy(
  operatorMintUrl: string,
  options: { zapMintUrls?: readonly string[]; allowPrivateNetworks?: boolean } = {},
): MintPolicy {
  const { zapMintUrls = null, allowPrivateNetworks = false } = options;
  return new MintPolicy({
    defaultMintUrl: operatorMintUrl,
    usernameMintUrl: operatorMintUrl,
    zapMintUrls,
    allowPrivateNetworks,
  });
}
