import { RequestError } from '../errors.ts';
import type { MintInfoCache } from '../mints/mint-cache.ts';
import type { MintInfo } from '../mints/mint-info.ts';
import type { MintPolicy } from '../mints/mint-policy.ts';
import type { Recipient, RecipientDirectory } from './recipient-directory.ts';

const UNKNOWN_MINT_MESSAGE = 'Could not get mint info. Is this a valid mint url?';
const LOCKING_UNSUPPORTED_MESSAGE =
  'Mint does not support locking. Choose a different mint or disable locking';

/** Changes a recipient's settings, which apply to future payments only. */
export class SettingsUpdater {
  readonly #recipients: RecipientDirectory;
  readonly #mintInfoCache: Pick<MintInfoCache, 'getFresh' | 'refresh'>;
  readonly #mintPolicy: MintPolicy;

  constructor(
    recipients: RecipientDirectory,
    mintInfoCache: Pick<MintInfoCache, 'getFresh' | 'refresh'>,
    mintPolicy: MintPolicy,
  ) {
    this.#recipients = recipients;
    this.#mintInfoCache = mintInfoCache;
    this.#mintPolicy = mintPolicy;
  }

  /**
   * Sets the mint for a recipient's future payments.
   *
   * @param mintUrl need not be normalised
   * @throws RequestError if the mint is unusable, or does not support locking while locking is on
   */
  async setMint(pubkey: string, mintUrl: string): Promise<Recipient> {
    const normalised = this.#mintPolicy.parseChosenMint(mintUrl);
    const info = normalised === null ? null : await this.#mintInfoCache.getFresh(normalised);
    if (normalised === null || !info?.supportsBolt11Sat) {
      throw new RequestError('mint_unusable', UNKNOWN_MINT_MESSAGE);
    }
    return this.#recipients.saveSettings(pubkey, { mintUrl: normalised }, ({ lockQuotes }) => {
      if (lockQuotes) {
        assertLockingSupported(info);
      }
    });
  }

  /**
   * Turns the locking of a recipient's future quotes on or off (NUT-20). Turning it off does not
   * contact the mint, so that an unresponsive mint cannot prevent it.
   *
   * @throws RequestError if the recipient's mint does not support locking, or is changed at the same time
   */
  async setQuoteLocking(pubkey: string, lockQuotes: boolean): Promise<Recipient> {
    const recipient = await this.#recipients.getByPubkey(pubkey);
    const { mintUrl } = recipient;
    // Wallets turn locking on at every start, so the mint is contacted only if the setting changes.
    if (lockQuotes && !recipient.lockQuotes) {
      let info = await this.#mintInfoCache.getFresh(mintUrl);
      if (info?.supportsLocking === false) {
        // The mint may support locking since its info was cached.
        info = await this.#mintInfoCache.refresh(mintUrl);
      }
      assertLockingSupported(info);
    }
    return this.#recipients.saveSettings(pubkey, { lockQuotes }, (saved) => {
      if (lockQuotes && saved.mintUrl !== mintUrl) {
        throw new RequestError('unavailable', 'The mint was changed meanwhile. Please try again.');
      }
    });
  }
}

function assertLockingSupported(info: MintInfo | null): void {
  if (!info?.supportsLocking) {
    throw info === null
      ? new RequestError('mint_unusable', UNKNOWN_MINT_MESSAGE)
      : new RequestError('locking_unsupported', LOCKING_UNSUPPORTED_MESSAGE);
  }
}
