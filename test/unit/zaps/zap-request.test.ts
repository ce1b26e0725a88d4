import fc from 'fast-check';
import { type Event, finalizeEvent, generateSecretKey, getPublicKey } from 'nostr-tools';
import { beforeAll, describe, expect, it } from 'vitest';
import { toUnixSeconds } from '../../../src/clock.ts';
import type { NostrEvent } from '../../../src/nostr/event-schema.ts';
import { type EventVerifier, loadEventVerifier } from '../../../src/nostr/events.ts';
import { createZapReceiptTemplate, parseZapRequest } from '../../../src/zaps/zap-receipts.ts';
import { validateZapRequest, type ZapRequestRules } from '../../../src/zaps/zap-request.ts';
import {
  createZapRequest,
  TEST_ZAP_PUBKEY,
  type ZapRequestOptions,
} from '../../helpers/relays/zap-requests.ts';

// test/acceptance/zap-requests.test.ts covers common cases and encodings.

const RECIPIENT = getPublicKey(generateSecretKey());
const OTHER_PUBKEY = getPublicKey(generateSecretKey());
const EVENT_ID = 'e'.repeat(64);
const LOCAL_RELAY = 'ws://localhost:7000';
const RULES: ZapRequestRules = {
  recipient: RECIPIENT,
  amountMsat: 21_000,
  zapPubkey: TEST_ZAP_PUBKEY,
  nowSeconds: toUnixSeconds(Date.now()),
};

let verifyEvent: EventVerifier;

beforeAll(async () => {
  verifyEvent = await loadEventVerifier();
});

describe('validateZapRequest with a valid request', () => {
  it.each([1, 30_023])('accepts a zap of an event of kind %i', (kind) => {
    const template = { kind, created_at: 1, content: '', tags: [['d', 'slug']] };
    const note = finalizeEvent(template, generateSecretKey());
    const { text } = signRequest({ note, recipient: note.pubkey });
    expect(validate(text, { recipient: note.pubkey })).toEqual({ outcome: 'valid', json: text });
  });

  it.each<[string, (event: Event) => string]>([
    ['whitespace', (event) => ` \n${JSON.stringify(event, null, 2)}\t`],
    ['escaped letters', (event) => JSON.stringify(event).replaceAll('a', '\\u0061')],
  ])('accepts JSON with %s and returns it unchanged', (_case, serialise) => {
    const text = serialise(signRequest().event);
    expect(validate(text)).toEqual({ outcome: 'valid', json: text });
  });

  it.each<[string, Partial<ZapRequestOptions>]>([
    ['no amount', replaceTag('amount', null)],
    ['the receipt key in a P tag', { tags: [['P', TEST_ZAP_PUBKEY]] }],
    ['unknown tags', { tags: [['client', 'x', 'y'], ['anon'], [], ['k', '1']] }],
    ['additional values in a tag', { tags: [['e', EVENT_ID, 'wss://a.example', 'root']] }],
    ['an `a` tag of 1,024 bytes', { tags: [['a', `30023:${EVENT_ID}:${'x'.repeat(953)}`]] }],
    ['special characters in the comment', { comment: '"\\\n\t\b\0\u001f\u007f /%+&#=é🥜\u2028' }],
    ['a hundred and fifty relays', { relays: createRelayUrls(150) }],
    ['no usable relay', { relays: ['', LOCAL_RELAY, 'wss://10.0.0.1', 'no'] }],
    ['no list of relays', replaceTag('relays', null)],
  ])('accepts an event with %s', (_case, options) => {
    const { text } = signRequest(options);
    expect(validate(text)).toEqual({ outcome: 'valid', json: text });
  });

  it.each([-600, 600])('accepts a `created_at` %i seconds from now', (seconds) => {
    const { event, text } = signRequest();
    const nowSeconds = event.created_at - seconds;
    expect(validate(text, { nowSeconds })).toEqual({ outcome: 'valid', json: text });
    expect(validate(text, { nowSeconds: nowSeconds - Math.sign(seconds) })).toEqual({
      outcome: 'rejected',
      reason:
        "The zap request must have a 'created_at' within 10 minutes of the time of this server.",
    });
  });

  it.each<[string, Partial<ZapRequestOptions>]>([
    ['another key', { recipient: OTHER_PUBKEY }],
    ['no key', replaceTag('p', [])],
  ])('takes a request for %s as an ordinary payment', (_case, options) => {
    expect(validate(signRequest(options).text)).toEqual({ outcome: 'other_recipient' });
  });
});

