import { describe, expect, it } from 'vitest';
import { encodeLnurl } from '../../../../src/http/web/lnurl.ts';
import { findPaymentPath } from '../../../../src/http/web/payment-path.ts';

const HOSTS = ['pay.example', 'www.example:8443'];
const NPUB = 'npub10elfcs4fr0l0r8af98jlmgdh9c8tcxjvz9qkw038js35mp4dma8qzvjptg';

const LNURL = encodeLnurl('https://pay.example/.well-known/lnurlp/alice');

describe('the payment page', () => {
  it.each([
    ['a username', 'alice', '/alice'],
    ['a username in upper case with spaces', '  ALICE ', '/alice'],
    ['an npub', NPUB, `/${NPUB}`],
    ['an npub in upper case', NPUB.toUpperCase(), `/${NPUB}`],
    ['a nostr: URI', `nostr:${NPUB}`, `/${NPUB}`],
    ['an address on the canonical host', 'alice@pay.example', '/alice'],
    ['an address on another public host with a port', 'alice@WWW.example:8443', '/alice'],
    ['a lightning: URI of an address', 'lightning:alice@pay.example', '/alice'],
    ['a username after an @', '@alice', '/alice'],
    ['a username in a lightning: URI', 'lightning:alice', '/alice'],
    ['the URL of a payment page', 'https://pay.example/Alice?amount=21', '/alice'],
    ['a URL without its scheme', 'www.example:8443/alice/', '/alice'],
    ['the URL of an invoice page', 'https://pay.example/alice/invoice/abc', '/alice'],
    ['an LNURL', `lightning:${LNURL.toUpperCase()}`, '/alice'],
    ['an LNURL without bech32', 'lnurlp://pay.example/.well-known/lnurlp/alice', '/alice'],
  ])('is found for %s', (_case, text, path) => {
    expect(findPaymentPath(text, HOSTS)).toEqual({ path });
  });

  it.each([
    ['another server', 'alice@other.example', /another server.*@pay\.example/],
    ['a page of another server', 'https://other.example/alice', /another server/],
    ['an unreadable LNURL', `${LNURL}q`, /neither/],
    ['a subdomain', 'alice@x.pay.example', /another server/],
    ['two hosts', 'alice@other.example@pay.example', /another server/],
    ['a wrong npub', NPUB.replace('npub10', 'npub11'), /npub is not valid/],
    ['a secret key', `nsec1${'q'.repeat(58)}`, /secret key/],
    ['a secret key in upper case', `NSEC1${'Q'.repeat(58)}`, /secret key/],
    ['an encrypted secret key', `ncryptsec1${'q'.repeat(90)}`, /secret key/],
    ['a path', '../api', /neither/],
    ['a path on another host', '//other.example', /neither/],
    ['nothing', '  ', /neither/],
  ])('is not found for %s', (_case, text, problem) => {
    expect(findPaymentPath(text, HOSTS)).toEqual({ problem: expect.stringMatching(problem) });
  });
});
