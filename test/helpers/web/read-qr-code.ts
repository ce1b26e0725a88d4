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
    await page.setContent('<img>');
    const { width, height, pixels } = await page.locator('img').evaluate(async (image, base64) => {
      image.src = `data:image/png;base64,${base64}`;
      await image.decode();
      const canvas = image.ownerDocument.createElement('canvas');
      canvas.width = image.width;
      canvas.height = image.height;
      const context = canvas.getContext('2d');
      context.drawImage(image, 0, 0);
      const { data } = context.getImageData(0, 0, image.width, image.height);
      return {
        width: image.width as number,
        height: image.height as number,
        pixels: Array.from(data as Uint8Array, (byte) => String.fromCharCode(byte)).join(''),
      };
    }, png.toString('base64'));
    return decodeQR({ width, height, data: Buffer.from(pixels, 'latin1') });
  } finally {
    await page.close();
  }
}
