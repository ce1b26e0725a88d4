import { encodeQR } from 'qr';

/** The white border around the modules that scanners need (ISO 18004). */
const QUIET_ZONE_MODULES = 4;

/** The capacity of the largest QR code with low error correction (ISO 18004, version 40). */
export const MAX_QR_CODE_BYTES = 2_953;

/** Returns a QR code as the data of an SVG path in which one unit is one module. Includes the quiet zone. Throws for long texts. */
export function encodeQrCode(text: string): { path: string; viewBox: string } {
  const rows = encodeQR(text, 'raw', { ecc: 'low', border: QUIET_ZONE_MODULES });
  const path = rows.map(encodeRow).join('');
  return { path, viewBox: `0 0 ${rows.length} ${rows.length}` };
}

function encodeRow(modules: readonly boolean[], y: number): string {
  const row = modules.map((isDark) => (isDark ? '1' : '0')).join('');
  return [...row.matchAll(/1+/g)]
    .map(({ index, 0: { length } }) => `M${index} ${y}h${length}v1h-${length}z`)
    .join('');
}
