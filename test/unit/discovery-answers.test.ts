import { expect, it } from 'vitest';
import { DiscoveryAnswers } from '../../src/http/discovery-answers.ts';
import { PublicHost } from '../../src/http/public-host.ts';

/** What payers are told of a recipient who stays the same, while something else is different. */

const ONE = 'https://one.example';
const OTHER = 'https://other.example';

const RECIPIENT = {
  pubkey: 'ab',
  name: 'alice',
  mintUrl: 'https://mint.example',
  lockQuotes: false,
};
const ASKED = { origin: ONE, user: 'alice', range: { minMsat: 1_000, maxMsat: 2_000 } };

const answers = new DiscoveryAnswers(new PublicHost([ONE, OTHER]), 'Pay {address}', {
  commentAllowed: 255,
});

it.each([
  ['the limits of the mint', { range: { minMsat: 1_000, maxMsat: 9_000 } }],
  ['the least of the mint', { range: { minMsat: 2_000, maxMsat: 2_000 } }],
  ['the host by which the payer came', { origin: OTHER }],
  ['the address that the payer knows', { user: 'npub1alice' }],
])('they are told %s, and the other again afterwards', (_what, changed) => {
  for (const asked of [ASKED, { ...ASKED, ...changed }, ASKED]) {
    const { origin, user, range } = asked;
    const address = `${user}@${new URL(origin).host}`;
    expect(JSON.parse(answers.of(RECIPIENT, asked))).toEqual({
      tag: 'payRequest',
      callback: `${origin}/.well-known/lnurlp/${user}`,
      minSendable: range.minMsat,
      maxSendable: range.maxMsat,
      metadata: JSON.stringify([
        ['text/plain', `Pay ${address}`],
        ['text/identifier', address],
      ]),
      commentAllowed: 255,
    });
  }
});
