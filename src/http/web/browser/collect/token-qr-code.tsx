import { useEffect, useState } from 'preact/hooks';
import { QrCode } from '../../elements.ts';
import { t } from '../translator.ts';
import { MAX_STATIC_QR_LENGTH } from './limits.ts';
import { encodeParts } from './qr-parts.ts';

const FRAME_MS = 250;

/** A QR code of a token. A long one is split into parts that appear in turn (NUT-16). */
export function TokenQrCode({ token }: { token: string }) {
  const parts = token.length > MAX_STATIC_QR_LENGTH ? encodeParts(token) : [token];
  const [frame, setFrame] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => setFrame((current) => current + 1), FRAME_MS);
    return () => clearInterval(timer);
  }, []);
  return <QrCode text={parts[frame % parts.length] ?? token} label={t('collect.tokenQrCode')} />;
}
