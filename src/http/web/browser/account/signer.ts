import type { BunkerPointer } from 'nostr-tools/nip46';
import type { Event, EventTemplate } from 'nostr-tools/pure';
import { ExplainedError } from '../explained-error.ts';
import { t } from '../translator.ts';

/** A browser extension (NIP-07) or a remote signer (NIP-46), which keeps the user's secret key. */
export interface Signer {
  /** Throws SignerError. */
  signEvent(template: EventTemplate): Promise<Event>;
  /** Ends the connection to a remote signer, and rejects pending calls of `signEvent`. */
  close(): void;
}

/** The message is a sentence for the user. */
export class SignerError extends ExplainedError {}

/** The user may have to unlock the signer, or to find the phone. */
const SIGNER_TIMEOUT_MS = 120_000;

/** Waits for a response until the timeout, or until the signal aborts with a SignerError. Throws SignerError. */
export async function waitForSigner<Response>(
  kind: 'extension' | 'signer',
  response: Promise<Response>,
  signal: AbortSignal,
  timeoutMs = SIGNER_TIMEOUT_MS,
): Promise<Response> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const listening = new AbortController();
  const timeoutOrAbort = new Promise<never>((_resolve, reject) => {
    const message = t(`account.${kind}Timeout`, { minutes: timeoutMs / 60_000 });
    timer = setTimeout(() => reject(new SignerError(message)), timeoutMs);
    signal.addEventListener('abort', () => reject(signal.reason), { signal: listening.signal });
  });
  try {
    signal.throwIfAborted();
    return await Promise.race([response, timeoutOrAbort]);
  } catch (error) {
    if (error instanceof SignerError) {
      throw error;
    }
    const reason = describeReason(error);
    throw new SignerError(
      reason === '' ? t(`account.${kind}Refused`) : t(`account.${kind}RefusedBecause`, { reason }),
    );
  } finally {
    clearTimeout(timer);
    listening.abort();
  }
}

/** @param reason an error, a text or nothing, depending on the signer or relay */
export function describeReason(reason: unknown): string {
  const text = (reason as { message?: unknown } | null | undefined)?.message ?? reason;
  return typeof text === 'string' ? text.trim().slice(0, 200) : '';
}

/** Connects to the browser extension (NIP-07). Throws SignerError if there is none. */
export async function connectToExtension(signal: AbortSignal): Promise<Signer['signEvent']> {
  const page = globalThis as { nostr?: Pick<Signer, 'signEvent'> };
  // Some extensions add `nostr` only after the page has loaded.
  for (let waitedMs = 0; !page.nostr && waitedMs < 1_000; waitedMs += 50) {
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  const extension = page.nostr;
  if (!extension) {
    throw new SignerError(t('account.noExtension'));
  }
  const sign: Signer['signEvent'] = async (template) => {
    const event = await extension.signEvent(template);
    // Some extensions return something else if the user refuses.
    if (typeof event?.sig !== 'string') {
      throw new ExplainedError(t('account.noSignature'));
    }
    return event;
  };
  return (template) => waitForSigner('extension', sign(template), signal);
}

/** Accepts no NIP-05 names, because looking them up would send a request to another host. Throws SignerError. */
export function parseBunkerUri(text: string, allowInsecure: boolean): BunkerPointer {
  const [, key = '', query = ''] = /^bunker:\/\/([^?/]*)\/?\??(.*)$/i.exec(text.trim()) ?? [];
  const pubkey = key.toLowerCase();
  if (!/^[0-9a-f]{64}$/.test(pubkey)) {
    throw new SignerError(t('account.incompleteSignerAddress'));
  }
  const params = new URLSearchParams(query);
  const relayPattern = allowInsecure ? /^wss?:\/\/[^\s/?#]/i : /^wss:\/\/[^\s/?#]/i;
  const relays = params.getAll('relay').filter((relay) => relayPattern.test(relay));
  if (relays.length === 0) {
    throw new SignerError(t('account.noSignerRelay'));
  }
  return { pubkey, relays, secret: params.get('secret') };
}
