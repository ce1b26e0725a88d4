import {
  createHTLCHash,
  createHTLCsecret,
  createP2PKsecret,
  createSecret,
  getDecodedToken,
  getEncodedToken,
  getPubKeyFromPrivKey,
  normalizeProofAmounts,
  schnorrSignMessage,
} from '@cashu/cashu-ts';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Keyset, Proof } from '../../src/domain/ecash.ts';
import { deriveOutputs, planOutputs } from '../../src/ecash/outputs.ts';
import { encodeToken, MAX_TOKEN_PROOFS, readToken } from '../../src/ecash/token.ts';
import { SigningKeyset } from '../helpers/signing-keyset.ts';

const MINT = 'https://mint.example';
const NOW = 1_800_000_000;

const newMint = new SigningKeyset();
const oldMint = new SigningKeyset({ version: 0 });
const inactive: Keyset = { ...new SigningKeyset().keyset, active: false };
const usd: Keyset = { ...new SigningKeyset().keyset, unit: 'usd' };
const KEYSETS = [newMint.keyset, oldMint.keyset, inactive, usd];

const PROOF = newMint.proof(8, 'a secret');
const OLD_PROOF = oldMint.proof(2, 'an old secret');

describe('a token', () => {
  const anyProofs = fc.subarray(
    [PROOF, OLD_PROOF, bare(newMint.proof(1, 'bare')), bare(oldMint.proof(4, 'old and bare'))],
    { minLength: 1 },
  );
  const anyWriting = fc.record({
    alphabet: fc.constantFrom<BufferEncoding[]>('base64', 'base64url'),
    isPadded: fc.boolean(),
    prefix: fc.constantFrom('', 'cashu:', 'cashu://', ' '),
  });

  it('is read however wallets write it', () => {
    fc.assert(
      fc.property(anyProofs, anyWriting, fc.constantFrom('A', 'B'), (proofs, writing, version) => {
        const token = version === 'A' ? tokenA({ proofs }) : tokenB({ proofs });

        expect(read(written(token, writing))).toEqual({
          outcome: 'read',
          proofs: expect.toSatisfy((found: Proof[]) => isSame(found, proofs)),
          faceValueSat: proofs.reduce((sum, { amount }) => sum + amount, 0),
        });
      }),
    );
  });

  it('has short ids of new keysets, and is read with the full ones', () => {
    const short = PROOF.id.slice(0, 16);
    expect(Buffer.from(body(tokenB({})), 'base64url').toString('hex')).toContain(short);
    expect(Buffer.from(body(tokenB({})), 'base64url').toString('hex')).not.toContain(PROOF.id);

    expect(readIds(tokenB({}))).toEqual([PROOF.id]);
    expect(readIds(tokenA({ proofs: [{ ...PROOF, id: short }] }))).toEqual([PROOF.id]);
    expect(readIds(tokenA({ proofs: [{ ...PROOF, id: short.toUpperCase() }] }))).toEqual([
      PROOF.id,
    ]);
  });

  it.each(['https://mint.example/', 'HTTPS://Mint.Example', 'https://mint.example:443//'])(
    'of our mint written as %s is of our mint',
    (mint) => {
      expect(read(tokenA({ mint }))).toMatchObject({ outcome: 'read' });
      expect(read(tokenB({ mint }))).toMatchObject({ outcome: 'read' });
    },
  );

  it.each([
    ['without a unit is in sat', json({ token: [{ mint: MINT, proofs: [PROOF] }] })],
    [
      'in two parts of one mint is read whole',
      json({
        token: [
          { mint: MINT, proofs: [] },
          { mint: `${MINT}/`, proofs: [PROOF] },
        ],
      }),
    ],
    [
      'with amounts as text, as cashu-ts makes JSON of them, is read',
      tokenA({
        proofs: [{ ...PROOF, amount: '8' }],
      }),
    ],
    ['with empty fields is read', tokenA({ proofs: [{ ...PROOF, witness: null }] })],
  ])('of the first version %s', (_case, token) => {
    expect(read(token)).toEqual({ outcome: 'read', proofs: [PROOF], faceValueSat: 8 });
  });

  it('of a keyset that the mint signs with no more is read', () => {
    expect(read(tokenA({ proofs: [{ ...PROOF, id: inactive.id }] }))).toMatchObject({
      outcome: 'read',
    });
  });

  it.each([5, '', 'signed', { signatures: 'mine' }, '['.repeat(40_000)])(
    'is read without a witness that says nothing: %.20j',
    (witness) => {
      expect(read(tokenA({ proofs: [{ ...PROOF, witness }] }))).toEqual({
        outcome: 'read',
        proofs: [PROOF],
        faceValueSat: 8,
      });
    },
  );

  it('of 20 KB is read', () => {
    const proofs = Array.from({ length: 150 }, (_, index) =>
      bare(newMint.proof(1, index.toString(16).padStart(64, '0'))),
    );
    const token = tokenB({ proofs });

    expect(token.length).toBeGreaterThan(20_000);
    expect(read(token)).toMatchObject({ outcome: 'read', faceValueSat: 150 });
  });
});

