import { RecentlyUsed } from '../domain/recently-used.ts';

/** After this time a rejected description is tried again, because the mint may have been fixed. */
const REMEMBERED_MS = 5 * 60_000;

/** Far more mints than are in use at a time. */
const MAX_MINTS = 5_000;

/** The latest of each kind: how long the text was, and when. */
interface Experience {
  rejected: { bytes: number; atMs: number } | null;
  accepted: { bytes: number; atMs: number } | null;
}

/**
 * Remembers which invoice descriptions mints reject, so that only one invoice pays for finding out. If a
 * mint rejects a text, it rejects longer ones too. A rejection does not count while the mint accepts
 * texts as long: then the reason was something else.
 */
export class DescriptionSupport {
  readonly #monotonicMs: () => number;
  readonly #mints = new RecentlyUsed<Experience>(MAX_MINTS, () => ({
    rejected: null,
    accepted: null,
  }));

  constructor(monotonicMs: () => number) {
    this.#monotonicMs = monotonicMs;
  }

  /** Whether the mint recently rejected this text or a shorter one. An empty text is never rejected. */
  rejects(mintUrl: string, text: string): boolean {
    const rejected = this.#mints.look(mintUrl)?.rejected ?? null;
    return (
      text !== '' && this.#isRecent(rejected) && Buffer.byteLength(text) >= (rejected?.bytes ?? 0)
    );
  }

  /**
   * Records that the mint created a quote without this text, and not with it.
   *
   * @returns whether that was news
   */
  noteRejected(mintUrl: string, text: string): boolean {
    const known = this.#mints.use(mintUrl);
    const bytes = Buffer.byteLength(text);
    const isAccepted = this.#isRecent(known.accepted) && bytes <= (known.accepted?.bytes ?? 0);
    if (isAccepted || this.rejects(mintUrl, text)) {
      return false;
    }
    known.rejected = { bytes, atMs: this.#monotonicMs() };
    return true;
  }

  /** Records that the mint created a quote with this text. */
  noteAccepted(mintUrl: string, text: string): void {
    const known = this.#mints.use(mintUrl);
    const bytes = Buffer.byteLength(text);
    if (bytes >= (known.accepted?.bytes ?? 0) || !this.#isRecent(known.accepted)) {
      known.accepted = { bytes, atMs: this.#monotonicMs() };
    }
  }

  #isRecent(experience: { atMs: number } | null): boolean {
    return experience !== null && this.#monotonicMs() - experience.atMs < REMEMBERED_MS;
  }
}
