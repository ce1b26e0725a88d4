import { expect, it } from 'vitest';
import { Sealer } from '../../../src/usernames/sealer.ts';

const SECRET = 'a treasury secret of more than 32 characters';
const PROOFS = [{ secret: 'worth a lot', amount: 8 }];

const sealer = new Sealer(SECRET);

it('seals a value that shows its context and key id and opens with the same secret', async () => {
  const sealed = await sealer.seal('purchase 1', PROOFS);
  const decodedParts = sealed.split('.').map((part) => Buffer.from(part, 'base64url').toString());
  expect(decodedParts.join()).toContain('purchase 1');
  expect(decodedParts.join()).not.toContain('worth a lot');
  expect(decodedParts.join()).toContain(sealer.keyId);
  expect(sealer.keyId).toMatch(/^[0-9a-f]{16}$/);
  expect(await new Sealer(SECRET).open('purchase 1', sealed)).toEqual(PROOFS);
});

it('does not open a value that was sealed for another context', async () => {
  const sealed = await sealer.seal('purchase 1', PROOFS);
  const error = 'This was not sealed for purchase 2.';
  await expect(sealer.open('purchase 2', sealed)).rejects.toThrow(error);
});

it('does not open a value that was sealed with another secret', async () => {
  const otherSealer = new Sealer(`${SECRET}!`);
  await expect(otherSealer.open('a', await sealer.seal('a', PROOFS))).rejects.toThrow(
    `TREASURY_SECRET: key ${otherSealer.keyId} does not open this ecash; it was sealed with key ${sealer.keyId}.`,
  );
});

it('does not open a value with a changed header', async () => {
  const [header = '', ...rest] = (await sealer.seal('purchase 1', PROOFS)).split('.');
  const tampered = [renamePurchase(header), ...rest].join('.');
  await expect(sealer.open('purchase 2', tampered)).rejects.toThrow(
    'This sealed text was changed.',
  );
});

it.each(['', 'cashuAabc', 'a.b.c.d.e', '{}'])('rejects the unsealed value %j', async (text) => {
  await expect(sealer.open('a', text)).rejects.toThrow('This is not a sealed text.');
});

function renamePurchase(header: string): string {
  const text = Buffer.from(header, 'base64url').toString();
  return Buffer.from(text.replace('purchase 1', 'purchase 2')).toString('base64url');
}
