import { gzipSync } from 'node:zlib';
import type { Dice } from '../../../src/demo/test-mint/dice.ts';
import { damaged, strangeText, strangeValue } from './strange-text.ts';

/** A body and what its headers say of it, beside its length. */
export interface Body {
  bytes: Buffer;
  headers: readonly (readonly [string, string])[];
}

const NESTING = 10_000;
const MEBIBYTE = 1024 * 1024;
/** One body in so many is a mebibyte long: they would take all the time. */
const HUGE_SHARE = 1 / 200;

const TYPES = [
  ...['application/json', 'application/json', 'application/json; charset=utf-8', 'text/plain', ''],
  ...[
    'application/json; charset=utf-16',
    'application/json; charset=x',
    'multipart/form-data',
    '*/*',
  ],
  ...['application/x-www-form-urlencoded', 'application/json;'.repeat(50), 'a/b/c', ';', 'json'],
];

/** A body for an endpoint that wants these fields. */
export function strangeBody(dice: Dice, fields: readonly string[], mintUrl: string): Body {
  const document = strangeDocument(dice, fields, mintUrl);
  const type: [string, string][] = dice.happens(0.9) ? [['content-type', dice.pick(TYPES)]] : [];
  const encoded = (bytes: Buffer, ...more: [string, string][]) => ({
    bytes,
    headers: [...type, ...more],
  });
  if (dice.happens(HUGE_SHARE)) {
    return encoded(Buffer.alloc(MEBIBYTE, document));
  }
  return dice.pick<() => Body>([
    () => encoded(Buffer.from(document)),
    () => encoded(Buffer.from(document)),
    () => encoded(Buffer.from(document)),
    () => encoded(Buffer.from(damaged(dice, document))),
    () => encoded(Buffer.from(`\ufeff${document}`)),
    () => encoded(Buffer.from(document, 'utf16le')),
    () => encoded(Buffer.from(document, 'latin1')),
    () => encoded(gzipSync(document), ['content-encoding', 'gzip']),
    () => encoded(Buffer.from(document), ['content-encoding', dice.pick(['gzip', 'br', 'x', ''])]),
    () => encoded(Buffer.concat([Buffer.from(document), Buffer.from([0xff, 0xfe, 0, 0x80])])),
    () => encoded(Buffer.alloc(Math.floor(dice.between(0, 40_000)), ' ')),
    () => encoded(Buffer.alloc(0)),
  ])();
}

function strangeDocument(dice: Dice, fields: readonly string[], mintUrl: string): string {
  const field = fields[0] ?? 'field';
  const right = rightValue(dice, field, mintUrl);
  const value = JSON.stringify(strangeValue(dice));
  return dice.pick<() => string>([
    () => JSON.stringify({ [field]: right }),
    () => `{"${field}":${value}}`,
    () => `{"${field}":${value}}`,
    () => `{"${field}":${JSON.stringify(right)},"${field}":${value}}`,
    () => `{"__proto__":{"${field}":${JSON.stringify(right)}},"${field}":${value}}`,
    () => `{"constructor":{"prototype":{"${field}":true}},"${field}":${value}}`,
    () => `{"${field}":${JSON.stringify(right)},"toString":1,"then":1,"":${value}}`,
    () => value,
    () => `${'['.repeat(NESTING)}${']'.repeat(NESTING)}`,
    () => `{"${field}":${'{"a":'.repeat(NESTING / 2)}1${'}'.repeat(NESTING / 2)}}`,
    () => '['.repeat(NESTING),
    () =>
      `{"${field}":${dice.pick(['1e99999', '-', '01', 'NaN', '"\\u00"', "'x'", '"\\ud800"', '"\u0001"'])}}`,
    () => `{"${field}":"${strangeText(dice, 31_000).replaceAll('"', '')}"}`,
    () => `${field}=${strangeText(dice, 100)}`,
    () => `{${`"${field}":1,`.repeat(1_500)}"${field}":true}`,
  ])();
}

function rightValue(dice: Dice, field: string, mintUrl: string): unknown {
  switch (field) {
    case 'mint_url':
      // None that leads out of this machine.
      return dice.pick([
        ...[
          mintUrl,
          `${mintUrl}/`,
          'http://127.0.0.1:1',
          'file:///etc/passwd',
          'x',
          '//',
          'http://',
        ],
        ...[
          `${mintUrl}?x`,
          `${mintUrl}#x`,
          'http://a:b@127.0.0.1:1',
          'javascript:1',
          'http://[::1]:1',
        ],
        ...[
          'http://0x7f.1:1',
          'http://127.1:1',
          `${mintUrl}/../..`,
          'http://127.0.0.1:99999',
          'HTTP:1',
        ],
      ]);
    case 'lockQuotes':
      return dice.happens(0.5);
    default:
      return dice.pick(['alice', 'npub1alice', 'al', 'a'.repeat(65), 'ALICE', 'al ice', 'аlice']);
  }
}