describe('a token that is refused says why', () => {
  const twins = ['0', '1'].map((end) => ({
    ...newMint.keyset,
    id: `01${'ab'.repeat(7)}${'0'.repeat(49)}${end}`,
  }));

  it.each<[string, string]>([
    ['of another mint', tokenB({ mint: 'https://other.example' })],
    ['of another mint', tokenB({ mint: 'http://mint.example' })],
    ['of another mint', tokenA({ mint: 'mint.example' })],
    [
      'of another mint',
      json({
        token: [
          { mint: MINT, proofs: [OLD_PROOF] },
          { mint: 'https://other.example', proofs: [PROOF] },
        ],
        unit: 'sat',
      }),
    ],
    ['not in sat', tokenB({ unit: 'usd' })],
    ['not in sat', tokenA({ unit: 'SAT' })],
    ['not in sat', tokenA({ proofs: [{ ...PROOF, id: usd.id }] })],
    ['no ecash', tokenA({ proofs: [] })],
    ['no ecash', json({ token: [] })],
    ['does not say clearly', tokenA({ proofs: [{ ...PROOF, id: `01${'ab'.repeat(7)}` }] })],
    ['same proof', tokenA({ proofs: [PROOF, PROOF] })],
    ['same proof', tokenA({ proofs: [PROOF, { ...OLD_PROOF, secret: PROOF.secret }] })],
    [
      `has ${MAX_TOKEN_PROOFS + 1} proofs`,
      tokenA({ proofs: Array(MAX_TOKEN_PROOFS + 1).fill(PROOF) }),
    ],
    ...[
      0,
      -8,
      0.5,
      2 ** 53,
      Number.MAX_VALUE,
      null,
      true,
      [8],
      {},
      '-8',
      '8.0',
      ' 8',
      '',
      '0x8',
    ].map((amount): [string, string] => ['an amount', tokenA({ proofs: [{ ...PROOF, amount }] })]),
    ['an amount', tokenB({ proofs: [{ ...PROOF, amount: 2n ** 63n }] })],
    ['an amount', tokenB({ proofs: [{ ...PROOF, amount: 0 }] })],
    [
      'an amount',
      tokenA({
        proofs: [
          { ...PROOF, amount: 2 ** 53 - 1 },
          { ...OLD_PROOF, amount: 1 },
        ],
      }),
    ],
    ...[
      { C: `02${'f'.repeat(64)}` },
      { C: PROOF.C.slice(2) },
      { C: `04${PROOF.C.slice(2)}` },
      { C: null },
      { secret: '' },
      { secret: '\ud800' },
      { secret: 5 },
      { id: 5 },
      { id: undefined },
      { dleq: { e: PROOF.dleq.e, s: PROOF.dleq.s } },
      { dleq: 'yes' },
    ].map((change): [string, string] => [
      'cannot be read',
      tokenA({ proofs: [{ ...PROOF, ...change }] }),
    ]),
    ['cannot be read', tokenA({ proofs: [null] })],
    ['cannot be read', json(null)],
    ['cannot be read', json({ token: { length: 1 } })],
    ['not a Cashu token', ''],
    ['not a Cashu token', 'cashuA'],
    ['not a Cashu token', `cashuC${body(tokenB({}))}`],
    ['not a Cashu token', `creqA${body(tokenB({}))}`],
    ['not a Cashu token', `${tokenB({})}, ${tokenB({})}`],
    ['not a Cashu token', `${tokenB({})}%00`],
  ])('%s', (reason, token) => {
    expect(read(token, [...KEYSETS, ...twins])).toEqual({
      outcome: 'refused',
      reason: expect.stringContaining(reason),
    });
  });

  it.each([
    `01${'0'.repeat(14)}`,
    PROOF.id.slice(0, 14),
    PROOF.id.slice(0, 18),
    OLD_PROOF.id.slice(0, 14),
    '',
    '__proto__',
    'I2yN+iRYfkzT',
  ])('a keyset that is not known, by the id %j', (id) => {
    expect(read(tokenA({ proofs: [{ ...PROOF, id }] }))).toEqual({
      outcome: 'unknown_keyset',
      reason: expect.stringContaining('keyset'),
    });
  });
});

