import { RequestError } from '../errors.ts';
import type { ReadInfoResult } from '../mints/mint-client.ts';
import type { MintInfo } from '../mints/mint-info.ts';
import type { MintInfoCache } from '../mints/mint-info-cache.ts';
import type { MintPolicy } from '../mints/mint-policy.ts';
import type { Recipient, RecipientDirectory } from './recipient-directory.ts';

interface SettingsContext {
  recipients: RecipientDirectory;
  mintInfoCache: MintInfoCache;
  mintPolicy: MintPolicy;
}

/** Part of the API. Both an unknown and a forbidden host are `not_found`, so that users cannot explore a private network. */
export const MINT_PROBLEMS = [
  'invalid_url',
  'not_found',
  'refused',
  'timeout',
  'redirect',
  'not_a_mint',
  'no_sats',
  'not_allowed',
  'unavailable',
] as const;

type MintProblem = (typeof MINT_PROBLEMS)[number];

/** Looks at a mint that a user may choose: returns its normalised URL and its info, or why it cannot be used. */
export async function previewMint(
  { mintInfoCache, mintPolicy }: Pick<SettingsContext, 'mintInfoCache' | 'mintPolicy'>,
  enteredUrl: string,
): Promise<{ mintUrl: string; info: MintInfo } | { problem: MintProblem }> {
  const mintUrl = mintPolicy.parseChosenMint(enteredUrl);
  if (mintUrl === null) {
    return { problem: 'invalid_url' };
  }
  if (mintPolicy.allowedMints?.includes(mintUrl) === false) {
    return { problem: 'not_allowed' };
  }
  const result = await mintInfoCache.lookUp(mintUrl);
  if (result.outcome !== 'found') {
    return { problem: toMintProblem(result) };
  }
  const { info } = result;
  return info.supportsBolt11Sat ? { mintUrl, info } : { problem: 'no_sats' };
}

/** Sets the mint of a recipient's future quotes. Throws RequestError if the mint cannot be used. */
export async function setMint(
  { recipients, ...context }: SettingsContext,
  pubkey: string,
  enteredUrl: string,
): Promise<Recipient> {
  const preview = await previewMint(context, enteredUrl);
  if ('problem' in preview) {
    const { allowedMints } = context.mintPolicy;
    throw preview.problem === 'not_allowed'
      ? new RequestError('mint_not_allowed', `This server only allows ${allowedMints?.join(', ')}.`)
      : unusableMintError();
  }
  const { mintUrl, info } = preview;
  return recipients.saveSettings(pubkey, { mintUrl }, ({ lockQuotes }) => {
    if (lockQuotes) {
      assertLockingSupported(info);
    }
  });
}

/**
 * Turns the locking of a recipient's future quotes on or off (NUT-20). Throws RequestError if the mint does not support it.
 * Turning it off does not contact the mint, so that an unresponsive mint cannot prevent it.
 */
export async function setQuoteLocking(
  { recipients, mintInfoCache }: SettingsContext,
  pubkey: string,
  lockQuotes: boolean,
): Promise<Recipient> {
  const recipient = await recipients.getByPubkey(pubkey);
  const { mintUrl } = recipient;
  // Wallets turn locking on at every start, so the mint is contacted only if the setting changes.
  if (lockQuotes && !recipient.lockQuotes) {
    const result = await mintInfoCache.lookUp(mintUrl);
    if (result.outcome !== 'found') {
      throw unusableMintError();
    }
    assertLockingSupported(result.info);
  }
  return recipients.saveSettings(pubkey, { lockQuotes }, (changed) => {
    if (lockQuotes && changed.mintUrl !== mintUrl) {
      throw new RequestError('unavailable', 'The mint was changed meanwhile. Please try again.');
    }
  });
}

function toMintProblem(result: Exclude<ReadInfoResult, { outcome: 'found' }>): MintProblem {
  if (result.outcome !== 'unavailable') {
    return result.outcome === 'invalid' ? 'not_a_mint' : 'unavailable';
  }
  const { reason, status = 0 } = result;
  return status >= 300 && status < 400 ? 'redirect' : (PROBLEM_BY_REASON[reason] ?? 'unavailable');
}

const PROBLEM_BY_REASON: Readonly<Record<string, MintProblem>> = {
  'connection refused': 'refused',
  'forbidden address': 'not_found',
  'name not found': 'not_found',
  'not HTTP': 'not_a_mint',
  'timed out': 'timeout',
};

function assertLockingSupported(info: MintInfo): void {
  if (!info.supportsLocking) {
    throw new RequestError(
      'locking_unsupported',
      'Mint does not support locking. Choose a different mint or disable locking',
    );
  }
}

function unusableMintError(): RequestError {
  return new RequestError('mint_unusable', 'Could not get mint info. Is this a valid mint url?');
}
