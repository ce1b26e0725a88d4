import { finalizeEvent, generateSecretKey, getPublicKey } from 'nostr-tools';
import { expect, it } from 'vitest';
import { createZapReceiptTemplate, parseZapRequest } from '../../../src/zaps/zap-receipts.ts';

const SENDER_KEY = generateSecretKey();
const SENDER_PUBKEY = getPublicKey(SENDER_KEY);
const RECIPIENT = 'ab'.repeat(32);
const NOTE_ID = 'cd'.repeat(32);
const ARTICLE_ADDRESS = `30023:${RECIPIENT}:a title`;
const RELAYS_TAG = ['relays', 'wss://relay.example', 'wss://other.example'];
const PAYMENT = { request: `lnbc210n1${'q'.repeat(60)}`, createdAtSeconds: 1_750_000_000 };

it.each<[string, string[][], string[][]]>([
  ['a profile', [['amount', '21000']], []],
  [
    'a note',
    [
      ['e', NOTE_ID, 'wss://hint.example', 'root'],
      ['k', '1'],
    ],
    [
      ['e', NOTE_ID],
      ['k', '1'],
    ],
  ],
  ['an article', [['a', ARTICLE_ADDRESS]], [['a', ARTICLE_ADDRESS]]],
  [
    'a profile with other tags',
    [
      ['preimage', '00'.repeat(32)],
      ['P', RECIPIENT],
    ],
    [],
  ],
  ...['', 'one', '123456'].map((kind): [string, string[][], string[][]] => [
    `the invalid kind '${kind}'`,
    [['k', kind]],
    [],
  ]),
])('creates a receipt with only the tags of NIP-57 for a zap of %s', (_case, tags, copiedTags) => {
  const zapRequestJson = createZapRequestJson([
    ['p', RECIPIENT, 'wss://hint.example', 'petname'],
    RELAYS_TAG,
    ...tags,
  ]);
  expect(createTemplate(zapRequestJson)).toEqual({
    kind: 9735,
    created_at: PAYMENT.createdAtSeconds,
    content: '',
    tags: [
      ['p', RECIPIENT],
      ...copiedTags,
      ['P', SENDER_PUBKEY],
      ['bolt11', PAYMENT.request],
      ['description', zapRequestJson],
    ],
  });
});

function createTemplate(zapRequestJson: string) {
  const zapRequest = parseZapRequest(zapRequestJson);
  return zapRequest && createZapReceiptTemplate(zapRequest, { zapRequestJson, ...PAYMENT });
}

function createZapRequestJson(tags: string[][], content = ''): string {
  const template = { kind: 9734, created_at: 1_749_999_000, content, tags };
  return JSON.stringify(finalizeEvent(template, SENDER_KEY));
}
