import fc from 'fast-check';
import { type Event, finalizeEvent, generateSecretKey, getPublicKey } from 'nostr-tools';
import { validateZapRequest } from 'nostr-tools/nip57';
import { beforeAll, describe, expect, it } from 'vitest';
import { type EventVerifier, loadEventVerifier } from '../../src/auth/event-verifier.ts';
import { redact } from '../../src/domain/redaction.ts';
import { zapReceipt } from '../../src/domain/zap-receipt.ts';
import { readZapRequest, type ZapRules, zapRequestRelays } from '../../src/domain/zap-request.ts';
import { TEST_ZAP_PUBKEY, type ZapOrder, zapRequest } from '../helpers/zap-requests.ts';

const RECIPIENT = getPublicKey(generateSecretKey());
const SOMEBODY_ELSE = getPublicKey(generateSecretKey());
const EVENT_ID = 'e'.repeat(64);
const RULES: ZapRules = {
  recipient: RECIPIENT,
  amountMsat: 21_000,
  zapPubkey: TEST_ZAP_PUBKEY,
  allowPrivateRelays: false,
};

let verifyEvent: EventVerifier;

beforeAll(async () => {
  verifyEvent = await loadEventVerifier();
});

describe('a zap request is taken', () => {
  it('as wallets make it, and kept to the byte', () => {
    const { text } = made();
    expect(validateZapRequest(text)).toBeNull();
    expect(read(text)).toEqual({ outcome: 'valid', text });
  });

  it('for a note, an article, and whatever has a kind', () => {
    for (const kind of [1, 10_002, 30_023]) {
      const note = noteOf(kind);
      expect(read(made({ note, recipient: note.pubkey }).text, { recipient: note.pubkey })).toEqual(
        expect.objectContaining({ outcome: 'valid' }),
      );
    }
  });

  it.each<[string, (event: Event) => string]>([
    ['with blanks and line ends', (event) => JSON.stringify(event, null, 2)],
    ['with blanks around it', (event) => ` \n${JSON.stringify(event)}\t`],
    ['with its fields in another order', ({ sig, ...rest }) => JSON.stringify({ sig, ...rest })],
    [
      'with fields that nobody knows',
      (event) => JSON.stringify({ ...event, seenOn: ['wss://a.example'], ['__proto__']: null }),
    ],
    ['with letters as escapes', (event) => JSON.stringify(event).replaceAll('a', '\\u0061')],
  ])('%s, and kept as it came', (_case, write) => {
    const text = write(made().event);
    expect(read(text)).toEqual({ outcome: 'valid', text });
  });

  it.each<[string, Partial<ZapOrder>]>([
    ['that says no amount', withoutTag('amount')],
    ['that names the key of receipts', { tags: [['P', TEST_ZAP_PUBKEY]] }],
    ['with tags that nobody knows', { tags: [['client', 'x', 'y'], ['anon'], [], ['k', '1']] }],
    ['with further values in a tag', { tags: [['e', EVENT_ID, 'wss://a.example', 'root']] }],
    ['of the last kind there is', { tags: [['a', `65535:${SOMEBODY_ELSE}:x`]] }],
    ['for what has an empty d tag', { tags: [['a', `10002:${SOMEBODY_ELSE}:`]] }],
    ['for a d tag with anything in it', { tags: [['a', `30023:${SOMEBODY_ELSE}:a:b\n\0 ü`]] }],
    ['for the longest address', { tags: [['a', `30023:${SOMEBODY_ELSE}:${'x'.repeat(953)}`]] }],
    ['for two addresses', { tags: ['x', 'y'].map((d) => ['a', `30023:${SOMEBODY_ELSE}:${d}`]) }],
    ['with every letter there is', { comment: '"\\\n\t\b\0\u001f\u007f /%+&#=é🥜\u2028' }],
    ['with a hundred relays', { relays: numbered(100) }],
    [
      'with one relay that can be reached',
      {
        relays: [
          '',
          'ws://localhost:7000',
          'wss://10.0.0.1',
          'nonsense',
          'ws://x.onion',
          'wss://a.example',
        ],
      },
    ],
  ])('%s', (_case, order) => {
    const { text } = made(order);
    expect(read(text)).toEqual({ outcome: 'valid', text });
  });

  it('that was encoded once more than needed', () => {
    const { text } = made({ comment: '100% "+" &' });
    expect(read(encodeURIComponent(text))).toEqual({ outcome: 'valid', text });
    expect(read(encodeURIComponent(text).toLowerCase().replace(/^%7b/, '%7B'))).toEqual({
      outcome: 'valid',
      text,
    });
    expect(read(encodeURIComponent(encodeURIComponent(text)))).toMatchObject({
      outcome: 'refused',
    });
  });

  it('in the one meaning that was signed', () => {
    const { text } = made({ comment: '1 + 1' });
    const others = ['', text.replace('+', ' '), text.replaceAll(' ', '+')];
    const candidates = [...others, text];
    expect(readZapRequest(candidates, RULES, verifyEvent)).toEqual({ outcome: 'valid', text });
    expect(readZapRequest(others, RULES, verifyEvent)).toMatchObject({ outcome: 'refused' });
    expect(readZapRequest([], RULES, verifyEvent)).toMatchObject({ outcome: 'refused' });
  });

  it('in the one meaning that was signed, of what was encoded as a form in between', () => {
    const { text } = made({ comment: '1 + 1' });
    const asForm = new URLSearchParams({ x: text }).toString().slice(2);
    expect(read(asForm)).toEqual({ outcome: 'valid', text });
    const withPlus = made({ comment: '1+1' }).text;
    expect(read(encodeURI(withPlus))).toEqual({ outcome: 'valid', text: withPlus });
  });

  it('or refused after four signatures at the most', () => {
    const forged = made({ comment: '1 + 1' }).text.replace(/"sig":"..../, '"sig":"0000');
    const candidates = ['1 + 1', '2 + 2'].map((sum) => encodeURI(forged.replace('1 + 1', sum)));
    let looks = 0;
    const reading = readZapRequest(candidates, RULES, (event) => {
      looks += 1;
      return verifyEvent(event);
    });
    expect(reading).toMatchObject({ outcome: 'refused' });
    expect(looks).toBe(4);
  });

  it('over private relays where development allows it', () => {
    const { text } = made({ relays: ['ws://127.0.0.1:7000'] });
    expect(read(text, { allowPrivateRelays: true })).toEqual({ outcome: 'valid', text });
    expect(read(text)).toMatchObject({ outcome: 'refused' });
  });
});

describe('the receipt of a zap request', () => {
  it('goes to relays in less than 16 KiB, whatever is in it and however long the invoice', () => {
    // What becomes the longest in JSON, twice, and what is repeated beside it.
    const tags = [
      ['a', `30023:${EVENT_ID}:${'\0'.repeat(158)}`],
      ['e', EVENT_ID],
      ['k', '65535'],
    ];
    const longest = (length: number) => made({ tags, comment: '"'.repeat(length) }).text;
    expect(read(longest(1_100))).toMatchObject({ outcome: 'refused' });
    const text = longest(1_080);
    expect(read(text)).toMatchObject({ outcome: 'valid' });
    const payment = { request: 'x'.repeat(8_192), paidAtSeconds: 9_999_999_999 };
    const template = zapReceipt(text, payment);
    const signed = { ...template, pubkey: EVENT_ID, id: EVENT_ID, sig: EVENT_ID.repeat(2) };
    const bytes = Buffer.byteLength(JSON.stringify(['EVENT', signed]));
    expect(bytes).toBeGreaterThan(15 * 1024);
    expect(bytes).toBeLessThan(16 * 1024);
  });
});

describe('a zap request is refused before its signature is looked at', () => {
  it.each<[string, Partial<ZapOrder>, string | RegExp]>([
    [
      'of another kind',
      { change: (template) => ({ ...template, kind: 1 }) },
      'The zap request must be of kind 9734.',
    ],
    ['without a recipient', withoutTag('p'), "must have exactly one 'p' tag"],
    ['with two recipients', { tags: [['p', SOMEBODY_ELSE]] }, "must have exactly one 'p' tag"],
    ['with one recipient twice', { tags: [['p', RECIPIENT]] }, "must have exactly one 'p' tag"],
    ['for somebody else', { recipient: SOMEBODY_ELSE }, "public key of this address.*'p' tag"],
    ['for a key in upper case', { recipient: RECIPIENT.toUpperCase() }, 'lower-case hex'],
    ['for nobody', withTag('p', []), "public key of this address.*'p' tag"],
    ['with two events', { tags: twice(['e', EVENT_ID]) }, "at most one 'e' tag"],
    ['with an event in upper case', { tags: [['e', EVENT_ID.toUpperCase()]] }, "its 'e' tag"],
    ['with an event that is none', { tags: [['e', 'note1xyz']] }, "an event id.*in its 'e' tag"],
    ['with an event without id', { tags: [['e']] }, "an event id.*in its 'e' tag"],
    ['with an address without key', { tags: [['a', '30023:x:y']] }, "in its 'a' tag"],
    ['with an address of two parts', { tags: [['a', `30023:${EVENT_ID}`]] }, "in its 'a' tag"],
    [
      'with an address of no kind there is',
      { tags: [['a', `65536:${EVENT_ID}:x`]] },
      "its 'a' tag",
    ],
    ['with an address without kind', { tags: [['a', `:${EVENT_ID}:x`]] }, "in its 'a' tag"],
    [
      'with one good and one bad address',
      {
        tags: [
          ['a', `1:${EVENT_ID}:`],
          ['a', ''],
        ],
      },
      "in its 'a' tag",
    ],
    ['for another amount', { amountMsat: 21_001 }, "'amount' tag .*: 21000 millisatoshis"],
    ['for the amount in another notation', withTag('amount', ['021000']), "'amount' tag"],
    ['for an empty amount', withTag('amount', []), "'amount' tag"],
    ['with two amounts', { tags: [['amount', '21000']] }, "at most one 'amount' tag"],
    ['without relays', withoutTag('relays'), "exactly one 'relays' tag"],
    ['with two lists', { tags: [['relays', 'wss://a.example']] }, "exactly one 'relays' tag"],
    ['with an empty list of relays', { relays: [] }, 'at least one relay that can be reached'],
    ['with 101 relays', { relays: numbered(101) }, "at most 100 relays in its 'relays' tag"],
    [
      'with relays that nobody can reach',
      {
        relays: ['ws://localhost', 'wss://127.0.0.1', 'https://a.example', 'wss://169.254.169.254'],
      },
      'at least one relay that can be reached',
    ],
    ['with another key for the receipt', { tags: [['P', SOMEBODY_ELSE]] }, "its 'P' tag"],
    ['with two keys for it', { tags: twice(['P', TEST_ZAP_PUBKEY]) }, "at most one 'P' tag"],
    ['with more tags than anybody needs', { tags: many(98, ['t', 'x']) }, 'at most 100 tags'],
    ['of more than 6 KiB', { comment: 'x'.repeat(6_144) }, 'more than 6144 bytes'],
    ['of more than 6 KiB in other letters', { comment: '🥜'.repeat(1_500) }, 'more than 6144'],
    ['of 6 KiB in its receipt, half as long', { comment: '"'.repeat(1_500) }, 'more than 6144'],
    [
      'with an address that relays refuse',
      { tags: [['a', `30023:${EVENT_ID}:${'x'.repeat(954)}`]] },
      "an 'a' tag of at most 1024 bytes",
    ],
    [
      'with an address that they refuse for its letters',
      { tags: [['a', `30023:${EVENT_ID}:${'ü'.repeat(500)}`]] },
      "an 'a' tag of at most 1024 bytes",
    ],
    ['with half a character', { comment: '\ud83e' }, "well-formed text as its 'content'"],
    ['with half a character in a tag', { tags: [['t', '\udd5c']] }, "text as its 'tags'"],
  ])('%s', (_case, order, reason) => {
    let looks = 0;
    const reading = readZapRequest([made(order).text], RULES, (event) => {
      looks += 1;
      return verifyEvent(event);
    });
    expect(reading).toEqual({ outcome: 'refused', reason: expect.stringMatching(reason) });
    expect(looks).toBe(0);
  });

  it.each<[string, (event: Event) => unknown, string]>([
    ['null', () => null, 'must be a Nostr event, which is a JSON object'],
    ['a list', () => [1], 'must be a Nostr event, which is a JSON object'],
    ['a number', () => 1e308, 'must be a Nostr event, which is a JSON object'],
    ['nothing at all', () => ({}), 'must be of kind 9734'],
    ['a kind as text', (event) => ({ ...event, kind: '9734' }), 'must be of kind 9734'],
    [
      'an id of something else',
      (event) => ({ ...event, id: 7 }),
      "must have 64 lower-case hexadecimal digits as its 'id'",
    ],
    [
      'an id in upper case',
      (event) => ({ ...event, id: EVENT_ID.toUpperCase() }),
      "digits as its 'id'",
    ],
    ['a key that is too short', (event) => ({ ...event, pubkey: 'ab' }), "digits as its 'pubkey'"],
    [
      'no signature',
      (event) => ({ ...event, sig: undefined }),
      "must have 128 lower-case .* as its 'sig'",
    ],
    [
      'a time as text',
      (event) => ({ ...event, created_at: '1' }),
      "Unix seconds as its 'created_at'",
    ],
    [
      'a time before 1970',
      (event) => ({ ...event, created_at: -1 }),
      "Unix seconds as its 'created_at'",
    ],
    [
      'a fraction of a second',
      (event) => ({ ...event, created_at: 1.5 }),
      "Unix seconds as its 'created_at'",
    ],
    [
      'a time beyond all numbers',
      (event) => ({ ...event, created_at: 1e300 }),
      "Unix seconds as its 'created_at'",
    ],
    [
      'content that is no text',
      (event) => ({ ...event, content: { a: 1 } }),
      "text as its 'content'",
    ],
    [
      'no tags',
      (event) => ({ ...event, tags: undefined }),
      "lists of well-formed text as its 'tags'",
    ],
    [
      'tags by name',
      (event) => ({ ...event, tags: { p: RECIPIENT } }),
      "lists of well-formed text as its 'tags'",
    ],
    [
      'tags that are text',
      (event) => ({ ...event, tags: ['p'] }),
      "lists of well-formed text as its 'tags'",
    ],
    [
      'a number in a tag',
      (event) => ({ ...event, tags: [['amount', 21_000]] }),
      "lists of well-formed text as its 'tags'",
    ],
    [
      'null in a tag',
      (event) => ({ ...event, tags: [['p', null]] }),
      "lists of well-formed text as its 'tags'",
    ],
  ])('that has %s', (_case, spoil, reason) => {
    expect(read(JSON.stringify(spoil(made().event)))).toEqual({
      outcome: 'refused',
      reason: expect.stringMatching(`^The zap request .*${reason}`),
    });
  });

  it.each([
    ['empty', ''],
    ['cut off', made().text.slice(0, -1)],
    ['a word', 'zap'],
    ['JSON in base64', Buffer.from(made().text).toString('base64')],
    ['with a raw NUL', made().text.replace('"content":"', '"content":"\0')],
    ['broken percents', '%7B%zz'],
    ['nested beyond all depth', '['.repeat(6_000)],
    ['an object nested beyond all depth', '{"a":'.repeat(800)],
  ])('that is no JSON: %s', (_case, text) => {
    expect(read(text)).toEqual({
      outcome: 'refused',
      reason: 'The zap request is not JSON. Encode it with encodeURIComponent, once.',
    });
  });

  it('in words that say nothing of the request, and that no list of secrets takes out', () => {
    const reasons = [
      made({ comment: 'x'.repeat(9_000) }).text,
      made({ tags: [['a', `1:${EVENT_ID}:${'x'.repeat(1_000)}`]] }).text,
      '',
      '{}',
      JSON.stringify({ ...made().event, sig: 'nsec1secret' }),
      JSON.stringify({ ...made().event, content: 'another' }),
      ...[
        withoutTag('p'),
        { recipient: SOMEBODY_ELSE },
        { amountMsat: 1 },
        { tags: [['amount', '1']] },
        { relays: [] },
        { relays: numbered(101) },
        withoutTag('relays'),
        { tags: [['e', 'x']] },
        { tags: twice(['e', EVENT_ID]) },
        { tags: [['a', 'x']] },
        { tags: [['P', 'x']] },
        { tags: twice(['P', TEST_ZAP_PUBKEY]) },
      ].map((order) => made(order).text),
    ].map((text) => {
      const reading = read(text);
      return reading.outcome === 'refused' ? reading.reason : '';
    });
    expect(reasons).not.toContain('');
    expect(reasons.map(redact)).toEqual(reasons);
    expect(new Set(reasons).size).toBe(reasons.length);
  });
});

describe('a signature', () => {
  it.each<[string, (event: Event) => Event]>([
    ['of other words', (event) => ({ ...event, content: 'other' })],
    ['of another time', (event) => ({ ...event, created_at: event.created_at + 1 })],
    ['of another sender', (event) => ({ ...event, pubkey: SOMEBODY_ELSE })],
    ['under another id', (event) => ({ ...event, id: EVENT_ID })],
    ['that is none', (event) => ({ ...event, sig: '0'.repeat(128) })],
    [
      'by a key that is no point of the curve',
      (event) => ({ ...event, pubkey: '05'.padStart(64, '0') }),
    ],
    [
      'over one tag less',
      (event) => ({ ...event, tags: event.tags.filter(([n]) => n !== 'amount') }),
    ],
  ])('%s is refused', (_case, forge) => {
    expect(read(JSON.stringify(forge(made().event)))).toEqual({
      outcome: 'refused',
      reason: 'The id or the signature of the zap request is wrong.',
    });
  });

  it('that fits no meaning of the text is explained by the first', () => {
    const forged = made().text.replace(/"sig":"..../, '"sig":"0000');
    expect(readZapRequest([forged, 'zap'], RULES, verifyEvent)).toEqual({
      outcome: 'refused',
      reason: expect.stringMatching('signature'),
    });
  });
});

describe('whatever comes', () => {
  const verdict = expect.objectContaining({ outcome: 'refused' });

  it('never throws, and no text that is not signed is taken', () => {
    const texts = fc.oneof(
      fc.string({ unit: 'binary', maxLength: 300 }),
      fc.json(),
      fc.json().map(encodeURIComponent),
      fc
        .array(fc.constantFrom('{', '}', '[', ']', '"', ':', ',', '%', '7B', '\\u', '\ud800', '\0'))
        .map((parts) => parts.join('')),
    );
    fc.assert(
      fc.property(texts, (text) => {
        expect(read(text)).toEqual(verdict);
        expect(zapRequestRelays(text, { allowPrivate: true })).toEqual([]);
      }),
    );
  });

  it('never throws at an event with any value in any place', () => {
    const { event } = made();
    const field = fc.constantFrom('id', 'pubkey', 'created_at', 'kind', 'content', 'sig', 'tags');
    fc.assert(
      fc.property(field, fc.jsonValue(), (name, value) => {
        const reading = read(JSON.stringify({ ...event, [name]: value }));
        expect(['valid', 'refused']).toContain(reading.outcome);
        if (JSON.stringify(value) !== JSON.stringify(event[name as keyof Event])) {
          expect(reading).toEqual(verdict);
        }
      }),
    );
  });

  it('takes what is signed and keeps the rules, and only that, whatever the tags', () => {
    const name = fc.constantFrom('p', 'e', 'a', 'P', 'amount', 'relays', 'k', 'client');
    const value = fc.constantFrom(
      RECIPIENT,
      SOMEBODY_ELSE,
      TEST_ZAP_PUBKEY,
      EVENT_ID,
      '21000',
      '',
      'wss://a.example',
      'ws://127.0.0.1',
      `30023:${SOMEBODY_ELSE}:d`,
    );
    const tag = fc.tuple(name, fc.array(value, { maxLength: 3 })).map(([n, rest]) => [n, ...rest]);
    const sender = generateSecretKey();
    fc.assert(
      fc.property(fc.array(tag, { maxLength: 4 }), (tags) => {
        const { text } = made({ tags, sender });
        const count = (wanted: string) => tags.filter(([n]) => n === wanted).length;
        const firstsOf = (wanted: string) => tags.filter(([n]) => n === wanted).map(([, v]) => v);
        const isRight =
          count('p') + count('amount') + count('relays') === 0 &&
          count('e') <= 1 &&
          count('P') <= 1 &&
          firstsOf('P').every((v) => v === TEST_ZAP_PUBKEY) &&
          firstsOf('e').every((v) =>
            [RECIPIENT, SOMEBODY_ELSE, TEST_ZAP_PUBKEY, EVENT_ID].includes(v ?? ''),
          ) &&
          firstsOf('a').every((v) => v === `30023:${SOMEBODY_ELSE}:d`);
        expect(read(text).outcome).toBe(isRight ? 'valid' : 'refused');
      }),
      { numRuns: 200 },
    );
  });
});

describe('the relays of a zap request', () => {
  it('are those that can be reached, each once, in its order', () => {
    const relays = [
      'ws://localhost:1',
      'WSS://B.example/',
      'wss://a.example',
      'wss://b.example',
      'wss://b.example/inbox',
      '',
    ];
    const { text } = made({ relays });
    expect(zapRequestRelays(text, { allowPrivate: false })).toEqual([
      'wss://b.example',
      'wss://a.example',
      'wss://b.example/inbox',
    ]);
    expect(zapRequestRelays(text, { allowPrivate: true })[0]).toBe('ws://localhost:1');
  });

  it('are two of one host at the most, whatever its ports and paths', () => {
    const many = Array.from({ length: 50 }, (_, index) => `wss://named.example/${index}`);
    const relays = [...many, 'wss://Named.example.:443/x', 'wss://other.example'];
    const { text } = made({ relays });
    expect(zapRequestRelays(text, { allowPrivate: false })).toEqual([
      'wss://named.example/0',
      'wss://named.example/1',
      'wss://other.example',
    ]);
  });

  it('are two of one port in development, where every relay has the same host', () => {
    const relays = [1, 2].flatMap((port) =>
      ['', '/a', '/b'].map((x) => `ws://127.0.0.1:${port}${x}`),
    );
    const { text } = made({ relays });
    expect(zapRequestRelays(text, { allowPrivate: true })).toEqual([
      'ws://127.0.0.1:1',
      'ws://127.0.0.1:1/a',
      'ws://127.0.0.1:2',
      'ws://127.0.0.1:2/a',
    ]);
  });

  it('are the first twenty', () => {
    const { text } = made({ relays: ['ws://localhost:1', ...numbered(99)] });
    expect(zapRequestRelays(text, { allowPrivate: false })).toEqual(numbered(20));
  });
});

function read(text: string, rules: Partial<ZapRules> = {}) {
  return readZapRequest([text], { ...RULES, ...rules }, verifyEvent);
}

function made(order: Partial<ZapOrder> = {}) {
  return zapRequest({ recipient: RECIPIENT, amountMsat: 21_000, ...order });
}

function noteOf(kind: number): Event {
  const template = { kind, created_at: 1, content: '', tags: [['d', 'slug']] };
  return finalizeEvent(template, generateSecretKey());
}

function withoutTag(name: string): Pick<ZapOrder, 'change'> {
  return {
    change: (template) => ({ ...template, tags: template.tags.filter((tag) => tag[0] !== name) }),
  };
}

function withTag(name: string, values: readonly string[]): Pick<ZapOrder, 'change'> {
  return {
    change: (template) => ({
      ...template,
      tags: template.tags.map((tag) => (tag[0] === name ? [name, ...values] : tag)),
    }),
  };
}

function twice(tag: string[]): string[][] {
  return [tag, tag];
}

function many(count: number, tag: string[]): string[][] {
  return Array.from({ length: count }, () => tag);
}

function numbered(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `wss://r${index}.example`);
}
