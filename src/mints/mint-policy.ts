import { normaliseMintUrl } from '../net/server-url.ts';
import { getSite } from '../net/site.ts';
import { SiteSemaphore } from '../net/site-semaphore.ts';
import { OPERATOR_MINT_LIMITS, USER_MINT_LIMITS } from './limits.ts';

interface MintSettings {
  defaultMintUrl: string;
  usernameMintUrl: string;
  /** The mints whose payments get zap receipts; null: all mints. */
  zapMintUrls: readonly string[] | null;
  /** The only mints that users may choose; null: any mint. */
  allowedMintUrls?: readonly string[] | null;
  allowPrivateNetworks: boolean;
}

/** Answers the questions about mints that depend on the operator's settings. All mint URLs are normalised. */
export class MintPolicy {
  readonly operatorMints: readonly string[];
  /** The only mints that users may choose; null: any mint. Users who chose another mint before keep it. */
  readonly allowedMints: readonly string[] | null;
  readonly #settings: MintSettings;

  constructor(settings: MintSettings) {
    const { defaultMintUrl, usernameMintUrl, zapMintUrls } = settings;
    this.#settings = settings;
    this.allowedMints = settings.allowedMintUrls ?? null;
    this.operatorMints = [
      ...new Set([
        ...[defaultMintUrl, usernameMintUrl],
        ...(zapMintUrls ?? []),
        ...(this.allowedMints ?? []),
      ]),
    ];
  }

  isOperatorMint(mintUrl: string): boolean {
    return this.operatorMints.includes(mintUrl);
  }

  /** Returns the normalised URL of a mint; null if a user may not choose it. */
  parseChosenMint(text: string): string | null {
    return normaliseMintUrl(text, { allowHttp: this.#settings.allowPrivateNetworks });
  }

  hasZapReceipts(mintUrl: string): boolean {
    return this.#settings.zapMintUrls?.includes(mintUrl) ?? true;
  }

  getSite(mintUrl: string): string {
    return getSite(mintUrl, this.#settings);
  }

  getLimits(mintUrl: string) {
    return this.isOperatorMint(mintUrl) ? OPERATOR_MINT_LIMITS : USER_MINT_LIMITS;
  }

  /** Creates slots that user mints share. Each of the operator's mints has `maxPerSite` slots of its own. */
  createSlots(limits: { max: number; maxPerSite: number }): SiteSemaphore {
    const { allowPrivateNetworks } = this.#settings;
    return new SiteSemaphore({ ...limits, exemptUrls: this.operatorMints, allowPrivateNetworks });
  }
}
