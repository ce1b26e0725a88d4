import { describe, expect, it } from 'vitest';
import { keyIdOf, Sealer } from '../../src/ecash/seal.ts';

const SECRET = 'a treasury secret of more than 32 characters';
const VALUE = [{ secret: 'worth a lot', amount: 8 }];

describe('what is sealed', () => {
  const sealer = new Sealer(SECRET);

  it('is opened by every process that has the secret', async () => {
    const sealed = await sealer.seal('purchase 1', VALUE);

    const bytes = sealed.split('.').map((part) => Buffer.from(part, 'base64url').toString());
    expect(bytes.join()).toContain('purchase 1');
    expect(bytes.join()).not.toContain('worth a lot');
    expect(await new Sealer(SECRET).open('purchase 1', sealed)).toEqual(VALUE);
  });

  it('looks different each time', async () => {
    expect(await sealer.seal('a', VALUE)).not.toBe(await sealer.seal('a', VALUE));
  });

  it('does not open in another place', async () => {
    const sealed = await sealer.seal('purchase 1', VALUE);

    await expect(sealer.open('purchase 2', sealed)).rejects.toThrow(
      'This was not sealed for purchase 2.',
    );
  });

  it('does not open when its header was made to name another place', async () => {
    const [header = '', ...rest] = (await sealer.seal('purchase 1', VALUE)).split('.');
    const read = Buffer.from(header, 'base64url').toString();
    const forged = Buffer.from(read.replace('purchase 1', 'purchase 2')).toString('base64url');
    expect(forged).not.toBe(header);

    await expect(sealer.open('purchase 2', [forged, ...rest].join('.'))).rejects.toThrow(
      'This sealed text was changed.',
    );
  });

  it('does not open with another secret, and says which key it needs', async () => {
    const other = new Sealer(`${SECRET}!`);
    const sealed = await sealer.seal('a', VALUE);

    expect(other.keyId).not.toBe(sealer.keyId);
    await expect(other.open('a', sealed)).rejects.toThrow(
      `This was sealed with another key: ${sealer.keyId}, and not ${other.keyId}.`,
    );
  });

  it('does not open when it was changed', async () => {
    const parts = (await sealer.seal('a', VALUE)).split('.');
    const changed = parts.with(3, Buffer.from('something else').toString('base64url')).join('.');

    await expect(sealer.open('a', changed)).rejects.toThrow('This sealed text was changed.');
    await expect(sealer.open('a', parts.with(4, '').join('.'))).rejects.toThrow(
      'This sealed text was changed.',
    );
  });

  it('names its key', async () => {
    expect(keyIdOf(await sealer.seal('a', VALUE))).toBe(sealer.keyId);
    expect(sealer.keyId).toMatch(/^[0-9a-f]{16}$/);
  });

  it.each(['', 'cashuAabc', 'a.b.c.d.e', '{}'])('is not %j', async (text) => {
    expect(keyIdOf(text)).toBeNull();
    await expect(sealer.open('a', text)).rejects.toThrow('This is not a sealed text.');
  });
});
