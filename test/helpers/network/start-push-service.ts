import { createDecipheriv, createECDH, hkdfSync, randomBytes } from 'node:crypto';
import { createServer } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { importJWK, jwtVerify } from 'jose';
import { onTestFinished } from 'vitest';
import { AsyncQueue } from '../async-queue.ts';
import { listenOnLoopback } from './loopback-server.ts';

export interface PushedMessage {
  path: string;
  headers: Record<string, string>;
  body: Buffer;
}

type Answer = { status: number; headers?: Record<string, string> };

/** A push service that queues the messages it receives. `answer` decides its response to each. */
export async function startPushService(answer: () => Answer = () => ({ status: 201 })) {
  const messages = new AsyncQueue<PushedMessage>();
  const server = createServer((request, response) => {
    void buffer(request).then((body) => {
      const { status, headers = {} } = answer();
      response.writeHead(status, headers).end();
      const { url: path = '', headers: received } = request;
      messages.push({ path, headers: received as Record<string, string>, body });
    });
  });
  const { url, close } = await listenOnLoopback(server);
  onTestFinished(close);
  return { url, messages };
}

/** A browser that has subscribed. Decrypts as RFC 8291 defines it, without the library that the service uses. */
export class SubscribedBrowser {
  readonly #curve = createECDH('prime256v1');
  readonly #auth = randomBytes(16);
  readonly subscription: { endpoint: string; keys: { p256dh: string; auth: string } };

  constructor(endpoint: string) {
    this.#curve.generateKeys();
    const keys = {
      p256dh: this.#curve.getPublicKey('base64url'),
      auth: this.#auth.toString('base64url'),
    };
    this.subscription = { endpoint, keys };
  }

  decrypt({ body }: PushedMessage): Record<'id' | 'tag' | 'title' | 'text' | 'url', string> {
    const [salt, serverKey] = [body.subarray(0, 16), body.subarray(21, 21 + (body[20] ?? 0))];
    const keyInfo = Buffer.concat([
      Buffer.from('WebPush: info\0'),
      this.#curve.getPublicKey(),
      serverKey,
    ]);
    const secret = derive(this.#curve.computeSecret(serverKey), this.#auth, keyInfo, 32);
    const key = derive(secret, salt, Buffer.from('Content-Encoding: aes128gcm\0'), 16);
    const nonce = derive(secret, salt, Buffer.from('Content-Encoding: nonce\0'), 12);
    const decipher = createDecipheriv('aes-128-gcm', key, nonce);
    decipher.setAuthTag(body.subarray(-16));
    const encrypted = body.subarray(21 + serverKey.length, -16);
    const padded = Buffer.concat([decipher.update(encrypted), decipher.final()]);
    return JSON.parse(padded.subarray(0, padded.lastIndexOf(2)).toString());
  }
}

/** Verifies, as a push service does, that the owner of the key sent a message (RFC 8292). @returns the claims */
export async function verifySender(
  { headers }: PushedMessage,
  { publicKey, audience }: { publicKey: string; audience: string },
) {
  const [, token = '', key] = /^vapid t=(\S+), k=(\S+)$/.exec(headers['authorization'] ?? '') ?? [];
  if (key !== publicKey) {
    throw new Error(`the message was sent with the key ${key}`);
  }
  const point = Buffer.from(publicKey, 'base64url');
  const [x, y] = [point.subarray(1, 33), point.subarray(33)].map((part) =>
    part.toString('base64url'),
  ) as [string, string];
  const jwk = await importJWK({ kty: 'EC', crv: 'P-256', x, y }, 'ES256');
  return (await jwtVerify(token, jwk, { audience })).payload;
}

function derive(secret: Buffer, salt: Buffer, info: Buffer, bytes: number): Buffer {
  return Buffer.from(hkdfSync('sha256', secret, salt, info, bytes));
}
