import { decodeQR } from 'qr/decode.js';
import { describe, expect, it } from 'vitest';
import { encodeQrCode } from '../../../../src/http/web/qr-code.ts';

/** More than a camera needs to find the modules. */
const PIXELS_PER_MODULE = 4;

describe('a QR code', () => {
  it.each([
    ['an address', `lightning:LNURL1${'DP68GUP69UHKCMMRV9K'.repeat(5)}`],
    ['an invoice', `lightning:LNBC210N1P4${'S3RLZSP5ZYG3ZYG'.repeat(20)}`],
    ['a payment request', `creqA${'pWFhGB9hdWNzYXRhbYF4'.repeat(10)}`],
  ])('of %s contains the text', (_case, text) => {
    const { path, viewBox } = encodeQrCode(text);
    expect(decodeQR(drawPath(path, Number(viewBox.split(' ')[2])))).toBe(text);
  });
});

/** Draws the rectangles of a path as dark pixels on white. */
function drawPath(path: string, size: number) {
  const width = size * PIXELS_PER_MODULE;
  const data = new Uint8ClampedArray(width * width * 4).fill(255);
  const darken = (x: number, y: number) =>
    data.fill(0, (y * width + x) * 4, (y * width + x) * 4 + 3);
  for (const [, x, y, length] of path.matchAll(/M(\d+) (\d+)h(\d+)v1h-\d+z/g)) {
    for (let row = 0; row < PIXELS_PER_MODULE; row++) {
      for (let column = 0; column < Number(length) * PIXELS_PER_MODULE; column++) {
        darken(Number(x) * PIXELS_PER_MODULE + column, Number(y) * PIXELS_PER_MODULE + row);
      }
    }
  }
  return { width, height: width, data };
}
