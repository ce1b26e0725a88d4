import { RequestError } from '../errors.ts';
import type { MintInfo } from '../mints/mint-info.ts';
import type { MintInfoCache } from '../mints/mint-info-cache.ts';
import type { MintPolicy } from '../mints/mint-policy.ts';
import type { Recipient, RecipientDirectory } from './recipient-directory.ts';

interface SettingsContext {
  recipients: RecipientDirectory;
  mintInfoCache: MintInfoCache;
  mintPolicy: MintPolicy;
}

/** Sets the mint of a recipient's future quotes. Throws RequestError if the mint cannot be used. */
export async function setMint(
  { recipients, mintInfoCache, mintPolicy }: SettingsContext,
  pubkey: string,
  enteredUrl: string,
): Promise<Recipient> {
  const mintUrl = mintPolicy.parseChosenMint(enteredUrl);
  const info = mintUrl === null ? null : await mintInfoCache.getFresh(mintUrl);
  if (mintUrl === null || !info?.supportsBolt11Sat) {
    throw unusableMintError();
  }
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
    let info = await mintInfoCache.getFresh(mintUrl);
    if (info?.supportsLocking === false) {
      // The mint may support locking since its info was cached.
      info = await mintInfoCache.refresh(mintUrl);
    }
    assertLockingSupported(info);
  }
  return recipients.saveSettings(pubkey, { lockQuotes }, (changed) => {
    if (lockQuotes && changed.mintUrl !== mintUrl) {
      throw new RequestError('unavailable', 'The mint was changed meanwhile. Please try again.');
    }
  });
}

function assertLockingSupported(info: MintInfo | null): void {
  if (info === null) {
    throw unusableMintError();
  }
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
