import type { Event, EventTemplate } from 'nostr-tools/pure';

/** Signs for the user. The secret key stays with the signer: a browser extension (NIP-07) or a remote signer (NIP-46). */
export interface Signer {
  /** @throws SignerError */
  signEvent(template: EventTemplate): Promise<Event>;
  /** Ends the connection to a remote signer, and rejects what it has not signed. */
  close(): void;
}

/** The signer did not sign. The message is a sentence for the user. */
export class SignerError extends Error {}

/** A user may have to unlock the signer, or to find the phone. */
const SIGNER_TIMEOUT_MS = 120_000;

const MAX_REASON_LENGTH = 200;

/**
 * Waits for a response of a signer.
 *
 * @param signerName as in `Your extension`
 * @param signal aborts the wait with a SignerError as its reason
 * @throws SignerError
 */
export async function waitForSigner<Response>(
  signerName: string,
  response: Promise<Response>,
  signal: AbortSignal,
  timeoutMs = SIGNER_TIMEOUT_MS,
): Promise<Response> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let abort = () => {};
  const end = new Promise<never>((_resolve, reject) => {
    abort = () => reject(signal.reason);
    if (signal.aborted) {
      abort();
    }
    signal.addEventListener('abort', abort);
    const message = `${signerName} did not respond within ${timeoutMs / 60_000} minutes.`;
    timer = setTimeout(() => reject(new SignerError(message)), timeoutMs);
  });
  try {
    return await Promise.race([response, end]);
  } catch (error) {
    if (error instanceof SignerError) {
      throw error;
    }
    const reason = describeReason(error);
    throw new SignerError(`${signerName} did not sign${reason === '' ? '.' : `: ${reason}`}`);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', abort);
  }
}

/** Returns what a signer or a relay gives as its reason. Some give an error, some a text, some nothing. */
export function describeReason(error: unknown): string {
  const { message = error } = (error ?? {}) as { message?: unknown };
  return typeof message === 'string' ? message.trim().slice(0, MAX_REASON_LENGTH) : '';
}

/** Some extensions add `window.nostr` only after the page has loaded. */
const INJECTION_WAIT_MS = 1_000;

const INJECTION_CHECK_INTERVAL_MS = 50;

type Extension = Pick<Signer, 'signEvent'>;

/**
 * Returns a function that signs with the browser extension (NIP-07).
 *
 * @throws SignerError if there is none
 */
export async function connectToExtension(signal: AbortSignal): Promise<Signer['signEvent']> {
  const extension = await waitForExtension();
  if (extension === null) {
    throw new SignerError(
      'This browser has no Nostr extension, or the extension is switched off for this page. Install or allow one, ' +
        'reload this page and try again, or use a remote signer.',
    );
  }
  return (template) => {
    const sign = async () => {
      const event = await extension.signEvent(template);
      // What some extensions return if the user refuses.
      if (typeof event?.sig !== 'string') {
        throw new Error('it returned no signature');
      }
      return event;
    };
    return waitForSigner('Your extension', sign(), signal);
  };
}

async function waitForExtension(): Promise<Extension | null> {
  for (let waitedMs = 0; waitedMs <= INJECTION_WAIT_MS; waitedMs += INJECTION_CHECK_INTERVAL_MS) {
    const { nostr } = globalThis as { nostr?: Extension };
    if (nostr !== undefined) {
      return nostr;
    }
    await new Promise((resolve) => setTimeout(resolve, INJECTION_CHECK_INTERVAL_MS));
  }
  return null;
}
