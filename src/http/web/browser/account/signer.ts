import type { BunkerPointer } from 'nostr-tools/nip46';
import type { Event, EventTemplate } from 'nostr-tools/pure';

/** Signs for the user. The secret key stays with the signer: a browser extension (NIP-07) or a remote signer (NIP-46). */
export interface Signer {
  /** Throws SignerError. */
  signEvent(template: EventTemplate): Promise<Event>;
  /** Ends the connection to a remote signer, and rejects what it has not signed. */
  close(): void;
}

/** The signer did not sign. The message is a sentence for the user. */
export class SignerError extends Error {}

/** A user may have to unlock the signer, or to find the phone. */
const SIGNER_TIMEOUT_MS = 120_000;

/**
 * Waits for a response of a signer. Throws SignerError.
 *
 * @param signerName as in `Your extension`
 * @param signal has a SignerError as its reason
 */
export async function waitForSigner<Response>(
  signerName: string,
  response: Promise<Response>,
  signal: AbortSignal,
  timeoutMs = SIGNER_TIMEOUT_MS,
): Promise<Response> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const listening = new AbortController();
  const end = new Promise<never>((_resolve, reject) => {
    const message = `${signerName} did not respond within ${timeoutMs / 60_000} minutes.`;
    timer = setTimeout(() => reject(new SignerError(message)), timeoutMs);
    signal.addEventListener('abort', () => reject(signal.reason), listening);
  });
  try {
    signal.throwIfAborted();
    return await Promise.race([response, end]);
  } catch (error) {
    if (error instanceof SignerError) {
      throw error;
    }
    const reason = describeReason(error);
    throw new SignerError(`${signerName} did not sign${reason === '' ? '.' : `: ${reason}`}`);
  } finally {
    clearTimeout(timer);
    listening.abort();
  }
}

/** Returns what a signer or a relay gives as its reason. Some give an error, some a text, some nothing. */
export function describeReason(error: unknown): string {
  const { message = error } = (error ?? {}) as { message?: unknown };
  return typeof message === 'string' ? message.trim().slice(0, 200) : '';
}

/** Some extensions add `window.nostr` only after the page has loaded. */
const INJECTION_CHECKS = 20;
const INJECTION_CHECK_INTERVAL_MS = 50;

/** Returns a function that signs with the browser extension (NIP-07). Throws SignerError if there is none. */
export async function connectToExtension(signal: AbortSignal): Promise<Signer['signEvent']> {
  const page = globalThis as { nostr?: Pick<Signer, 'signEvent'> };
  for (let check = 0; !page.nostr && check < INJECTION_CHECKS; check += 1) {
    await new Promise((resolve) => setTimeout(resolve, INJECTION_CHECK_INTERVAL_MS));
  }
  const extension = page.nostr;
  if (!extension) {
    throw new SignerError(
      'This browser has no Nostr extension, or the extension is switched off for this page. Install or allow one, ' +
        'reload this page and try again, or use a remote signer.',
    );
  }
  const sign: Signer['signEvent'] = async (template) => {
    const event = await extension.signEvent(template);
    // What some extensions return if the user refuses.
    if (typeof event?.sig !== 'string') {
      throw new Error('it returned no signature');
    }
    return event;
  };
  return (template) => waitForSigner('Your extension', sign(template), signal);
}

/**
 * Parses the `bunker://` address of a remote signer (NIP-46). Refuses NIP-05 names, because looking them up would send a
 * request to another host. Ignores relays to which the page may not connect. Throws SignerError.
 */
export function parseBunkerUri(text: string, allowInsecure: boolean): BunkerPointer {
  const [, key = '', query = ''] = /^bunker:\/\/([^?/]*)\/?\??(.*)$/i.exec(text.trim()) ?? [];
  const pubkey = key.toLowerCase();
  if (!/^[0-9a-f]{64}$/.test(pubkey)) {
    throw new SignerError(
      'This is not a complete address that starts with bunker://. Copy it again from your signer.',
    );
  }
  const params = new URLSearchParams(query);
  const allowed = allowInsecure ? /^wss?:\/\/[^\s/?#]/i : /^wss:\/\/[^\s/?#]/i;
  const relays = params.getAll('relay').filter((relay) => allowed.test(relay));
  if (relays.length === 0) {
    throw new SignerError('The bunker address has no relay that starts with wss://.');
  }
  return { pubkey, relays, secret: params.get('secret') };
}
