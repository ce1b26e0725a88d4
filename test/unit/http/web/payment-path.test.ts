import { describe, expect, it } from 'vitest';
import { buildLnurlUri } from '../../../../src/http/web/elements.ts';
import { findPaymentPath } from '../../../../src/http/web/payment-path.ts';

const HOSTS = ['pay.example', 'www.example:8443'];
const NPUB = 'npub10elfcs4fr0l0r8af98jlmgdh9c8tcxjvz9qkw038js35mp4dma8qzvjptg';

const LNURL_URI = buildLnurlUri('https://pay.example', 'alice');

describe('the payment page', () => {
  it.each([
    ['a username', 'alice', '/alice'],
    ['a username in upper case with spaces', '  ALICE ', '/alice'],
    ['an npub', NPUB, `/${NPUB}`],
    ['a nostr: URI', `nostr:${NPUB}`, `/${NPUB}`],
    ['an address on the canonical host', 'alice@pay.example', '/alice'],
    ['an address on another public host with a port', 'alice@WWW.example:8443', '/alice'],
    ['a lightning: URI of an address', 'lightning:alice@pay.example', '/alice'],
    ['a username after an @', '@alice', '/alice'],
    ['an address after a ₿', '₿alice@pay.example', '/alice'],
    ['a username that begins like an invoice', 'lnbc21', '/lnbc21'],
    ['the URL of a payment page', 'https://pay.example/Alice#top', '/alice'],
    [
      'a payment link',
      'pay.example/Alice?amount=2%20100&lightning=x&comment=Table%204',
      '/alice?amount=2+100&comment=Table+4',
    ],
    ['an address with an amount', 'alice@pay.example?amount=21', '/alice?amount=21'],
    ['the URL of an invoice page', 'https://pay.example/alice/invoice/abc', '/alice'],
    ['an LNURL', LNURL_URI, '/alice'],
  ])('is found for %s', (_case, text, path) => {
    expect(findPaymentPath(text, HOSTS)).toEqual({ path });
  });

  const otherServer = { key: 'home.otherServer', values: { host: 'pay.example' } };
  const invalidName = { key: 'home.invalidName' };
  const invoice = { key: 'home.invoice' };
  const secretKey = { key: 'script.common.secretKey' };

  it.each([
    ['another server', 'alice@other.example', otherServer],
    ['an unreadable LNURL', `${LNURL_URI}q`, invalidName],
    ['a subdomain', 'alice@x.pay.example', otherServer],
    ['a wrong npub', NPUB.replace('npub10', 'npub11'), { key: 'home.invalidNpub' }],
    ['a secret key', `nsec1${'q'.repeat(58)}`, secretKey],
    ['an encrypted secret key', `ncryptsec1${'q'.repeat(90)}`, secretKey],
    ['an invoice', `lightning:LNBC21U1${'P'.repeat(200)}`, invoice],
    ['an invoice without an amount', `lnbc1${'p'.repeat(200)}`, invoice],
    ['a path on another host', '//other.example', invalidName],
    ['nothing', '  ', invalidName],
  ])('is not found for %s', (_case, text, problem) => {
    expect(findPaymentPath(text, HOSTS)).toEqual({ problem });
  });
});
