import fc from 'fast-check';
import { finalizeEvent, generateSecretKey, getPublicKey, verifyEvent } from 'nostr-tools';
import { expect, it } from 'vitest';
import { loadEventSigner } from '../../src/nostr/events.ts';
import { createZapReceiptTemplate } from '../../src/zaps/zap-receipts.ts';

const SENDER_KEY = generateSecretKey();
const SENDER = getPublicKey(SENDER_KEY);
const RECIPIENT = 'ab'.repeat(32);
const NOTE = 'cd'.repeat(32);
const ARTICLE = `30023:${RECIPIENT}:a title`;
const RELAYS = ['relays', 'wss://relay.example', 'wss://other.example'];
const PAYMENT = { request: `lnbc210n1${'q'.repeat(60)}`, paidAtSeconds: 1_750_000_000 };

it.each<[string, string[][], string[][]]>([
  ['a profile', [], []],
  [
    'a note',
    [
      ['amount', '21000'],
      ['e', NOTE],
      ['k', '1'],
    ],
    [
      ['e', NOTE],
      ['k', '1'],
    ],
  ],
  [
    'an article',
    [
      ['a', ARTICLE],
      ['k', '30023'],
    ],
    [
      ['a', ARTICLE],
      ['k', '30023'],
    ],
  ],
  ['a note with hints', [['e', NOTE, 'wss://hint.example', 'root']], [['e', NOTE]]],
  [
    'two articles',
    [
      ['a', ARTICLE, 'wss://x.example'],
      ['a', `1:${SENDER}:`],
    ],
    [['a', ARTICLE]],
  ],
  [
    'a request with other tags',
    [
      ['preimage', '00'.repeat(32)],
      ['P', RECIPIENT],
    ],
    [],
  ],
  ...['', 'one', '1.5', '-1', ' 1', '1e3', '123456'].map(
    (kind): [string, string[][], string[][]] => [`an invalid kind '${kind}'`, [['k', kind]], []],
  ),
])('has only the tags of NIP-57 for %s', (_case, tags, copied) => {
  const text = zapRequest([['p', RECIPIENT, 'wss://hint.example', 'petname'], RELAYS, ...tags]);
  expect(createZapReceiptTemplate(text, PAYMENT)).toEqual({
    kind: 9735,
    created_at: PAYMENT.paidAtSeconds,
    content: '',
    tags: [
      ['p', RECIPIENT],
      ...copied,
      ['P', SENDER],
      ['bolt11', PAYMENT.request],
      ['description', text],
    ],
  });
});

it.each([
  '{"kind":9734',
  '',
  '"text"',
  'null',
  JSON.stringify({ pubkey: SENDER }),
  JSON.stringify({ pubkey: SENDER, tags: ['p', RECIPIENT] }),
  JSON.stringify({ pubkey: SENDER, tags: [['p', 1]] }),
  JSON.stringify({ pubkey: SENDER, tags: [RELAYS, ['p'], []] }),
  JSON.stringify({ tags: [['p', RECIPIENT]] }),
  JSON.stringify({ pubkey: 'me', tags: [['p', RECIPIENT]] }),
])('returns no receipt for the damaged row %s', (text) => {
  expect(createZapReceiptTemplate(text, PAYMENT)).toBeNull();
});

it('returns a receipt that can be signed, whatever the row contains', async () => {
  const signer = await loadEventSigner('11'.repeat(32));
  const word = fc.oneof(fc.string({ unit: 'binary' }), fc.constant('lone surrogate: \ud800'));
  const name = fc.constantFrom('p', 'e', 'a', 'k', 'P');
  const row = fc.record({
    pubkey: fc.constantFrom(SENDER, 'me', 1, null),
    tags: fc.oneof(fc.array(fc.oneof(fc.array(word), fc.tuple(name, word, word))), fc.jsonValue()),
  });
  const texts = fc.oneof(
    word,
    fc.json(),
    row.map((value) => JSON.stringify(value)),
  );
  fc.assert(
    fc.property(texts, (text) => {
      const receipt = createZapReceiptTemplate(text, PAYMENT);
      expect(receipt === null || verifyEvent(signer.sign(receipt))).toBe(true);
    }),
  );
});

function zapRequest(tags: string[][], content = ''): string {
  const template = { kind: 9734, created_at: 1_749_999_000, content, tags };
  return JSON.stringify(finalizeEvent(template, SENDER_KEY));
}
