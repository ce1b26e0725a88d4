import fc from 'fast-check';
import { type Event, finalizeEvent, generateSecretKey, getPublicKey } from 'nostr-tools';
import { beforeAll, describe, expect, it } from 'vitest';
import { type EventVerifier, loadEventVerifier } from '../../src/nostr/events.ts';
import { createZapReceiptTemplate } from '../../src/zaps/zap-receipts.ts';
import {
  extractReceiptRelays,
  validateZapRequest,
  type ZapRequestRules,
} from '../../src/zaps/zap-request.ts';
import {
  createZapRequest,
  TEST_ZAP_PUBKEY,
  type ZapRequestOptions,
} from '../helpers/zap-requests.ts';

// test/acceptance/zap-requests.test.ts covers common cases and encodings; these are edge cases.

const RECIPIENT = getPublicKey(generateSecretKey());
const OTHER_PUBKEY = getPublicKey(generateSecretKey());
const EVENT_ID = 'e'.repeat(64);
const LOCAL_RELAY = 'ws://localhost:7000';
const RULES: ZapRequestRules = {
  recipient: RECIPIENT,
  amountMsat: 21_000,
  zapPubkey: TEST_ZAP_PUBKEY,
  allowPrivateNetworks: false,
};

let verifyEvent: EventVerifier;

beforeAll(async () => {
  verifyEvent = await loadEventVerifier();
});

describe('validateZapRequest accepts', () => {
  it.each([1, 10_002, 30_023])('a zap of an event of kind %i', (kind) => {
    const template = { kind, created_at: 1, content: '', tags: [['d', 'slug']] };
    const note = finalizeEvent(template, generateSecretKey());
    const { text } = signed({ note, recipient: note.pubkey });
    expect(read(text, { recipient: note.pubkey })).toEqual({ outcome: 'valid', json: text });
  });

  it.each<[string, (event: Event) => string]>([
    ['whitespace', (event) => ` \n${JSON.stringify(event, null, 2)}\t`],
    ['another order of fields', ({ sig, ...rest }) => JSON.stringify({ sig, ...rest })],
    ['unknown fields', (event) => JSON.stringify({ ...event, x: [], ['__proto__']: null })],
    ['escaped letters', (event) => JSON.stringify(event).replaceAll('a', '\\u0061')],
  ])('JSON with %s, and keeps it to the byte', (_case, write) => {
    const text = write(signed().event);
    expect(read(text)).toEqual({ outcome: 'valid', json: text });
  });

  it.each<[string, Partial<ZapRequestOptions>]>([
    ['no amount', withTag('amount', null)],
    ['the key of the receipts', { tags: [['P', TEST_ZAP_PUBKEY]] }],
    ['unknown tags', { tags: [['client', 'x', 'y'], ['anon'], [], ['k', '1']] }],
    ['further values in a tag', { tags: [['e', EVENT_ID, 'wss://a.example', 'root']] }],
    ['the last kind', { tags: [['a', `65535:${OTHER_PUBKEY}:x`]] }],
    ['an empty d tag', { tags: [['a', `10002:${OTHER_PUBKEY}:`]] }],
    ['any text as d tag', { tags: [['a', `30023:${OTHER_PUBKEY}:a:b\n\0 ü`]] }],
    ['the longest address', { tags: [['a', `30023:${OTHER_PUBKEY}:${'x'.repeat(953)}`]] }],
    ['two addresses', { tags: ['x', 'y'].map((d) => ['a', `30023:${OTHER_PUBKEY}:${d}`]) }],
    ['every letter', { comment: '"\\\n\t\b\0\u001f\u007f /%+&#=é🥜\u2028' }],
    ['a hundred relays', { relays: numberedRelays(100) }],
    ['one public relay', { relays: ['', LOCAL_RELAY, 'wss://10.0.0.1', 'no', 'wss://a.example'] }],
  ])('an event with %s', (_case, order) => {
    const { text } = signed(order);
    expect(read(text)).toEqual({ outcome: 'valid', json: text });
  });

  it('private relays if the rules allow them', () => {
    const { text } = signed({ relays: [LOCAL_RELAY] });
    expect(read(text, { allowPrivateNetworks: true })).toEqual({ outcome: 'valid', json: text });
  });
});

