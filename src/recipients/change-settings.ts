import { Refusal } from '../errors.ts';
import type { MintInfo } from '../mints/mint-info.ts';
import type { MintInfoCache } from '../mints/mint-info-cache.ts';
import { normaliseMintUrl } from '../mints/mint-url.ts';
import type { Recipient, Recipients } from './recipients.ts';

const UNKNOWN_MINT = 'Could not get mint info. Is this a valid mint url?';
const NO_LOCKING = 'Mint does not support locking. Choose a different mint or disable locking';

/** Changes a recipient's settings; they apply to future payments alone. */
export class ChangeSettings {
  readonly #recipients: Recipients;
  readonly #mints: Pick<MintInfoCache, 'current' | 'refresh'>;
  readonly #allowHttpMints: boolean;

  constructor(
    recipients: Recipients,
    mints: Pick<MintInfoCache, 'current' | 'refresh'>,
    allowHttpMints: boolean,
  ) {
    this.#recipients = recipients;
    this.#mints = mints;
    this.#allowHttpMints = allowHttpMints;
  }

  /**
   * Chooses the mint of a recipient's future payments (spec.md section 4.4).
   *
   * @param mintUrl as the recipient wrote it; it is kept in its normalised form
   * @throws Refusal where it is no mint that we can use, or cannot lock while locking is on
   */
  async chooseMint(pubkey: string, mintUrl: string): Promise<Recipient> {
    const normalised = normaliseMintUrl(mintUrl, { allowHttp: this.#allowHttpMints });
    const info = normalised === null ? null : await this.#mints.current(normalised);
    if (normalised === null || info === null || !info.mintsBolt11Sat) {
      throw new Refusal('invalid', UNKNOWN_MINT);
    }
    const { lockQuotes } = await this.#recipients.byPubkey(pubkey);
    if (lockQuotes) {
      requireLocking(info);
    }
    return this.#recipients.save(pubkey, { mintUrl: normalised });
  }

  /**
   * Locks a recipient's future quotes to their key, or stops it (spec.md section 4.5, NUT-20).
   *
   * Turning it off asks no mint, so that a dead one cannot prevent it.
   *
   * @throws Refusal where the recipient's mint cannot lock
   */
  async setLocking(pubkey: string, lockQuotes: boolean): Promise<Recipient> {
    const recipient = await this.#recipients.byPubkey(pubkey);
    // Wallets turn it on at every start: what is on already asks no mint.
    if (lockQuotes && !recipient.lockQuotes) {
      const { mintUrl } = recipient;
      const known = await this.#mints.current(mintUrl);
      // It may have learnt to lock since it was last asked.
      const info = known?.locking === false ? await this.#mints.refresh(mintUrl) : known;
      if (info === null) {
        throw new Refusal('invalid', UNKNOWN_MINT);
      }
      requireLocking(info);
    }
    return this.#recipients.save(pubkey, { lockQuotes });
  }
}

function requireLocking(info: MintInfo): void {
  if (!info.locking) {
    throw new Refusal('invalid', NO_LOCKING);
  }
}
