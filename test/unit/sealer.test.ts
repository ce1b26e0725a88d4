import { expect, it } from 'vitest';
import { Sealer } from '../../src/usernames/ecash/sealer.ts';

const SECRET = 'a treasury secret of more than 32 characters';
const VALUE = [{ secret: 'worth a lot', amount: 8 }];

const sealer = new Sealer(SECRET);

it('seals a value that names its context and key and opens with the secret', async () => {
  const sealed = await sealer.seal('purchase 1', VALUE);
  const bytes = sealed.split('.').map((part) => Buffer.from(part, 'base64url').toString());
  expect(bytes.join()).toContain('purchase 1');
  expect(bytes.join()).not.toContain('worth a lot');
  expect(bytes.join()).toContain(sealer.keyId);
  expect(sealer.keyId).toMatch(/^[0-9a-f]{16}$/);
  expect(await new Sealer(SECRET).open('purchase 1', sealed)).toEqual(VALUE);
});

it('seals a value differently each time', async () => {
  expect(await sealer.seal('a', VALUE)).not.toBe(await sealer.seal('a', VALUE));
});

it('does not open a value for another context', async () => {
  const sealed = await sealer.seal('purchase 1', VALUE);
  const error = 'This was not sealed for purchase 2.';
  await expect(sealer.open('purchase 2', sealed)).rejects.toThrow(error);
});

it('does not open a value with another secret', async () => {
  const other = new Sealer(`${SECRET}!`);
  await expect(other.open('a', await sealer.seal('a', VALUE))).rejects.toThrow(
    `TREASURY_SECRET: key ${other.keyId} does not open this ecash; it was sealed with key ${sealer.keyId}.`,
  );
});

it.each<[string, string, (parts: string[]) => string[]]>([
  ['header', 'purchase 2', ([header = '', ...rest]) => [renamed(header), ...rest]],
  ['ciphertext', 'purchase 1', (parts) => parts.with(3, renamed(parts[0] ?? ''))],
  ['tag', 'purchase 1', (parts) => parts.with(4, '')],
])('does not open a value with a changed %s', async (_part, purpose, change) => {
  const sealed = await sealer.seal('purchase 1', VALUE);
  const changed = change(sealed.split('.')).join('.');
  await expect(sealer.open(purpose, changed)).rejects.toThrow('This sealed text was changed.');
});

it.each(['', 'cashuAabc', 'a.b.c.d.e', '{}'])('rejects the unsealed value %j', async (text) => {
  await expect(sealer.open('a', text)).rejects.toThrow('This is not a sealed text.');
});

function renamed(header: string): string {
  const text = Buffer.from(header, 'base64url').toString();
  return Buffer.from(text.replace('purchase 1', 'purchase 2')).toString('base64url');
}