describe('a locked proof', () => {
  const [ours, theirs] = ['1', '2'].map((digit) => {
    const secret = digit.repeat(64);
    const pubkey = Buffer.from(getPubKeyFromPrivKey(Buffer.from(secret, 'hex'))).toString('hex');
    return { pubkey, sign: (text: string) => schnorrSignMessage(text, secret) };
  }) as [Signer, Signer];
  const { hash, preimage } = createHTLCHash('ab'.repeat(32));
  const past = ['locktime', `${NOW - 1}`];
  const future = ['locktime', `${NOW}`];
  const refund = ['refund', theirs.pubkey];
  const p2pk = (...tags: string[][]) => createP2PKsecret(ours.pubkey, tags);
  const htlc = (...tags: string[][]) => createHTLCsecret(hash, tags);
  const both = ['pubkeys', theirs.pubkey];

  it.each<[string, string, (secret: string) => object | undefined]>([
    ['whose lock has run out', p2pk(past), none],
    ['whose lock by a hash has run out', htlc(past), none],
    ['whose lock over all has run out', p2pk(past, ['sigflag', 'SIG_ALL']), none],
    ['that is signed already', p2pk(), signedBy(ours)],
    ['that is signed before the lock runs out', p2pk(future, refund), signedBy(ours)],
    ['that enough have signed', p2pk(both, ['n_sigs', '2']), signedBy(theirs, ours)],
    ['that one of several has signed', p2pk(both), signedBy(theirs)],
    ['that is signed by who may take it back', p2pk(past, refund), signedBy(theirs)],
    ['with the preimage', htlc(), () => ({ preimage })],
    [
      'with the preimage and signed',
      htlc(['pubkeys', ours.pubkey]),
      (secret) => ({
        preimage,
        ...signedBy(ours)(secret),
      }),
    ],
  ])('%s is read, with what unlocks it', (_case, secret, witnessOf) => {
    const witness = witnessOf(secret);
    const text = witness && JSON.stringify(witness);
    const proof = { ...bare(newMint.proof(8, secret)), ...(witness && { witness: text }) };

    // The witness as cashu-ts writes it (JSON of the object), as mints take it, and JSON of that.
    const written = [
      tokenA({ proofs: [{ ...proof, witness }] }),
      tokenA({ proofs: [proof] }),
      tokenB({ proofs: [{ ...proof, witness }] }),
      tokenB({ proofs: [proof] }),
    ];
    for (const token of written) {
      expect(read(token)).toEqual({ outcome: 'read', proofs: [proof], faceValueSat: 8 });
    }
  });

  it.each<[string, string, (secret: string) => object | undefined]>([
    ['to a key', p2pk(), none],
    ['to a key for now', p2pk(future), none],
    ['whose lock has run out, so that somebody may take it back', p2pk(past, refund), none],
    ['that another has signed', p2pk(), signedBy(theirs)],
    ['that is signed for another secret', p2pk(), () => signedBy(ours)('another')],
    ['that not enough have signed', p2pk(both, ['n_sigs', '2']), signedBy(ours)],
    ['that one has signed twice', p2pk(both, ['n_sigs', '2']), signedBy(ours, ours)],
    ['that demands no signature', p2pk(['n_sigs', '0']), none],
    ['that may be taken back, but not yet', p2pk(future, refund), signedBy(theirs)],
    ['that is to be signed with all outputs', p2pk(['sigflag', 'SIG_ALL']), signedBy(ours)],
    ['with two locktimes', JSON.stringify(twoLocktimes(p2pk())), none],
    ['with a locktime that is none', p2pk(['locktime', '1e3']), none],
    ['to a hash', htlc(), none],
    ['to a hash, with another preimage', htlc(), () => ({ preimage: 'cd'.repeat(32) })],
    [
      'to a hash and a key, with the preimage',
      htlc(['pubkeys', ours.pubkey]),
      () => ({ preimage }),
    ],
    ['by a condition that is not known', createSecret('TIMELOCK', ours.pubkey), signedBy(ours)],
    ['by a condition that is not well-formed', '["P2PK",{"data":5}]', none],
    ['by a list of nothing', '[]', none],
  ])('%s is refused', (_case, secret, witnessOf) => {
    const witness = witnessOf(secret);
    const proof = { ...bare(newMint.proof(8, secret)), ...(witness && { witness }) };

    expect(read(tokenA({ proofs: [PROOF, proof] }))).toEqual({
      outcome: 'refused',
      reason: 'The token is locked: it cannot be spent here.',
    });
  });

  it('with more signatures than is sane is refused at once', () => {
    const keys = Array.from({ length: 10 }, (_, index) => `02${`${index}`.repeat(64)}`);
    const secret = p2pk(['pubkeys', ...keys]);
    const signatures = Array(10).fill('1'.repeat(128));
    const proof = { ...bare(newMint.proof(8, secret)), witness: { signatures } };

    expect(read(tokenA({ proofs: [proof] }))).toEqual({
      outcome: 'refused',
      reason: expect.stringContaining('too many signatures'),
    });
  });
});

