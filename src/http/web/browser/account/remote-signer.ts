import { HTTPAuth } from 'nostr-tools/kinds';
import { type BunkerPointer, BunkerSigner, createNostrConnectURI } from 'nostr-tools/nip46';
import { SimplePool } from 'nostr-tools/pool';
import { generateSecretKey, getPublicKey } from 'nostr-tools/pure';
import { bytesToHex } from 'nostr-tools/utils';
import { showDialog } from '../common.ts';
import { describeReason, type Signer, SignerError, waitForSigner } from './signer.ts';

// Remote signers (NIP-46). Each connection uses a new key, which stays in memory.

/** The page only asks for signatures of NIP-98 events. */
const PERMISSIONS = [`sign_event:${HTTPAuth}`];

const SIGNER_NAME = 'Your signer';

/** Long enough to find a phone and to scan the QR code. */
const INVITATION_TIMEOUT_MS = 5 * 60_000;

type SignEvent = Signer['signEvent'];

export async function connectToBunker(
  pointer: BunkerPointer,
  signal: AbortSignal,
): Promise<SignEvent> {
  const bunker = openBunker(pointer, signal);
  const signEvent = signUntilAborted(bunker, signal);
  const params = [pointer.pubkey, pointer.secret ?? '', PERMISSIONS.join(',')];
  await waitForResponse(bunker.sendRequest('connect', params), signal);
  return signEvent;
}

function openBunker(pointer: BunkerPointer, signal: AbortSignal): BunkerSigner {
  const options = { pool: openPool(signal), onauth: showApprovalLink };
  try {
    return BunkerSigner.fromBunker(generateSecretKey(), pointer, options);
  } catch {
    throw new SignerError('The signer address has an invalid key. Copy it again from your signer.');
  }
}

/** Creates a `nostrconnect://` address. `connected` resolves when the signer has proved that it received the address. */
export function inviteSigner(
  relay: string,
  signal: AbortSignal,
): { uri: string; connected: Promise<SignEvent> } {
  const secretKey = generateSecretKey();
  const uri = createNostrConnectURI({
    clientPubkey: getPublicKey(secretKey),
    relays: [relay],
    // 16 random bytes.
    secret: bytesToHex(generateSecretKey()).slice(0, 32),
    perms: PERMISSIONS,
    name: location.host,
    url: location.origin,
  });
  const options = {
    pool: openPool(signal),
    onauth: showApprovalLink,
    // With another value, the signer could choose further hosts to which the page connects.
    skipSwitchRelays: true,
  };
  const connection = BunkerSigner.fromURI(secretKey, uri, options, signal).catch(() => {
    throw new SignerError(`The connection to the relay ${relay} failed. Try again.`);
  });
  const connected = waitForSigner(SIGNER_NAME, connection, signal, INVITATION_TIMEOUT_MS);
  return { uri, connected: connected.then((bunker) => signUntilAborted(bunker, signal)) };
}

function openPool(signal: AbortSignal): SimplePool {
  const pool = new SignerPool({ enablePing: true, enableReconnect: true });
  // Phones suspend connections while the user is in the signer's app.
  document.addEventListener('visibilitychange', () => document.hidden || pool.queryAgain(), {
    signal,
  });
  // The other listeners of the signal close subscriptions, for which the library still needs the connections.
  signal.addEventListener('abort', () => setTimeout(() => pool.destroy(), 0));
  return pool;
}

/** Finds answers that were sent while it was not connected, if the relay keeps them for a few minutes. */
class SignerPool extends SimplePool {
  readonly #since = Math.floor(Date.now() / 1_000) - MAX_CLOCK_DIFFERENCE_SECONDS;

  override async ensureRelay(...args: Parameters<SimplePool['ensureRelay']>) {
    const relay = await super.ensureRelay(...args);
    relay.resubscribeBackoff = RECONNECT_PAUSES_MS;
    return relay;
  }

  override subscribe(...[relays, filter, params]: Parameters<SimplePool['subscribe']>) {
    // The library's limit of 0 excludes earlier events.
    const { limit: _limit, ...conditions } = filter;
    return super.subscribe(relays, { ...conditions, since: this.#since }, params);
  }

  queryAgain(): void {
    for (const { connected, openSubs } of this.relays.values()) {
      for (const subscription of connected ? openSubs.values() : []) {
        subscription.fire();
      }
    }
  }
}

/** Between the clocks of this device and of the signer. */
const MAX_CLOCK_DIFFERENCE_SECONDS = 300;

/** The library's own pauses start with ten seconds. The last one repeats. */
const RECONNECT_PAUSES_MS = [1_000, 2_000, 5_000, 10_000];

function signUntilAborted(bunker: BunkerSigner, signal: AbortSignal): SignEvent {
  signal.addEventListener('abort', () => void bunker.close());
  return (template) => waitForResponse(bunker.signEvent(template), signal);
}

function waitForResponse<Result>(response: Promise<Result>, signal: AbortSignal): Promise<Result> {
  const explainedResponse = response.catch((error: unknown) => {
    if (error instanceof AggregateError) {
      const reason = describeReason(error.errors[0]);
      throw new SignerError(`No relay of your signer accepted the request (${reason}).`);
    }
    throw error;
  });
  return waitForSigner(SIGNER_NAME, explainedResponse, signal).finally(() =>
    approvalDialog?.close(),
  );
}

let approvalDialog: HTMLDialogElement | null = null;

/** Shows a link to the signer's page on which the user has to approve a request (`auth_url` of NIP-46), until the response arrives. */
function showApprovalLink(url: string): void {
  if (!URL.canParse(url) || new URL(url).protocol !== 'https:') {
    return;
  }
  const link = Object.assign(document.createElement('a'), {
    textContent: `Open ${new URL(url).host}`,
    className: 'button',
    href: url,
    target: '_blank',
    rel: 'noopener noreferrer',
  });
  const button = document.createElement('button');
  button.textContent = 'Close';
  button.className = 'secondary';
  approvalDialog = showDialog('Your signer asks you to approve the request on its own page.', [
    link,
    button,
  ]);
}
