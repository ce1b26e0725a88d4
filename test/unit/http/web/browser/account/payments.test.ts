import '../../../../../helpers/web/english-page.ts';
import { describe, expect, it } from 'vitest';
import {
  formatPaymentsCsv,
  type Payment,
} from '../../../../../../src/http/web/browser/account/payments.ts';

const HEADER = 'time,amount_sat,state,mint,comment,zapper_npub,quote_expires,tag';

const PAYMENT: Payment = {
  paidAt: 1_763_712_499,
  expiresAt: 1_763_716_098,
  mintUrl: 'https://mint.example',
  quoteId: 'secret-quote-id',
  locked: false,
  amount: 21,
  state: 'PAID',
};

function formatRow(payment: Partial<Payment>): string {
  const [, ...rows] = formatPaymentsCsv([{ ...PAYMENT, ...payment }]).split('\r\n');
  return rows.join('\r\n');
}

describe('formatPaymentsCsv', () => {
  it('writes a header and one line per payment, ended by CRLF', () => {
    const csv = formatPaymentsCsv([
      PAYMENT,
      { ...PAYMENT, amount: 1_000, state: 'ISSUED', comment: 'thanks' },
    ]);
    expect(csv).toBe(
      `${HEADER}\r\n` +
        '2025-11-21T08:08:19.000Z,21,waiting to be collected,https://mint.example,,,2025-11-21T09:08:18.000Z,\r\n' +
        '2025-11-21T08:08:19.000Z,1000,collected,https://mint.example,thanks,,2025-11-21T09:08:18.000Z,\r\n',
    );
  });

  it('contains the tag of the address, which is no formula', () => {
    expect(formatRow({ tag: 'shop' })).toMatch(/,shop\r\n$/);
    expect(formatRow({ tag: '-1+1' })).toMatch(/,'-1\+1\r\n$/);
  });

  it('contains the zapper and the text of a zap', () => {
    const zapRequest = JSON.stringify({ pubkey: '7e'.repeat(32), content: 'great post' });
    expect(formatRow({ zapRequest })).toContain(
      ',great post,npub10el8uln70el8uln70el8uln70el8uln70el8uln70el8uln70elqm6360c,',
    );
  });

  it.each([
    ['a,b', '"a,b"'],
    ['say "hi"', '"say ""hi"""'],
    ['two\r\nlines', '"two\r\nlines"'],
    ['a\tb', '"a\tb"'],
  ])('quotes %j', (comment, field) => {
    expect(formatRow({ comment })).toContain(`,${field},,`);
  });

  it.each([
    ['=1+1', "'=1+1"],
    ['@SUM(A1)', "'@SUM(A1)"],
    ['＝1+1', "'＝1+1"],
    ['\t=1', `"'\t'=1"`],
    // Some spreadsheets split lines at semicolons and tabs, even within quotation marks.
    ['hi;=1+1', `"hi;'=1+1"`],
    ['hi\t@SUM(A1)', `"hi\t'@SUM(A1)"`],
    ['hi\n=1+1', `"hi\n'=1+1"`],
    ['=HYPERLINK("https://a.example","b")', `"'=HYPERLINK(""https://a.example"",""b"")"`],
  ])('prevents a spreadsheet from evaluating %j', (comment, field) => {
    expect(formatRow({ comment })).toContain(`,${field},,`);
  });
});
