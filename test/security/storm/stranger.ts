import { createHash, createHmac } from 'node:crypto';
import { getPublicKey, nip19 } from 'nostr-tools';
import { finalizeEvent, setNostrWasm } from 'nostr-tools/wasm';
import { initNostrWasm } from 'nostr-wasm';
import { request } from '../../helpers/wallet.ts';

/** NIP-98 allows a minute; what is older is signed anew, so that a queue may take its time. */
const SIGNATURE_LIFE_MS = 20_000;

/** A JWT is bound to it. */
export const USER_AGENT = 'stranger/1.0';

/** The unsigned part of a NIP-98 event, with whatever in it. */
export interface EventTemplate {
  kind: number;
  created_at: number;
  content: string;
  tags: string[][];
}

/** Signs faster than JavaScript could; call once, before any {@link Stranger} signs. */
export async function loadSigner(): Promise<void> {
  setNostrWasm(await initNostrWasm());
}

/** Somebody with a key of their own, who is somebody else with every seed. */
export class Stranger {
  readonly npub: string;
  readonly #secretKey: Uint8Array;
  readonly #origin: string;
  readonly #signed = new Map<string, { event: string; signedAt: number }>();
  #jwt: string | null = null;

  constructor(origin: string, name: string) {
    this.#origin = origin;
    this.#secretKey = createHash('sha256').update(`key of ${name}`).digest();
    this.npub = nip19.npubEncode(getPublicKey(this.#secretKey));
  }

  /** Fetches the token that {@link jwt} gives. */
  async signIn(): Promise<void> {
    const { body } = await request(this.#origin, '/api/v2/auth/nip98', {
      headers: {
        authorization: this.authorization('/api/v2/auth/nip98', 'GET'),
        'user-agent': USER_AGENT,
      },
    });
    this.#jwt = body.data.token;
  }

  /** Valid with {@link USER_AGENT}. */
  get jwt(): string {
    if (this.#jwt === null) {
      throw new Error('a stranger who has not signed in has no token');
    }
    return this.#jwt;
  }

  /** A right `Authorization` for a request. */
  authorization(pathname: string, method: string): string {
    return `Nostr ${base64(this.event(pathname, method))}`;
  }

  /** The JSON of a right event for a request; the same one for a while. */
  event(pathname: string, method: string): string {
    const name = `${method} ${pathname}`;
    const known = this.#signed.get(name);
    if (known !== undefined && Date.now() - known.signedAt < SIGNATURE_LIFE_MS) {
      return known.event;
    }
    const event = this.sign(this.template(pathname, method));
    this.#signed.set(name, { event, signedAt: Date.now() });
    return event;
  }

  /** What a right event for a request says. */
  template(pathname: string, method: string): EventTemplate {
    return {
      kind: 27_235,
      created_at: Math.floor(Date.now() / 1000),
      content: '',
      tags: [
        ['u', `${this.#origin}${pathname}`],
        ['method', method],
      ],
    };
  }

  /** The JSON of a signed event. */
  sign(template: EventTemplate): string {
    return JSON.stringify(finalizeEvent(template, this.#secretKey));
  }
}

export function base64(text: string): string {
  return Buffer.from(text).toString('base64');
}

/** A JWT of a stranger's own making. */
export function forgedJwt(header: object, claims: object, secret: string): string {
  const signed = [header, claims].map((part) =>
    Buffer.from(JSON.stringify(part)).toString('base64url'),
  );
  const signature = createHmac('sha256', secret).update(signed.join('.')).digest('base64url');
  return [...signed, signature].join('.');
}
