import { expect, it } from 'vitest';
import { Sealer } from '../../src/sealer.ts';

const SECRET = 'a treasury secret of more than 32 characters';
const PROOFS = [{ secret: 'worth a lot', amount: 8 }];

const sealer = new Sealer(SECRET);

it('seals a value that shows its context and key id and opens with the same secret', async () => {
  const sealed = await sealer.seal('purchase 1', PROOFS);
  const decoded = sealed.split('.').map((part) => Buffer.from(part, 'base64url').toString());
  expect(decoded.join()).toContain('purchase 1');
  expect(decoded.join()).not.toContain('worth a lot');
  expect(decoded.join()).toContain(sealer.keyId);
  expect(await new Sealer(SECRET).open('purchase 1', sealed)).toEqual(PROOFS);
});

it('opens a value neither for another context, nor with another secret, nor with a changed header', async () => {
  const sealed = await sealer.seal('purchase 1', PROOFS);
  await expect(sealer.open('purchase 2', sealed)).rejects.toThrow('not sealed for purchase 2');
  const otherSealer = new Sealer(`${SECRET}!`);
  await expect(otherSealer.open('purchase 1', sealed)).rejects.toThrow(
    `TREASURY_SECRET: key ${otherSealer.keyId} does not open this value; it was sealed with key ${sealer.keyId}.`,
  );
  const [header = '', ...rest] = sealed.split('.');
  const renamed = Buffer.from(header, 'base64url').toString().replace('purchase 1', 'purchase 2');
  const tampered = [Buffer.from(renamed).toString('base64url'), ...rest].join('.');
  await expect(sealer.open('purchase 2', tampered)).rejects.toThrow();
});
