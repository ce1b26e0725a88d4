import { expect, it } from 'vitest';
import { extractReceiptRelays } from '../../../src/zaps/zap-request.ts';

it.each<[string, string[], string[]]>([
  [
    'public relays once each, in order',
    ['ws://localhost:7000', 'WSS://B.example/', 'wss://a.example', 'wss://b.example', ''],
    ['wss://b.example', 'wss://a.example'],
  ],
  [
    'at most two relays of one host',
    [...'abc'].map((path) => `wss://a.example/${path}`).concat('wss://A.example.:443/x'),
    ['wss://a.example/a', 'wss://a.example/b'],
  ],
  ['at most 20 relays', createRelayUrls(150), createRelayUrls(20)],
  ['only relays among the first hundred', [...Array(100).fill('no'), 'wss://a.example'], []],
])('extractReceiptRelays returns %s', (_case, relays, expected) => {
  expect(extractReceiptRelays([['relays', ...relays]], { allowPrivateNetworks: false })).toEqual(
    expected,
  );
});

function createRelayUrls(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `wss://r${index}.example`);
}
