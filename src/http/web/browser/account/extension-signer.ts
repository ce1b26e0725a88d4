import { type Signer, SignerError, waitForSigner } from './signer.ts';

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
