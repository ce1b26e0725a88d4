import { createECDH } from 'node:crypto';
import type { Sealer } from '../sealer.ts';

/** Identify this service to push services (RFC 8292). Both are base64url. */
export interface VapidKeys {
  publicKey: string;
  privateKey: string;
}

/** The order of P-256. */
const ORDER = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n;

/** Derives the keys from TREASURY_SECRET, so that all processes have the same ones, and a restart does not change them. */
export function deriveVapidKeys(sealer: Sealer): VapidKeys {
  // 128 bits more than the order has, so that the remainder is not biased (FIPS 186-5, A.2.1).
  const random = BigInt(`0x${sealer.derive('nutpost VAPID key', 48).toString('hex')}`);
  const scalar = (random % (ORDER - 1n)) + 1n;
  const privateKey = Buffer.from(scalar.toString(16).padStart(64, '0'), 'hex');
  const curve = createECDH('prime256v1');
  curve.setPrivateKey(privateKey);
  return {
    publicKey: curve.getPublicKey('base64url'),
    privateKey: privateKey.toString('base64url'),
  };
}
