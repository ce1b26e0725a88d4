import { normaliseMintUrl } from '../net/server-url.ts';
import { getSite } from '../net/site.ts';
import { SiteSemaphore } from '../net/site-semaphore.ts';
import { OPERATOR_MINT_LIMITS, USER_MINT_LIMITS } from './limits.ts';

/** The settings of the operator about mints. */
interface MintSettings {
  defaultMintUrl: string;
  usernames: { mintUrl: string };
  /** The mints whose payments get zap receipts; null: all mints. */
  zaps: { mints: readonly string[] | null };
  /** The only mints that users may choose; null: any mint. */
  allowedMints: readonly string[] | null;
  allowPrivateNetworks: boolean;
}

/** Answers the questions about mints that depend on the operator's settings. All mint URLs are normalised. */
export class MintPolicy {
  readonly operatorMints: readonly string[];
  /** The only mints that users may choose; null: any mint. Users who chose another mint before keep it. */
  readonly allowedMints: readonly string[] | null;
  readonly #settings: MintSettings;

  constructor(settings: MintSettings) {
    const { defaultMintUrl, usernames, zaps, allowedMints } = settings;
    this.#settings = settings;
    this.allowedMints = allowedMints;
    const mintUrls = [defaultMintUrl, usernames.mintUrl, ...(zaps.mints ?? [])];
    this.operatorMints = [...new Set([...mintUrls, ...(allowedMints ?? [])])];
  }

  isOperatorMint(mintUrl: string): boolean {
    return this.operatorMints.includes(mintUrl);
  }

  /** Returns the normalised URL of a mint; null if a user may not choose it. */
  parseChosenMint(text: string): string | null {
    return normaliseMintUrl(text, { allowHttp: this.#settings.allowPrivateNetworks });
  }

  hasZapReceipts(mintUrl: string): boolean {
    return this.#settings.zaps.mints?.includes(mintUrl) ?? true;
  }

  getSite(mintUrl: string): string {
    return getSite(mintUrl);
  }

  getLimits(mintUrl: string) {
    return this.isOperatorMint(mintUrl) ? OPERATOR_MINT_LIMITS : USER_MINT_LIMITS;
  }

  /** Creates slots that user mints share. Each of the operator's mints has `maxPerSite` slots of its own. */
  createSlots(limits: { max: number; maxPerSite: number }): SiteSemaphore {
    return new SiteSemaphore({ ...limits, exemptUrls: this.operatorMints });
  }
}
