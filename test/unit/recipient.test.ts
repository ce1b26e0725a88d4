import { generateSecretKey, getPublicKey, nip19 } from 'nostr-tools';
import { describe, expect, it } from 'vitest';
import { lockingKey, parseRecipient } from '../../src/domain/recipient.ts';

/** The generator point's x coordinate. */
const PUBKEY = '79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798';
const NPUB = nip19.npubEncode(PUBKEY);

/** No point of the curve has these x coordinates; the last two are not below the field's size. */
const OFF_CURVE = [
  '5'.padStart(64, '0'),
  '0'.repeat(64),
  'fffffffffffffffffffffffffffffffffffffffffffffffffffffffefffffc2f',
  'f'.repeat(64),
];

describe('the name of a Lightning address', () => {
  it('names a key, in any case', () => {
    for (const text of [NPUB, NPUB.toUpperCase(), `Npub1${NPUB.slice(5)}`]) {
      expect(parseRecipient(text)).toEqual({ kind: 'pubkey', pubkey: PUBKEY });
    }
  });

  it('names a username, in lower case', () => {
    expect(parseRecipient('Alice7')).toEqual({ kind: 'name', name: 'alice7' });
    expect(parseRecipient('npub')).toEqual({ kind: 'name', name: 'npub' });
  });

  it.each([
    ['cut off', NPUB.slice(0, -1)],
    ['with a wrong letter', `${NPUB.slice(0, -1)}q`],
    ['nothing but its beginning', 'npub1'],
    ['too long', `npub1${'q'.repeat(10_000)}`],
    ...OFF_CURVE.map((pubkey) => [`no point: ${pubkey}`, nip19.npubEncode(pubkey)]),
  ])('that begins like an npub but is %s names nobody', (_case, text) => {
    expect(parseRecipient(text)).toEqual({ kind: 'invalid_npub' });
  });

  it.each([
    '',
    'al.ice',
    'alice@example.com',
    nip19.nprofileEncode({ pubkey: PUBKEY }),
    '../../etc/passwd',
  ])('that is %j names nobody that we could know', (text) => {
    expect(parseRecipient(text)).toEqual({ kind: 'unknown' });
  });

  it('that is a key in hex is no key: names are at most 64 letters and digits', () => {
    expect(parseRecipient(PUBKEY)).toEqual({ kind: 'name', name: PUBKEY });
  });
});

it('every key that somebody can sign with is named by its npub', () => {
  for (let count = 0; count < 20; count += 1) {
    const pubkey = getPublicKey(generateSecretKey());
    expect(parseRecipient(nip19.npubEncode(pubkey))).toEqual({ kind: 'pubkey', pubkey });
  }
});

it('a key locks a quote in its compressed form', () => {
  expect(lockingKey(PUBKEY)).toBe(`02${PUBKEY}`);
});