describe('validateZapRequest with an invalid request', () => {
  it.each<[string, Partial<ZapRequestOptions>, string]>([
    ['no recipient', replaceTag('p', null), "exactly one 'p' tag"],
    ['the recipient twice', { tags: [['p', RECIPIENT]] }, "exactly one 'p' tag"],
    ['two events', { tags: Array(2).fill(['e', EVENT_ID]) }, "at most one 'e' tag"],
    ['the receipt key of another service', { tags: [['P', OTHER_PUBKEY]] }, "in its 'P' tag"],
    ['101 tags', { tags: Array(98).fill(['t', 'x']) }, 'at most 100 tags'],
    ['a long address', { tags: [['a', `1:${EVENT_ID}:${'x'.repeat(958)}`]] }, '1024 bytes'],
    ['an upper-case event id', { tags: [['e', EVENT_ID.toUpperCase()]] }, "in its 'e' tag"],
    ['an address without a key', { tags: [['a', '30023:x:y']] }, "in its 'a' tag"],
    ['a kind above 65535', { tags: [['a', `65536:${EVENT_ID}:x`]] }, "in its 'a' tag"],
    ['a zero before the amount', replaceTag('amount', ['021000']), ': 21000 millisatoshis'],
    ['two amounts', { tags: [['amount', '21000']] }, "at most one 'amount' tag"],
    ['more than 6 KiB of escaped text', { comment: '"'.repeat(1_500) }, 'in 6144 bytes'],
  ])('rejects an event with %s without checking its signature', (_case, options, reason) => {
    expectRejectedUnverified(signRequest(options).text, reason);
  });

  it.each<[object, string]>([
    [{ kind: 1 }, 'must be of kind 9734'],
    [{ id: EVENT_ID.toUpperCase() }, "digits as its 'id'"],
    [{ created_at: '1' }, "Unix seconds as its 'created_at'"],
    [{ created_at: 1.5 }, "Unix seconds as its 'created_at'"],
    [{ content: { a: 1 } }, "text as its 'content'"],
    [{ tags: [['p', null]] }, "lists of text as its 'tags'"],
  ])('rejects an event with %j without checking its signature', (changes, reason) => {
    expectRejectedUnverified(JSON.stringify({ ...signRequest().event, ...changes }), reason);
  });

  it.each([
    ['an empty text', ''],
    ['base64', Buffer.from(signRequest().text).toString('base64')],
    ['nested objects', '{"a":'.repeat(800)],
  ])('rejects %s without checking a signature', (_case, text) => {
    expectRejectedUnverified(text, 'is not JSON. Encode it with encodeURIComponent, once');
  });

  function expectRejectedUnverified(text: string, reason: string): void {
    const result = validateZapRequest([text], RULES, () => {
      throw new Error('the signature was checked');
    });
    expect(result).toEqual({
      outcome: 'rejected',
      reason: expect.stringMatching(`^The zap request .*${reason}`),
    });
  }
});

describe('validateZapRequest signature check', () => {
  const forgedText = signRequest({ comment: '1 + 1' }).text.replace(/"sig":"..../, '"sig":"0000');

  const rejection = { outcome: 'rejected', reason: expect.stringContaining('signature') };

  it('accepts the first decoding of the query parameter with a valid signature, or rejects them all with the first error', () => {
    const { text } = signRequest({ comment: '1 + 1' });
    const invalidTexts = [forgedText, text.replace('+', ' '), ''];
    const { outcome } = validateZapRequest([...invalidTexts, text], RULES, verifyEvent);
    expect(outcome).toBe('valid');
    expect(validateZapRequest(invalidTexts, RULES, verifyEvent)).toEqual(rejection);
  });

  it.each([{ comment: '\ud83e' }, { tags: [['t', '\udd5c']] }])(
    'rejects %j, because programs hash lone surrogates differently',
    (options) => {
      expect(validate(signRequest(options).text)).toEqual(rejection);
    },
  );

  it('checks at most four signatures per request', () => {
    const texts = ['1 + 1', '2 + 2'].map((sum) => encodeURI(forgedText.replace('1 + 1', sum)));
    let checkCount = 0;
    validateZapRequest(texts, RULES, (event) => {
      checkCount += 1;
      return verifyEvent(event);
    });
    expect(checkCount).toBe(4);
  });
});

it('validateZapRequest rejects generated text without throwing', () => {
  const tokens = ['{', '}', '[', ']', '"', ':', ',', '%', '7B', '\\u', '\ud800', '\0'];
  const texts = fc.oneof(
    fc.json(),
    fc.json().map(encodeURIComponent),
    fc.array(fc.constantFrom(...tokens)).map((parts) => parts.join('')),
  );
  fc.assert(fc.property(texts, (text) => validate(text).outcome === 'rejected'));
});

it('validateZapRequest limits a request so that its receipt message is shorter than 16 KiB', () => {
  const tags = [
    ['a', `30023:${EVENT_ID}:${'\0'.repeat(158)}`],
    ['e', EVENT_ID],
    ['k', '65535'],
  ];
  const createText = (length: number) => signRequest({ tags, comment: '"'.repeat(length) }).text;
  expect(validate(createText(1_100)).outcome).toBe('rejected');
  const text = createText(1_080);
  expect(validate(text).outcome).toBe('valid');
  const template = createZapReceiptTemplate(parseZapRequest(text) as NostrEvent, {
    zapRequestJson: text,
    request: 'x'.repeat(8_192),
    createdAtSeconds: 9_999_999_999,
  });
  const receipt = { ...template, pubkey: EVENT_ID, id: EVENT_ID, sig: EVENT_ID.repeat(2) };
  const bytes = Buffer.byteLength(JSON.stringify(['EVENT', receipt]));
  expect(bytes).toBeGreaterThan(15 * 1024);
  expect(bytes).toBeLessThan(16 * 1024);
});

function validate(text: string, rules: Partial<ZapRequestRules> = {}) {
  return validateZapRequest([text], { ...RULES, ...rules }, verifyEvent);
}

function signRequest(options: Partial<ZapRequestOptions> = {}) {
  return createZapRequest({ recipient: RECIPIENT, amountMsat: 21_000, ...options });
}

function replaceTag(
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

function createRelayUrls(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `wss://r${index}.example`);
}
