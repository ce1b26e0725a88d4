import { QR_PART_BYTES } from './limits.ts';

/** Splits a text into the parts of a Uniform Resource (BCR-2020-005), each once and unmixed. In upper case. */
export function encodeParts(text: string): string[] {
  const bytes = new TextEncoder().encode(text);
  const message = Uint8Array.of(...encodeCborHead(BYTE_STRING, bytes.length), ...bytes);
  const count = Math.ceil(message.length / QR_PART_BYTES);
  const partLength = Math.ceil(message.length / count);
  return Array.from({ length: count }, (_, index) => {
    // The last part is padded with zeros.
    const data = new Uint8Array(partLength);
    data.set(message.slice(index * partLength, (index + 1) * partLength));
    const part = [
      ...encodeCborHead(ARRAY, 5),
      ...[index + 1, count, message.length, computeCrc32(message)].flatMap((number) =>
        encodeCborHead(UNSIGNED, number),
      ),
      ...encodeCborHead(BYTE_STRING, data.length),
      ...data,
    ];
    return `UR:BYTES/${index + 1}-${count}/${encodeBytewords(Uint8Array.from(part))}`;
  });
}

// Major types of CBOR (RFC 8949).
const UNSIGNED = 0x00;
const BYTE_STRING = 0x40;
const ARRAY = 0x80;

function encodeCborHead(type: number, value: number): number[] {
  if (value < 24) {
    return [type | value];
  }
  const bytes = toBigEndian(value);
  if (value < 0x100) {
    return [type | 24, ...bytes.slice(3)];
  }
  return value < 0x10000 ? [type | 25, ...bytes.slice(2)] : [type | 26, ...bytes];
}

function toBigEndian(value: number): number[] {
  return [24, 16, 8, 0].map((bits) => (value >>> bits) & 0xff);
}

function computeCrc32(bytes: Uint8Array): number {
  let crc = 0xffffffff;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit += 1) {
      crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
    }
  }
  return (crc ^ 0xffffffff) >>> 0;
}

/** The first and the last letter of each of the 256 words (BCR-2020-012). */
const BYTEWORDS = [
  'AEADAOAXAAAHAMATAYASBKBDBNBTBABSBEBYBGBWBBBZCMCHCSCFCYCWCECACKCTCXCLCPCNDKDADSDIDEDTDRDNDWDPDMDL',
  'DYEHEYEOEEECENEMETESFTFRFNFSFMFHFZFPFWFXFYFEFGFLFDGAGEGRGSGTGLGWGDGYGMGUGHGOHFHGHDHKHTHPHHHLHYHE',
  'HNHSIDIAIEIHIYIOISINIMJEJZJNJTJLJOJSJPJKJYKPKOKTKSKKKNKGKEKIKBLBLALYLFLSLRLPLNLTLOLDLELULKLGMNMY',
  'MHMEMOMUMWMDMTMSMKNLNYNDNSNTNNNENBOYOEOTOXONOLOSPDPTPKPYPSPMPLPEPFPAPRQDQZRERPRLRORHRDRKRFRYRNRS',
  'RTSESASRSSSKSWSTSPSOSGSBSFSNTOTKTITTTDTETYTLTBTSTPTATNUYUOUTUEURVTVYVOVLVEVWVAVDVSWLWDWMWPWEWYWS',
  'WTWNWZWFWKYKYNYLYAYTZSZOZTZCZEZM',
].join('');

function encodeBytewords(bytes: Uint8Array): string {
  return [...bytes, ...toBigEndian(computeCrc32(bytes))]
    .map((byte) => BYTEWORDS.slice(2 * byte, 2 * byte + 2))
    .join('');
}