describe('whatever is given for a token', () => {
  const KB_60 = 60 * 1024;
  const valid = [tokenA({}), tokenB({})];

  it('is refused when any of its end is missing', () => {
    for (const token of valid) {
      // The last characters may be no more than the close of base64 or JSON.
      for (let length = 0; length < token.length - 1; length += 1) {
        const reading = read(token.slice(0, length));
        expect(reading.outcome, token.slice(0, length)).toBe('refused');
      }
    }
  });

  it('is never believed where a byte is another, and never breaks anything', () => {
    const flip = fc.tuple(fc.constantFrom(...valid), fc.nat(), fc.integer({ min: 1, max: 255 }));
    fc.assert(
      fc.property(flip, ([token, at, change]) => {
        const bytes = Buffer.from(body(token), 'base64url');
        const index = at % bytes.length;
        bytes[index] = (bytes[index] ?? 0) ^ change;
        const reading = read(token.slice(0, 6) + bytes.toString('base64url'));
        expect(['read', 'refused', 'unknown_keyset']).toContain(reading.outcome);
      }),
      { numRuns: 2000 },
    );
  });

  it('is refused where it is noise', () => {
    fc.assert(
      fc.property(
        fc.constantFrom('A', 'B'),
        fc.uint8Array({ maxLength: 200 }),
        (version, bytes) => {
          const text = `cashu${version}${Buffer.from(bytes).toString('base64')}`;
          expect(read(text).outcome).toBe('refused');
        },
      ),
      { numRuns: 2000 },
    );
  });

  it.each<[string, string]>([
    ['60 KB of one letter', `cashuA${'A'.repeat(KB_60)}`],
    ['60 KB of one letter, as CBOR', `cashuB${'A'.repeat(KB_60)}`],
    ['60 KB of no token', 'x'.repeat(KB_60)],
    ['60 KB of padding', `cashuB${'A='.repeat(KB_60 / 2)}`],
    ['deep JSON', cashu('A', '['.repeat(45_000))],
    ['deep JSON that is well-formed', cashu('A', `${'['.repeat(22_000)}${']'.repeat(22_000)}`)],
    [
      'deep JSON where a proof is expected',
      cashu(
        'A',
        `{"token":[{"mint":"${MINT}","proofs":[${'['.repeat(20_000)}${']'.repeat(20_000)}]}]}`,
      ),
    ],
    [
      'a secret of deep JSON',
      tokenA({
        proofs: [{ ...PROOF, secret: `${'['.repeat(20_000)}${']'.repeat(20_000)}` }],
      }),
    ],
    [
      'many numbers for proofs',
      cashu('A', `{"token":[{"mint":"${MINT}","proofs":[${'1,'.repeat(20_000)}1]}]}`),
    ],
    ['many parts', cashu('A', `{"token":[${`{"mint":"${MINT}","proofs":[]},`.repeat(1000)}0]}`)],
    [
      'a number of 40,000 digits',
      cashu('A', `{"token":[{"mint":"${MINT}","proofs":[{"amount":${'9'.repeat(40_000)}}]}]}`),
    ],
    ['many fields', cashu('A', `{${Array.from({ length: 5000 }, (_, i) => `"${i}":0`).join()}}`)],
    [
      'a reach for prototypes',
      cashu(
        'A',
        `{"__proto__":{"token":[{"mint":"${MINT}","proofs":[]}]},"constructor":{"prototype":{"unit":"sat"}}}`,
      ),
    ],
    ['an array of 2^32 in CBOR', cashu('B', '9affffffff')],
    ['an array of 2^64 in CBOR', cashu('B', '9bffffffffffffffff')],
    ['a map of 2^64 in CBOR', cashu('B', 'bbffffffffffffffff')],
    ['text of 2^53 bytes in CBOR', cashu('B', '7b001fffffffffffff00')],
    ['bytes of 2^32 in CBOR', cashu('B', '5affffffff00')],
    ['deep CBOR', cashu('B', '81'.repeat(45_000))],
    ['deep maps in CBOR', cashu('B', 'a16161'.repeat(15_000))],
    ['many small things in CBOR', cashu('B', `99afc8${'00'.repeat(45_000)}`)],
    ['many small texts in CBOR', cashu('B', `9955f0${'6161'.repeat(22_000)}`)],
    ['many small maps in CBOR', cashu('B', `99afc8${'a0'.repeat(45_000)}`)],
    ['CBOR without an end', cashu('B', `9f${'00'.repeat(45_000)}`)],
    ['tags in CBOR', cashu('B', 'c2'.repeat(45_000))],
    ['a prototype in CBOR', cashu('B', 'a1695f5f70726f746f5f5fa1617480')],
    [
      'many proofs that are locked',
      tokenA({
        proofs: Array.from({ length: 60 }, (_, index) => ({
          ...bare(PROOF),
          secret: `["P2PK",{"nonce":"${index}","data":"02${'1'.repeat(64)}"}]`,
          witness: JSON.stringify({ signatures: Array(3).fill('1'.repeat(128)) }),
        })),
      }),
    ],
  ])('is refused soon: %s', (_case, text) => {
    const startedAt = performance.now();
    const reading = read(text);
    const tookMs = performance.now() - startedAt;

    expect(reading.outcome).toBe('refused');
    // Most take one; the bound leaves room for a machine with other things to do.
    expect(tookMs).toBeLessThan(500);
  });

  it('is not told of to the payer', () => {
    const secret = 'worth a lot';
    const tokens = [
      tokenA({ proofs: [{ ...PROOF, secret, C: secret }] }),
      tokenA({ proofs: [{ ...PROOF, secret, amount: secret }] }),
      tokenA({ proofs: [{ ...PROOF, secret, id: secret }] }),
      tokenA({ mint: `https://${secret.replaceAll(' ', '')}.example`, proofs: [PROOF] }),
      cashu('A', `{"token": ${secret}`),
      `cashuA${secret}`,
    ];
    const said = tokens.map((token) => JSON.stringify(read(token)));
    expect(said.every((text) => text.includes('reason'))).toBe(true);
    expect(said.join()).not.toMatch(/worth/);
  });
});

