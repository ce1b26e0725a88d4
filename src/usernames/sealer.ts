import { hkdfSync } from 'node:crypto';
import { CompactEncrypt, compactDecrypt, decodeProtectedHeader } from 'jose';
import { OperatorError } from '../errors.ts';
import type { Proof } from '../mints/ecash.ts';
import { computeY, mapInSlices } from './ecash/proofs.ts';
import type { SealedProof } from './treasury-store.ts';

/**
 * Encrypts values that must not be readable in the database, as compact JWEs (`dir`, `A256GCM`). Each value is bound
 * to a context, such as the row that it belongs to, and cannot be opened for another context. The context is in the
 * header of the JWE, which is authenticated but not secret.
 */
export class Sealer {
  /** Identifies the key. Each sealed value contains it (`kid`), so that the operator sees which secret is needed. */
  readonly keyId: string;
  readonly #key: Uint8Array;

  /** @param secret at least 32 characters */
  constructor(secret: string) {
    this.#key = deriveKey(secret, 'nutpost sealing key', KEY_BYTES);
    this.keyId = deriveKey(secret, 'nutpost sealing key id', KEY_ID_BYTES).toString('hex');
  }

  /**
   * @param context not secret, such as the kind and the key of the row
   * @param value serialised as JSON
   */
  async seal(context: string, value: unknown): Promise<string> {
    return await new CompactEncrypt(Buffer.from(JSON.stringify(value)))
      .setProtectedHeader({ alg: ALGORITHM, enc: ENCRYPTION, kid: this.keyId, context })
      .encrypt(this.#key);
  }

  /**
   * @throws OperatorError if the value was sealed with another secret
   * @throws Error if the value was sealed for another context, or was changed
   */
  async open(context: string, sealed: string): Promise<unknown> {
    const keyId = readKeyId(sealed);
    if (keyId === null) {
      throw new Error('This is not a sealed text.');
    }
    if (keyId !== this.keyId) {
      throw new OperatorError(
        `TREASURY_SECRET: key ${this.keyId} does not open this ecash; it was sealed with key ${keyId}.`,
      );
    }
    const { plaintext, protectedHeader } = await compactDecrypt(sealed, this.#key, {
      keyManagementAlgorithms: [ALGORITHM],
      contentEncryptionAlgorithms: [ENCRYPTION],
    }).catch(() => {
      throw new Error('This sealed text was changed.');
    });
    if (protectedHeader['context'] !== context) {
      throw new Error(`This was not sealed for ${context}.`);
    }
    return JSON.parse(new TextDecoder().decode(plaintext));
  }
}

const ALGORITHM = 'dir';
const ENCRYPTION = 'A256GCM';
const KEY_BYTES = 32;

/** Long enough to distinguish the operator's keys. */
const KEY_ID_BYTES = 8;

/** Returns the id of the key that sealed a text; null if the text is not sealed. */
function readKeyId(sealed: string): string | null {
  try {
    const { kid } = decodeProtectedHeader(sealed);
    return typeof kid === 'string' ? kid : null;
  } catch {
    return null;
  }
}

/** Seals each proof for its own row of the treasury. */
export async function sealProofs(
  sealer: Sealer,
  mintUrl: string,
  proofs: readonly Proof[],
  expiresAtMs: number | null = null,
): Promise<SealedProof[]> {
  const ys = await mapInSlices(proofs, (proof) => ({ proof, y: computeY(proof) }));
  const sealProof = async ({ proof, y }: { proof: Proof; y: string }): Promise<SealedProof> => {
    const sealed = await sealer.seal(proofSealContext(y), proof);
    return { y, mintUrl, amountSat: proof.amount, expiresAtMs, sealed };
  };
  return await Promise.all(ys.map(sealProof));
}

export async function openProof(sealer: Sealer, { y, sealed }: Pick<SealedProof, 'y' | 'sealed'>) {
  return (await sealer.open(proofSealContext(y), sealed)) as Proof;
}

function proofSealContext(y: string): string {
  return `treasury proof ${y}`;
}

function deriveKey(secret: string, purpose: string, bytes: number): Buffer {
  return Buffer.from(hkdfSync('sha256', secret, '', purpose, bytes));
}
