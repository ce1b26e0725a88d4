import { hkdfSync } from 'node:crypto';
import { CompactEncrypt, compactDecrypt, decodeProtectedHeader } from 'jose';
import { OperatorError } from './errors.ts';

/** Encrypts values as compact JWEs. Each is bound to a context, such as its row, and cannot be opened for another. */
export class Sealer {
  /** Identifies the secret. Part of each sealed value (`kid`), so that the operator sees which secret it needs. */
  readonly keyId: string;
  readonly #key: Uint8Array;

  constructor(secret: string) {
    this.#key = deriveKey(secret, 'nutpost sealing key', 32);
    this.keyId = deriveKey(secret, 'nutpost sealing key id', 8).toString('hex');
  }

  /** Derives another secret. @param purpose differs from those of other secrets */
  derive(purpose: string, bytes: number): Buffer {
    return deriveKey(this.#key, purpose, bytes);
  }

  async seal(context: string, value: unknown): Promise<string> {
    return await new CompactEncrypt(Buffer.from(JSON.stringify(value)))
      .setProtectedHeader({ alg: 'dir', enc: 'A256GCM', kid: this.keyId, context })
      .encrypt(this.#key);
  }

  /** @throws OperatorError if the value was sealed with another secret */
  async open(context: string, sealed: string): Promise<unknown> {
    const { kid } = decodeProtectedHeader(sealed);
    if (kid !== this.keyId) {
      throw new OperatorError(
        `TREASURY_SECRET: key ${this.keyId} does not open this value; it was sealed with key ${kid}.`,
      );
    }
    const { plaintext, protectedHeader } = await compactDecrypt(sealed, this.#key, {
      keyManagementAlgorithms: ['dir'],
      contentEncryptionAlgorithms: ['A256GCM'],
    });
    if (protectedHeader['context'] !== context) {
      throw new Error(`This was not sealed for ${context}.`);
    }
    return JSON.parse(new TextDecoder().decode(plaintext));
  }
}

/** Identifies a secret, so that an operator sees whether two are the same. */
export function fingerprint(secret: string): string {
  return deriveKey(secret, 'nutpost fingerprint', 8).toString('hex');
}

function deriveKey(secret: string | Uint8Array, purpose: string, bytes: number): Buffer {
  return Buffer.from(hkdfSync('sha256', secret, '', purpose, bytes));
}