describe('a token that is made here', () => {
  const proofs = [newMint, oldMint].flatMap((mint) => {
    const outputs = deriveOutputs(Buffer.alloc(64, 7), planOutputs(100, mint.keys));
    const signatures = outputs.messages.map((message) => mint.sign(message));
    return outputs.unblind(signatures, mint.keys) ?? [];
  });
  const token = encodeToken(MINT, proofs);

  it('is one that wallets read, and that their mint takes', () => {
    expect(token).toMatch(/^cashuB[\w-]+$/);
    const decoded = getDecodedToken(
      token,
      KEYSETS.map(({ id }) => id),
    );
    expect(decoded).toMatchObject({ mint: MINT, unit: 'sat' });
    const received = decoded.proofs.map(({ id, amount, secret, C }) => ({
      id,
      amount: amount.toNumber(),
      secret,
      C,
    }));
    expect(isSame(received, proofs)).toBe(true);
    expect(received.every((proof) => [newMint, oldMint].some((mint) => mint.accepts(proof)))).toBe(
      true,
    );
  });

  it('is read here as well', () => {
    expect(read(token)).toMatchObject({ outcome: 'read', faceValueSat: 200 });
  });

  it('says nothing of how its proofs came to be', () => {
    const dressed = encodeToken(MINT, [{ ...PROOF, witness: '{"signatures":[]}' }]);
    expect(read(dressed)).toEqual({ outcome: 'read', proofs: [bare(PROOF)], faceValueSat: 8 });
  });
});

