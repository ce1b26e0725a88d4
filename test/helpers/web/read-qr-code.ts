import { bech32 } from '@scure/base';
import type { Locator } from 'playwright-core';
import { decodeQR } from 'qr/decode.js';

/** Decodes a QR code as a phone that looks at the screen does. */
export async function readQrCode(locator: Locator): Promise<string> {
  const png = await locator.screenshot();
  const page = await locator.page().context().browser()?.newPage();
  if (page === undefined) {
    throw new Error('the browser was closed');
  }
  try {
    const { width, height, pixels } = await page.evaluate(async (base64) => {
      const image = new Image();
      image.src = `data:image/png;base64,${base64}`;
      await image.decode();
      const canvas = new OffscreenCanvas(image.width, image.height);
      const context = canvas.getContext('2d') as OffscreenCanvasRenderingContext2D;
      context.drawImage(image, 0, 0);
      const { data } = context.getImageData(0, 0, image.width, image.height);
      return {
        width: image.width,
        height: image.height,
        pixels: new Uint8Array(data.buffer).toBase64(),
      };
    }, png.toString('base64'));
    return decodeQR({ width, height, data: Uint8Array.fromBase64(pixels) });
  } finally {
    await page.close();
  }
}

/** Decodes the QR code of a Lightning address (LUD-01). @returns the URL that wallets request */
export async function readLnurl(locator: Locator): Promise<string> {
  const uri = await readQrCode(locator);
  const [, lnurl = ''] = /^lightning:(LNURL1.+)$/.exec(uri) ?? [];
  const { words } = bech32.decode(lnurl as `${string}1${string}`, false);
  return Buffer.from(bech32.fromWords(words)).toString();
}
