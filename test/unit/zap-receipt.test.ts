import fc from 'fast-check';
import { finalizeEvent, generateSecretKey, getPublicKey, nip57, verifyEvent } from 'nostr-tools';
import { describe, expect, it } from 'vitest';
import { loadEventSigner } from '../../src/auth/event-signer.ts';
import { zapReceipt } from '../../src/domain/zap-receipt.ts';

/** What relays get when a zap was paid (NIP-57 appendix E). */

const SENDER_KEY = generateSecretKey();
const SENDER = getPublicKey(SENDER_KEY);
const RECIPIENT = 'ab'.repeat(32);
const NOTE = 'cd'.repeat(32);
const ARTICLE = `30023:${RECIPIENT}:a title`;
const RELAYS = ['relays', 'wss://relay.example', 'wss://other.example'];
const PAYMENT = { request: `lnbc210n1${'q'.repeat(60)}`, paidAtSeconds: 1_750_000_000 };

describe('the receipt of a zap', () => {
  it('of a note has the tags of the specification, and none beside', () => {
    const text = zapRequest([
      ['p', RECIPIENT],
      RELAYS,
      ['amount', '21000'],
      ['e', NOTE],
      ['k', '1'],
    ]);
    expect(zapReceipt(text, PAYMENT)).toEqual({
      kind: 9735,
      created_at: PAYMENT.paidAtSeconds,
      content: '',
      tags: [
        ['p', RECIPIENT],
        ['e', NOTE],
        ['k', '1'],
        ['P', SENDER],
        ['bolt11', PAYMENT.request],
        ['description', text],
      ],
    });
  });

  it('of a profile names the recipient alone', () => {
    const text = zapRequest([RELAYS, ['p', RECIPIENT]]);
    expect(namesOf(text)).toEqual(['p', 'P', 'bolt11', 'description']);
  });

  it('of an article names its address', () => {
    const text = zapRequest([['p', RECIPIENT], RELAYS, ['a', ARTICLE], ['k', '30023']]);
    expect(tagsOf(text).slice(0, 3)).toEqual([
      ['p', RECIPIENT],
      ['a', ARTICLE],
      ['k', '30023'],
    ]);
  });

  it('has the zap request to the letter, however it was written', () => {
    const { id, sig, ...rest } = JSON.parse(
      zapRequest([['p', RECIPIENT], RELAYS], 'Grüße 🥜 "\\"'),
    );
    const text = `${JSON.stringify({ sig, ...rest, id }, null, 2)}\n `;
    expect(tagsOf(text).at(-1)).toEqual(['description', text]);
  });

  it('repeats neither what a sender added behind a name, nor a second of its kind', () => {
    const text = zapRequest([
      ['p', RECIPIENT, 'wss://hint.example', 'petname'],
      RELAYS,
      ['a', ARTICLE, 'wss://hint.example'],
      ['a', `30023:${SENDER}:another`],
      ['e', NOTE, 'wss://hint.example', 'root'],
      ['preimage', '00'.repeat(32)],
      ['zap-secret', 'x'],
    ]);
    expect(tagsOf(text)).toEqual([
      ['p', RECIPIENT],
      ['e', NOTE],
      ['a', ARTICLE],
      ['P', SENDER],
      ['bolt11', PAYMENT.request],
      ['description', text],
    ]);
  });

  it('names the sender, whatever key the request names with a P of its own', () => {
    const text = zapRequest([['p', RECIPIENT], RELAYS, ['P', RECIPIENT]]);
    expect(tagsOf(text).filter(([name]) => name === 'P')).toEqual([['P', SENDER]]);
  });

  it.each(['', 'one', '1.5', '-1', ' 1', '1e3', '123456'])('leaves out the kind %j', (kind) => {
    const text = zapRequest([['p', RECIPIENT], RELAYS, ['e', NOTE], ['k', kind]]);
    expect(namesOf(text)).toEqual(['p', 'e', 'P', 'bolt11', 'description']);
  });

  it.each([
    ['no JSON', '{"kind":9734'],
    ['nothing', ''],
    ['no event', '"text"'],
    ['null', 'null'],
    ['no tags', JSON.stringify({ pubkey: SENDER })],
    ['tags that are no lists', JSON.stringify({ pubkey: SENDER, tags: ['p', RECIPIENT] })],
    ['values that are no text', JSON.stringify({ pubkey: SENDER, tags: [['p', 1]] })],
    ['no recipient', JSON.stringify({ pubkey: SENDER, tags: [RELAYS, ['p'], []] })],
    ['no sender', JSON.stringify({ tags: [['p', RECIPIENT]] })],
    ['a sender who is no key', JSON.stringify({ pubkey: 'me', tags: [['p', RECIPIENT]] })],
  ])('is none where a row was changed by hand, and has %s', (_, text) => {
    expect(zapReceipt(text, PAYMENT)).toBeNull();
  });

  it('is none or can be signed, whatever a row has', async () => {
    const signer = await loadEventSigner('11'.repeat(32));
    const word = fc.oneof(fc.string({ unit: 'binary' }), fc.constant('half a pair: \ud800'));
    const tag = fc.oneof(
      fc.array(word),
      fc.tuple(fc.constantFrom('p', 'e', 'a', 'k', 'P'), word, word),
    );
    const almost = fc.record({
      pubkey: fc.constantFrom(SENDER, 'me', 1, null),
      tags: fc.oneof(fc.array(tag), fc.jsonValue()),
    });
    const texts = fc.oneof(
      word,
      fc.json(),
      almost.map((row) => JSON.stringify(row)),
    );
    fc.assert(
      fc.property(texts, (text) => {
        const receipt = zapReceipt(text, PAYMENT);
        expect(receipt === null || verifyEvent(signer.sign(receipt))).toBe(true);
      }),
    );
  });
});