describe('validateZapRequest rejects, without a signature check,', () => {
  it.each<[string, Partial<ZapRequestOptions>, string]>([
    ['no recipient', withTag('p', null), "exactly one 'p' tag"],
    ['the recipient twice', { tags: [['p', RECIPIENT]] }, "exactly one 'p' tag"],
    ['a key in upper case', { recipient: RECIPIENT.toUpperCase() }, 'lower-case hex'],
    ['an empty recipient', withTag('p', []), "public key of this address.*'p' tag"],
    ['two recipients', { tags: [['p', OTHER_PUBKEY]] }, "exactly one 'p' tag"],
    ['two events', { tags: Array(2).fill(['e', EVENT_ID]) }, "at most one 'e' tag"],
    [
      'another receipt key',
      { tags: [['P', OTHER_PUBKEY]] },
      "nostrPubkey of this address in its 'P' tag",
    ],
    ['101 relays', { relays: numberedRelays(101) }, 'at most 100 relays'],
    ['101 tags', { tags: Array(98).fill(['t', 'x']) }, 'at most 100 tags'],
    ['a long address', { tags: [['a', `1:${EVENT_ID}:${'x'.repeat(958)}`]] }, '1024 bytes'],
    ['an event id in upper case', { tags: [['e', EVENT_ID.toUpperCase()]] }, "in its 'e' tag"],
    ['an empty event id', { tags: [['e']] }, "an event id.*in its 'e' tag"],
    ['an address without a key', { tags: [['a', '30023:x:y']] }, "in its 'a' tag"],
    ['an address of two parts', { tags: [['a', `30023:${EVENT_ID}`]] }, "in its 'a' tag"],
    ['an unknown kind', { tags: [['a', `65536:${EVENT_ID}:x`]] }, "in its 'a' tag"],
    ['an address without a kind', { tags: [['a', `:${EVENT_ID}:x`]] }, "in its 'a' tag"],
    ['a second, bad address', { tags: [['a', `1:${EVENT_ID}:`], ['a']] }, "in its 'a' tag"],
    ['a multibyte address', { tags: [['a', `1:${EVENT_ID}:${'ü'.repeat(500)}`]] }, '1024 bytes'],
    ['another notation', withTag('amount', ['021000']), "'amount' tag: 21000 millisatoshis"],
    ['an empty amount', withTag('amount', []), "'amount' tag"],
    ['two amounts', { tags: [['amount', '21000']] }, "at most one 'amount' tag"],
    ['no relays', withTag('relays', null), "exactly one 'relays' tag"],
    ['two relay lists', { tags: [['relays', 'wss://a.example']] }, "exactly one 'relays' tag"],
    ['private relays', { relays: [LOCAL_RELAY, 'wss://169.254.169.254'] }, 'a public host'],
    ['two receipt keys', { tags: Array(2).fill(['P', TEST_ZAP_PUBKEY]) }, "most one 'P' tag"],
    ['6 KiB of multibyte text', { comment: '🥜'.repeat(1_500) }, 'in 6144 bytes'],
    ['6 KiB once escaped', { comment: '"'.repeat(1_500) }, 'in 6144 bytes'],
    ['a lone surrogate', { comment: '\ud83e' }, "well-formed text as its 'content'"],
    ['a lone surrogate in a tag', { tags: [['t', '\udd5c']] }, "text as its 'tags'"],
  ])('an event with %s', (_case, order, reason) => {
    expectRejectedUnverified(signed(order).text, reason);
  });

  it.each<[object, string]>([
    [{ kind: '9734' }, 'must be of kind 9734'],
    [{ id: 7 }, "64 lower-case hexadecimal digits as its 'id'"],
    [{ id: EVENT_ID.toUpperCase() }, "digits as its 'id'"],
    [{ pubkey: 'ab' }, "digits as its 'pubkey'"],
    [{ created_at: '1' }, "Unix seconds as its 'created_at'"],
    [{ created_at: -1 }, "Unix seconds as its 'created_at'"],
    [{ created_at: 1.5 }, "Unix seconds as its 'created_at'"],
    [{ created_at: 1e300 }, "Unix seconds as its 'created_at'"],
    [{ content: { a: 1 } }, "text as its 'content'"],
    [{ tags: undefined }, "lists of well-formed text as its 'tags'"],
    [{ tags: { p: RECIPIENT } }, "lists of well-formed text as its 'tags'"],
    [{ tags: ['p'] }, "lists of well-formed text as its 'tags'"],
    [{ tags: [['p', null]] }, "lists of well-formed text as its 'tags'"],
  ])('an event with %j', (change, reason) => {
    expectRejectedUnverified(JSON.stringify({ ...signed().event, ...change }), reason);
  });

  it.each([
    ['an empty text', ''],
    ['a truncated event', signed().text.slice(0, -1)],
    ['base64', Buffer.from(signed().text).toString('base64')],
    ['a raw NUL', signed().text.replace('"content":"', '"content":"\0')],
    ['nested objects', '{"a":'.repeat(800)],
  ])('%s', (_case, text) => {
    expectRejectedUnverified(text, 'is not JSON. Encode it with encodeURIComponent, once');
  });

  function expectRejectedUnverified(text: string, reason: string): void {
    const reading = validateZapRequest([text], RULES, () => {
      throw new Error('the signature was checked');
    });
    expect(reading).toEqual({
      outcome: 'rejected',
      reason: expect.stringMatching(`^The zap request .*${reason}`),
    });
  }
});

