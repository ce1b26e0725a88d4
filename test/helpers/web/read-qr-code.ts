import { bech32 } from '@scure/base';
import type { Locator } from 'playwright-core';
import { decodeQR } from 'qr/decode.js';

/** Decodes a QR code as a phone that looks at the screen does. */
export async function readQrCode(locator: Locator): Promise<string> {
  const png = await locator.screenshot();
  const { width, height, pixels } = await locator.page().evaluate(async (base64) => {
    const image = await createImageBitmap(new Blob([Uint8Array.fromBase64(base64)]));
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
}

/**
 * Decodes the QR code of a Lightning address (LUD-01, fallback scheme).
 *
 * @returns the URL that a camera opens, and the one that a wallet requests
 */
export async function readAddressQrCode(
  locator: Locator,
): Promise<{ pageUrl: string; lnurlPayUrl: string }> {
  const pageUrl = await readQrCode(locator);
  const [, lnurl = ''] = /[?&]lightning=(LNURL1[02-9AC-HJ-NP-Z]+)$/.exec(pageUrl) ?? [];
  const { words } = bech32.decode(lnurl as `${string}1${string}`, false);
  return { pageUrl, lnurlPayUrl: Buffer.from(bech32.fromWords(words)).toString() };
}