interface Signer {
  pubkey: string;
  sign: (text: string) => string;
}

function signedBy(...signers: Signer[]) {
  return (secret: string) => ({ signatures: signers.map(({ sign }) => sign(secret)) });
}

function none(): undefined {
  return undefined;
}

function twoLocktimes(secret: string): unknown {
  const [kind, data] = JSON.parse(secret) as [string, object];
  const tags = [
    ['locktime', '1'],
    ['locktime', `${NOW * 2}`],
  ];
  return [kind, { ...data, tags }];
}

function read(text: string, keysets: readonly Keyset[] = KEYSETS) {
  return readToken(text, { mintUrl: MINT, allowHttp: false, keysets, nowSeconds: NOW });
}

function readIds(text: string): string[] {
  const reading = read(text);
  return reading.outcome === 'read' ? reading.proofs.map(({ id }) => id) : [reading.reason];
}

/** As older wallets write it. */
function tokenA(parts: { mint?: string; unit?: string; proofs?: unknown[] }): string {
  const { mint = MINT, unit = 'sat', proofs = [PROOF] } = parts;
  return json({ token: [{ mint, proofs }], unit, memo: 'for a name' });
}

/** As cashu-ts writes it. */
function tokenB(parts: { mint?: string; unit?: string; proofs?: AnyProof[] }): string {
  const { mint = MINT, unit = 'sat', proofs = [PROOF] } = parts;
  return getEncodedToken({ mint, unit, proofs: normalizeProofAmounts(proofs as Proof[]) });
}

interface AnyProof extends Omit<Proof, 'amount' | 'witness'> {
  amount: number | bigint;
  witness?: string | object | undefined;
}

function json(value: unknown): string {
  return cashu('A', JSON.stringify(value));
}

/** @param content JSON for version A, hex for version B */
function cashu(version: 'A' | 'B', content: string): string {
  const bytes = Buffer.from(content, version === 'A' ? 'utf8' : 'hex');
  return `cashu${version}${bytes.toString('base64url')}`;
}

function body(token: string): string {
  return token.slice('cashuA'.length);
}

function written(
  token: string,
  { alphabet, isPadded, prefix }: { alphabet: string; isPadded: boolean; prefix: string },
): string {
  const bytes = Buffer.from(body(token), 'base64url');
  const unpadded = bytes.toString(alphabet as BufferEncoding).replaceAll('=', '');
  const padding = isPadded ? '='.repeat(-unpadded.length & 3) : '';
  return `${prefix}${token.slice(0, 'cashuA'.length)}${unpadded}${padding}`;
}

function bare({ dleq: _, ...proof }: Proof): Proof {
  return proof;
}

function isSame(one: readonly Proof[], other: readonly Proof[]): boolean {
  const sorted = (proofs: readonly Proof[]) =>
    proofs.toSorted((a, b) => a.secret.localeCompare(b.secret));
  expect(sorted(one)).toEqual(sorted(other));
  return true;
}