describe('the signature check', () => {
  const forged = signed({ comment: '1 + 1' }).text.replace(/"sig":"..../, '"sig":"0000');

  it('selects the candidate that was signed, and otherwise explains the first', () => {
    const { text } = signed({ comment: '1 + 1' });
    const others = [forged, text.replace('+', ' '), ''];
    const { outcome } = validateZapRequest([...others, text], RULES, verifyEvent);
    expect(outcome).toBe('valid');
    const reason = expect.stringContaining('signature');
    expect(validateZapRequest(others, RULES, verifyEvent)).toEqual({ outcome: 'rejected', reason });
  });

  it('runs at most four times for one request', () => {
    const candidates = ['1 + 1', '2 + 2'].map((sum) => encodeURI(forged.replace('1 + 1', sum)));
    let checks = 0;
    validateZapRequest(candidates, RULES, (event) => {
      checks += 1;
      return verifyEvent(event);
    });
    expect(checks).toBe(4);
  });
});

describe('validateZapRequest with any input', () => {
  it('rejects unsigned text without throwing', () => {
    const tokens = ['{', '}', '[', ']', '"', ':', ',', '%', '7B', '\\u', '\ud800', '\0'];
    const texts = fc.oneof(
      fc.string({ unit: 'binary', maxLength: 300 }),
      fc.json(),
      fc.json().map(encodeURIComponent),
      fc.array(fc.constantFrom(...tokens)).map((parts) => parts.join('')),
    );
    fc.assert(
      fc.property(texts, (text) => {
        expect(read(text).outcome).toBe('rejected');
        expect(extractReceiptRelays(text, { allowPrivateNetworks: true })).toEqual([]);
      }),
    );
  });

  it('rejects a signed event with any field changed', () => {
    const { event } = signed();
    const field = fc.constantFrom('id', 'pubkey', 'created_at', 'kind', 'content', 'sig', 'tags');
    fc.assert(
      fc.property(field, fc.jsonValue(), (name, value) => {
        fc.pre(JSON.stringify(value) !== JSON.stringify(event[name as keyof Event]));
        expect(read(JSON.stringify({ ...event, [name]: value })).outcome).toBe('rejected');
      }),
    );
  });

  it('accepts a signed event if and only if its tags are valid', () => {
    const keys = [RECIPIENT, OTHER_PUBKEY, TEST_ZAP_PUBKEY, EVENT_ID];
    const address = `30023:${OTHER_PUBKEY}:d`;
    const name = fc.constantFrom('p', 'e', 'a', 'P', 'amount', 'relays', 'k', 'client');
    const value = fc.constantFrom(...keys, '21000', '', 'wss://a.example', address);
    const tag = fc.tuple(name, fc.array(value, { maxLength: 3 })).map(([n, rest]) => [n, ...rest]);
    const sender = generateSecretKey();
    fc.assert(
      fc.property(fc.array(tag, { maxLength: 4 }), (tags) => {
        const valuesOf = (wanted: string) =>
          tags.filter(([n]) => n === wanted).map(([, v = '']) => v);
        const isRight =
          ['p', 'amount', 'relays'].every((each) => valuesOf(each).length === 0) &&
          ['e', 'P'].every((each) => valuesOf(each).length <= 1) &&
          valuesOf('P').every((v) => v === TEST_ZAP_PUBKEY) &&
          valuesOf('e').every((v) => keys.includes(v)) &&
          valuesOf('a').every((v) => v === address);
        const { text } = signed({ tags, sender });
        expect(read(text).outcome).toBe(isRight ? 'valid' : 'rejected');
      }),
      { numRuns: 200 },
    );
  });
});

describe('extractReceiptRelays', () => {
  it.each<[string, string[], string[]]>([
    [
      'public relays once each, in order',
      [LOCAL_RELAY, 'WSS://B.example/', 'wss://a.example', 'wss://b.example', ''],
      ['wss://b.example', 'wss://a.example'],
    ],
    [
      'at most two relays of one host',
      [...'abc'].map((path) => `wss://a.example/${path}`).concat('wss://A.example.:443/x'),
      ['wss://a.example/a', 'wss://a.example/b'],
    ],
    ['at most 20 relays', [LOCAL_RELAY, ...numberedRelays(99)], numberedRelays(20)],
  ])('returns %s', (_case, relays, expected) => {
    expect(extractReceiptRelays(signed({ relays }).text, { allowPrivateNetworks: false })).toEqual(
      expected,
    );
  });

  it('counts private relays by port', () => {
    const relays = ['1', '1/a', '1/b', '2'].map((end) => `ws://127.0.0.1:${end}`);
    const found = extractReceiptRelays(signed({ relays }).text, { allowPrivateNetworks: true });
    expect(found).toEqual(relays.toSpliced(2, 1));
  });
});

it('limits a request so that its receipt message is shorter than 16 KiB', () => {
  const tags = [
    ['a', `30023:${EVENT_ID}:${'\0'.repeat(158)}`],
    ['e', EVENT_ID],
    ['k', '65535'],
  ];
  const textOf = (length: number) => signed({ tags, comment: '"'.repeat(length) }).text;
  expect(read(textOf(1_100)).outcome).toBe('rejected');
  const text = textOf(1_080);
  expect(read(text).outcome).toBe('valid');
  const template = createZapReceiptTemplate(text, {
    request: 'x'.repeat(8_192),
    paidAtSeconds: 9_999_999_999,
  });
  const receipt = { ...template, pubkey: EVENT_ID, id: EVENT_ID, sig: EVENT_ID.repeat(2) };
  const bytes = Buffer.byteLength(JSON.stringify(['EVENT', receipt]));
  expect(bytes).toBeGreaterThan(15 * 1024);
  expect(bytes).toBeLessThan(16 * 1024);
});

function read(text: string, rules: Partial<ZapRequestRules> = {}) {
  return validateZapRequest([text], { ...RULES, ...rules }, verifyEvent);
}

function signed(order: Partial<ZapRequestOptions> = {}) {
  return createZapRequest({ recipient: RECIPIENT, amountMsat: 21_000, ...order });
}

/** Replaces the values of a tag, or removes the tag. */
function withTag(
  name: string,
  values: readonly string[] | null,
): Pick<ZapRequestOptions, 'modifyTemplate'> {
  const replacement = values === null ? [] : [[name, ...values]];
  return {
    modifyTemplate: (template) => ({
      ...template,
      tags: template.tags.flatMap((tag) => (tag[0] === name ? replacement : [tag])),
    }),
  };
}

function numberedRelays(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `wss://r${index}.example`);
}
