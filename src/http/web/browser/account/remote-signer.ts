import { HTTPAuth } from 'nostr-tools/kinds';
import { type BunkerPointer, BunkerSigner, createNostrConnectURI } from 'nostr-tools/nip46';
import { SimplePool } from 'nostr-tools/pool';
import {
  type EventTemplate,
  finalizeEvent,
  generateSecretKey,
  getPublicKey,
  type VerifiedEvent,
} from 'nostr-tools/pure';
import { bytesToHex, hexToBytes } from 'nostr-tools/utils';
import { showDialog } from '../common.ts';
import { t } from '../translator.ts';
import { type Pairing, pairingStore } from './browser-storage.ts';
import { describeReason, type Signer, SignerError, waitForSigner } from './signer.ts';

// Remote signers (NIP-46). Each pairing has a key of its own, which stays in memory unless the user wants to keep it.

/** The page only asks for signatures of NIP-98 events. */
const PERMISSIONS = [`sign_event:${HTTPAuth}`];

/** Long enough to find a phone and to scan the QR code. */
const INVITATION_TIMEOUT_MS = 5 * 60_000;

type SignEvent = Signer['signEvent'];

export async function connectToBunker(
  pointer: BunkerPointer,
  signal: AbortSignal,
  isRemembered: boolean,
): Promise<SignEvent> {
  const secretKey = generateSecretKey();
  const bunker = openBunker(pointer, secretKey, signal);
  const signEvent = signUntilAborted(bunker, signal);
  const params = [pointer.pubkey, pointer.secret ?? '', PERMISSIONS.join(',')];
  await waitForResponse(bunker.sendRequest('connect', params), signal);
  if (isRemembered) {
    remember(secretKey, pointer);
  }
  return signEvent;
}

/** The secret of the pairing is not needed again. */
function remember(secretKey: Uint8Array, { pubkey, relays }: BunkerPointer): void {
  pairingStore.save({
    secretKey: bytesToHex(secretKey),
    pointer: { pubkey, relays, secret: null },
  });
}

/** Uses a pairing again. The signer need not confirm it. */
export function reconnect({ secretKey, pointer }: Pairing, signal: AbortSignal): SignEvent {
  return signUntilAborted(openBunker(pointer, hexToBytes(secretKey), signal), signal);
}

function openBunker(
  pointer: BunkerPointer,
  secretKey: Uint8Array,
  signal: AbortSignal,
): BunkerSigner {
  const options = { pool: openPool(secretKey, signal), onauth: showApprovalLink };
  try {
    return BunkerSigner.fromBunker(secretKey, pointer, options);
  } catch {
    throw new SignerError(t('account.invalidSignerKey'));
  }
}

/** Creates a `nostrconnect://` address. `connected` resolves when the signer has proved that it received the address. */
export function inviteSigner(
  relay: string,
  signal: AbortSignal,
  isRemembered: boolean,
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
    pool: openPool(secretKey, signal),
    onauth: showApprovalLink,
    // With another value, the signer could choose further hosts to which the page connects.
    skipSwitchRelays: true,
  };
  const connection = BunkerSigner.fromURI(secretKey, uri, options, signal).catch(() => {
    throw new SignerError(t('account.relayFailed', { relay }));
  });
  const connected = waitForSigner('signer', connection, signal, INVITATION_TIMEOUT_MS);
  const finish = (bunker: BunkerSigner) => {
    if (isRemembered) {
      remember(secretKey, bunker.bp);
    }
    return signUntilAborted(bunker, signal);
  };
  return { uri, connected: connected.then(finish) };
}

function openPool(secretKey: Uint8Array, signal: AbortSignal): SimplePool {
  const pool = new SignerPool(secretKey, signal);
  // Phones suspend connections while the user is in the signer's app.
  document.addEventListener('visibilitychange', () => document.hidden || pool.queryAgain(), {
    signal,
  });
  signal.addEventListener('abort', () => pool.destroy());
  return pool;
}

/** Finds answers that were sent while it was not connected, if the relay keeps them for a few minutes. */
class SignerPool extends SimplePool {
  readonly #since = Math.floor(Date.now() / 1_000) - MAX_CLOCK_DIFFERENCE_SECONDS;
  readonly #signal: AbortSignal;
  /** Signs what relays demand that authenticate their users (NIP-42). */
  readonly #onauth: (template: EventTemplate) => Promise<VerifiedEvent>;

  constructor(secretKey: Uint8Array, signal: AbortSignal) {
    super({ enablePing: true, enableReconnect: true });
    this.#signal = signal;
    this.#onauth = async (template) => finalizeEvent(template, secretKey);
  }

  override async ensureRelay(...args: Parameters<SimplePool['ensureRelay']>) {
    const relay = await super.ensureRelay(...args);
    relay.resubscribeBackoff = RECONNECT_PAUSES_MS;
    return relay;
  }

  override subscribe(...[relays, filter, params]: Parameters<SimplePool['subscribe']>) {
    // The library's limit of 0 excludes earlier events.
    const { limit: _limit, ...conditions } = filter;
    const newFilter = { ...conditions, since: this.#since };
    const onclose: typeof params.onclose = (closes) => {
      // After a reconnection, the relay demands authentication again.
      const isRefused = closes.some(({ reason }) => reason.startsWith('auth-required:'));
      if (isRefused && !this.#signal.aborted) {
        const subscribeAgain = () => this.#signal.aborted || this.subscribe(relays, filter, params);
        setTimeout(subscribeAgain, RECONNECT_PAUSES_MS[0]);
      } else {
        params.onclose?.(closes);
      }
    };
    // With a signal, the library would lose connections that it is opening.
    const { abort: _abort, ...others } = params;
    const options = { ...others, onauth: this.#onauth, onclose };
    return super.subscribe(relays, newFilter, options);
  }

  override publish(...[relays, event]: Parameters<SimplePool['publish']>) {
    return super.publish(relays, event, { onauth: this.#onauth });
  }

  override destroy(): void {
    for (const { openSubs } of this.relays.values()) {
      openSubs.forEach((subscription) => void subscription.close());
    }
    // The library needs the connections until it has sent that subscriptions are closed.
    setTimeout(() => super.destroy(), 0);
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
      throw new SignerError(t('account.noRelayAccepted', { reason }));
    }
    throw error;
  });
  return waitForSigner('signer', explainedResponse, signal).finally(() => approvalDialog?.close());
}

let approvalDialog: HTMLDialogElement | null = null;

/** Shows a link to the signer's page on which the user has to approve a request (`auth_url` of NIP-46), until the response arrives. */
function showApprovalLink(url: string): void {
  if (!URL.canParse(url) || new URL(url).protocol !== 'https:') {
    return;
  }
  const link = Object.assign(document.createElement('a'), {
    textContent: t('account.openHost', { host: new URL(url).host }),
    className: 'button',
    href: url,
    target: '_blank',
    rel: 'noopener noreferrer',
  });
  const button = document.createElement('button');
  button.textContent = t('account.close');
  button.className = 'secondary';
  approvalDialog = showDialog(t('account.approveElsewhere'), [link, button]);
}
