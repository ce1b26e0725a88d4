import { createHash } from 'node:crypto';
import { expect, it } from 'vitest';
import { encodeParts } from '../../../../src/http/web/browser/collect/qr-parts.ts';

/** The expected values are from @gandlaf21/bc-ur 1.1.12, with which wallets create and read such codes. */
it('splits a token into the first parts that the library of other wallets creates', () => {
  const token = `cashuB${'aZ09_-'.repeat(133).slice(0, 795)}`;
  const parts = encodeParts(token);
  expect(parts).toHaveLength(6);
  expect(parts[0]).toMatch(/^UR:BYTES\/1-6\/LPADAMCFAXDKCYDNKIJYPRHDLNHKAXCLIAHSJKISKPFWHSHTDYES/);
  expect(createHash('sha256').update(parts.join('\n')).digest('hex')).toBe(
    'd340319d5d07f8035475ad03f449c5ccfa413b942f843ec40cc62583a2f1afe9',
  );
});
