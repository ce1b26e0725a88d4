import { type Event, finalizeEvent, generateSecretKey, getPublicKey } from 'nostr-tools';
import { NostrConnect } from 'nostr-tools/kinds';
import { decrypt, encrypt, getConversationKey } from 'nostr-tools/nip44';
import { Relay } from 'nostr-tools/relay';
import { onTestFinished } from 'vitest';

/** A remote signer (NIP-46) that holds a user's key. Like a hosted bunker, it communicates with a key of its own. */
export class RemoteSigner {
  readonly calls: string[] = [];
  refuses = false;
  /** If not null, the signer asks the user to approve signatures on its web page, and waits for this. */
  approval: Promise<void> | null = null;
  readonly #relay: Relay;
  readonly #userKey: Uint8Array;
  readonly #ownKey = generateSecretKey();
  readonly #secret = 'bunker-secret';

  /** Connects a signer to a relay until the test ends. */
  static async start(relayUrl: string, userKey: Uint8Array): Promise<RemoteSigner> {
    const relay = await Relay.connect(relayUrl);
    onTestFinished(() => relay.close());
    const signer = new RemoteSigner(relay, userKey);
    await signer.#subscribe();
    return signer;
  }

  private constructor(relay: Relay, userKey: Uint8Array) {
    this.#relay = relay;
    this.#userKey = userKey;
  }

  /** The `bunker://` URL that the user copies from the signer. */
  get bunkerUrl(): string {
    const query = new URLSearchParams({ relay: this.#relay.url, secret: this.#secret });
    return `bunker://${getPublicKey(this.#ownKey)}?${query}`;
  }

  async acceptConnection(uri: string): Promise<void> {
    const { hostname: clientPubkey, searchParams } = new URL(uri);
    const secret = searchParams.get('secret');
    await this.#send(clientPubkey, { id: 'connection', result: secret });
  }

  #subscribe(): Promise<void> {
    return new Promise((resolve) => {
      this.#relay.subscribe([{ kinds: [NostrConnect], '#p': [getPublicKey(this.#ownKey)] }], {
        onevent: (event) => this.#handleEvent(event),
        oneose: resolve,
        onclose: (reason) => {
          if (reason.startsWith('auth-required:')) {
            void this.#authenticate().then(() => this.#subscribe().then(resolve));
          }
        },
      });
    });
  }

  #handleEvent({ pubkey, content }: Event): void {
    const json = decrypt(content, getConversationKey(this.#ownKey, pubkey));
    const { id, method, params } = JSON.parse(json);
    this.calls.push(method);
    // The relay confirms each event, unless the test ends first.
    this.#respond(pubkey, id, method, params).catch(() => undefined);
  }

  async #respond(pubkey: string, id: string, method: string, params: string[]): Promise<void> {
    if (this.approval !== null && method === 'sign_event') {
      await this.#send(pubkey, { id, result: 'auth_url', error: 'https://signer.example/approve' });
      await this.approval;
    }
    await this.#send(pubkey, { id, ...this.#answer(method, params) });
  }

  #answer(method: string, [first = '', secret]: string[]): object {
    switch (method) {
      case 'connect':
        return secret === this.#secret ? { result: 'ack' } : { error: 'wrong secret' };
      case 'sign_event':
        return this.refuses
          ? { error: 'the user refused' }
          : { result: JSON.stringify(finalizeEvent(JSON.parse(first), this.#userKey)) };
      default:
        return { error: `unknown method ${method}` };
    }
  }

  async #send(clientPubkey: string, message: object): Promise<void> {
    const conversationKey = getConversationKey(this.#ownKey, clientPubkey);
    const template = {
      kind: NostrConnect,
      created_at: Math.floor(Date.now() / 1000),
      tags: [['p', clientPubkey]],
      content: encrypt(JSON.stringify(message), conversationKey),
    };
    const event = finalizeEvent(template, this.#ownKey);
    await this.#relay.publish(event).catch(async () => {
      await this.#authenticate();
      await this.#relay.publish(event);
    });
  }

  /** NIP-42. */
  #authenticate(): Promise<string> {
    return this.#relay.auth(async (template) => finalizeEvent(template, this.#ownKey));
  }
}
