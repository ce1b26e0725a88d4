import { generateSecretKey, getPublicKey, nip19 } from 'nostr-tools';
import { expect, it } from 'vitest';
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

it.each<[string, ReturnType<typeof parseRecipient>]>([
  ...[NPUB, NPUB.toUpperCase(), `Npub1${NPUB.slice(5)}`].map(
    (text): [string, ReturnType<typeof parseRecipient>] => [
      text,
      { kind: 'pubkey', pubkey: PUBKEY },
    ],
  ),
  ['Alice7', { kind: 'name', name: 'alice7' }],
  ['npub', { kind: 'name', name: 'npub' }],
  // A key in hex is a valid name.
  [PUBKEY, { kind: 'name', name: PUBKEY }],
  ['', { kind: 'unknown' }],
  ['al.ice', { kind: 'unknown' }],
  ['alice@example.com', { kind: 'unknown' }],
  [nip19.nprofileEncode({ pubkey: PUBKEY }), { kind: 'unknown' }],
  ['../../etc/passwd', { kind: 'unknown' }],
])('parseRecipient(%j) is %j', (text, expected) => {
  expect(parseRecipient(text)).toEqual(expected);
});

it.each([
  ['a truncated npub', NPUB.slice(0, -1)],
  ['a mistyped npub', `${NPUB.slice(0, -1)}q`],
  ['a prefix', 'npub1'],
  ['a long npub', `npub1${'q'.repeat(10_000)}`],
  ...OFF_CURVE.map((pubkey) => [`a key off the curve: ${pubkey}`, nip19.npubEncode(pubkey)]),
])('parseRecipient rejects %s', (_case, text) => {
  expect(parseRecipient(text)).toEqual({ kind: 'invalid_npub' });
});

it('parseRecipient accepts every key that can sign', () => {
  for (let count = 0; count < 20; count += 1) {
    const pubkey = getPublicKey(generateSecretKey());
    expect(parseRecipient(nip19.npubEncode(pubkey))).toEqual({ kind: 'pubkey', pubkey });
  }
});

it('lockingKey is the compressed key', () => {
  expect(lockingKey(PUBKEY)).toBe(`02${PUBKEY}`);
});
