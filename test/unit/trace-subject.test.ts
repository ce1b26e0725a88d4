import { nip19 } from 'nostr-tools';
import { describe, expect, it } from 'vitest';
import { readInvoice } from '../../src/domain/bolt11.ts';
import { readTraceSubject } from '../../src/domain/trace-subject.ts';
import { invoiceFor } from '../helpers/scripted-mint.ts';

/** The generator point's x coordinate. */
const PUBKEY = '79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798';
const NPUB = nip19.npubEncode(PUBKEY);

const QUOTE_ID = '01998a3e-6f5c-7d3a-9b1e-2c4d5e6f7a8b';

describe('what an operator asks about', () => {
  it('is an invoice, in any case and with or without its scheme', () => {
    const invoice = invoiceFor(21_000);
    const paymentHash = readInvoice(invoice)?.paymentHash;
    expect(paymentHash).toMatch(/^[0-9a-f]{64}$/);
    for (const text of [
      invoice,
      invoice.toUpperCase(),
      `lightning:${invoice}`,
      `LIGHTNING:${invoice.toUpperCase()}`,
      ` ${invoice}\n`,
    ]) {
      expect(readTraceSubject(text)).toEqual({
        outcome: 'read',
        candidates: [{ kind: 'payment_hash', paymentHash }],
      });
    }
  });

  it('is an npub, in any case, or the Lightning address of one', () => {
    for (const text of [NPUB, NPUB.toUpperCase(), `${NPUB}@example.com`, `${NPUB}@[::1]:3000`]) {
      expect(readTraceSubject(text)).toEqual({
        outcome: 'read',
        candidates: [{ kind: 'pubkey', pubkey: PUBKEY }],
      });
    }
  });

  it('is a payment hash before it is a key, a name or a quote id', () => {
    for (const text of [PUBKEY, PUBKEY.toUpperCase()]) {
      expect(readTraceSubject(text)).toEqual({
        outcome: 'read',
        candidates: [
          { kind: 'payment_hash', paymentHash: PUBKEY },
          { kind: 'pubkey', pubkey: PUBKEY },
          { kind: 'name', name: PUBKEY },
          { kind: 'quote_id', quoteId: text },
        ],
      });
    }
  });

  it('is a name before it is a quote id', () => {
    expect(readTraceSubject('Alice7')).toEqual({
      outcome: 'read',
      candidates: [
        { kind: 'name', name: 'alice7' },
        { kind: 'quote_id', quoteId: 'Alice7' },
      ],
    });
    expect(readTraceSubject('alice@example.com')).toEqual({
      outcome: 'read',
      candidates: [
        { kind: 'name', name: 'alice' },
        { kind: 'quote_id', quoteId: 'alice@example.com' },
      ],
    });
  });

  it.each([
    ['a UUID', QUOTE_ID],
    ['base64url that begins like an option', '-Ab_cdefghijklmnopqrstuvwxyz0123456789ABCDE'],
    ['as long as can be', 'x.'.repeat(128)],
    ['that begins like an invoice', 'lnbc_short'],
  ])('is a quote id: %s', (_what, quoteId) => {
    expect(readTraceSubject(quoteId)).toEqual({
      outcome: 'read',
      candidates: [{ kind: 'quote_id', quoteId }],
    });
  });

  it.each([
    ['an invoice that is cut off', invoiceFor(1000).slice(0, -1), 'invalid_invoice'],
    ['an invoice with a wrong letter', `${invoiceFor(1000).slice(0, -1)}b`, 'invalid_invoice'],
    ['a scheme and no invoice', 'lightning:alice', 'invalid_invoice'],
    ['an npub that is cut off', NPUB.slice(0, -1), 'invalid_npub'],
    ['an npub with a wrong letter at a host', `${NPUB.slice(0, -1)}q@example.com`, 'invalid_npub'],
    ['nothing', '', 'invalid_quote_id'],
    ['several words', 'two words', 'invalid_quote_id'],
    ['longer than a quote id', 'x.'.repeat(129), 'invalid_quote_id'],
    ['not of this alphabet', 'zażółć', 'invalid_quote_id'],
  ])('is nothing that could be found: %s', (_what, text, outcome) => {
    expect(readTraceSubject(text)).toEqual({ outcome });
  });
});