describe('a wallet that shows the zap', () => {
  it('finds the signature, the request, the amount and the tags as nostr-tools makes them', async () => {
    const request = nip57.makeZapRequest({
      event: finalizeEvent(
        { kind: 30_023, created_at: 1, content: '', tags: [['d', 'a title']] },
        generateSecretKey(),
      ),
      amount: 21_000,
      relays: RELAYS.slice(1),
      comment: 'for the "article"',
    });
    const text = JSON.stringify(finalizeEvent(request, SENDER_KEY));
    const signer = await loadEventSigner('11'.repeat(32));
    const template = zapReceipt(text, PAYMENT);
    const receipt = JSON.parse(JSON.stringify(template && signer.sign(template)));

    expect(verifyEvent(receipt)).toBe(true);
    expect(receipt.pubkey).toBe(signer.pubkey);
    const valueIn = (name: string) => receipt.tags.find((tag: string[]) => tag[0] === name)?.[1];
    expect(nip57.validateZapRequest(valueIn('description'))).toBeNull();
    expect(nip57.getSatoshisAmountFromBolt11(valueIn('bolt11'))).toBe(21);
    expect(valueIn('k')).toBe('30023');

    const theirs = nip57.makeZapReceipt({
      zapRequest: text,
      bolt11: PAYMENT.request,
      paidAt: new Date(PAYMENT.paidAtSeconds * 1000),
    });
    expect(receipt).toMatchObject({
      kind: theirs.kind,
      created_at: theirs.created_at,
      content: theirs.content,
    });
    const byName = (tags: string[][]) => tags.filter(([name]) => name !== 'k').toSorted();
    expect(byName(receipt.tags)).toEqual(byName(theirs.tags));
  });
});

/** As a sender signs it. */
function zapRequest(tags: string[][], content = ''): string {
  const template = { kind: 9734, created_at: 1_749_999_000, content, tags };
  return JSON.stringify(finalizeEvent(template, SENDER_KEY));
}

function tagsOf(text: string): string[][] {
  return zapReceipt(text, PAYMENT)?.tags ?? [];
}

function namesOf(text: string): (string | undefined)[] {
  return tagsOf(text).map(([name]) => name);
}
