import { hkdfSync } from 'node:crypto';
import { CompactEncrypt, compactDecrypt, decodeProtectedHeader, errors } from 'jose';

const ALGORITHM = 'dir';
const ENCRYPTION = 'A256GCM';
const KEY_BYTES = 32;
/** Tells keys apart; says nothing about them. */
const KEY_ID_BYTES = 8;

/**
 * Encrypts what must not be read from the database. What is sealed is a compact JWE (`dir`, `A256GCM`),
 * bound to a context (which row it is for): put into another row, it does not open. The context stands
 * in its header, which the cipher vouches for and everybody can read.
 */
export class Sealer {
  /** Names the key in what it sealed (`kid`), so that an operator sees which secret is needed. */
  readonly keyId: string;
  readonly #key: Uint8Array;

  /** @param secret at least 32 characters */
  constructor(secret: string) {
    this.#key = derive(secret, 'nutpost sealing key', KEY_BYTES);
    this.keyId = Buffer.from(derive(secret, 'nutpost sealing key id', KEY_ID_BYTES)).toString(
      'hex',
    );
  }

  /**
   * Seals a value for one place.
   *
   * @param context not secret, such as the kind and key of the row
   * @param value anything that JSON can tell
   */
  async seal(context: string, value: unknown): Promise<string> {
    return await new CompactEncrypt(new TextEncoder().encode(JSON.stringify(value)))
      .setProtectedHeader({ alg: ALGORITHM, enc: ENCRYPTION, kid: this.keyId, context })
      .encrypt(this.#key);
  }

  /**
   * Opens what was sealed for this place with this key.
   *
   * @throws Error that says which of these was not so, or that the text was changed
   */
  async open(context: string, sealed: string): Promise<unknown> {
    const keyId = keyIdOf(sealed);
    if (keyId === null) {
      throw new Error('This is not a sealed text.');
    }
    if (keyId !== this.keyId) {
      throw new Error(`This was sealed with another key: ${keyId}, and not ${this.keyId}.`);
    }
    const { plaintext, protectedHeader } = await decrypted(sealed, this.#key);
    if (protectedHeader['context'] !== context) {
      throw new Error(`This was not sealed for ${context}.`);
    }
    return JSON.parse(new TextDecoder().decode(plaintext));
  }
}

/** Which key a text was sealed with; null where it is no sealed text. */
export function keyIdOf(sealed: string): string | null {
  try {
    const { kid } = decodeProtectedHeader(sealed);
    return typeof kid === 'string' ? kid : null;
  } catch (error) {
    if (error instanceof TypeError) {
      return null;
    }
    throw error;
  }
}

async function decrypted(sealed: string, key: Uint8Array) {
  try {
    return await compactDecrypt(sealed, key, {
      keyManagementAlgorithms: [ALGORITHM],
      contentEncryptionAlgorithms: [ENCRYPTION],
    });
  } catch (error) {
    if (error instanceof errors.JOSEError) {
      throw new Error('This sealed text was changed.');
    }
    throw error;
  }
}

function derive(secret: string, purpose: string, bytes: number): Uint8Array {
  return new Uint8Array(hkdfSync('sha256', secret, '', purpose, bytes));
}
