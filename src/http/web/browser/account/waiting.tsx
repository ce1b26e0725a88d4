import { useEffect, useRef } from 'preact/hooks';
import { CopyableText, QrCode } from './elements.tsx';
import type { Signer } from './signer.ts';

export interface WaitingFor {
  /** What the user has to do. */
  text: string;
  /** A `nostrconnect://` address that the user gives to the signer. */
  uri?: string;
}

/** Connects to a signer. Rejects if the signal aborts. Shows what the user has to do. */
export type Connect = (
  signal: AbortSignal,
  show: (waitingFor: WaitingFor) => void,
) => Promise<Signer['signEvent']>;

/** Shows that the page waits for the signer. */
export function Waiting({ text, uri, onCancel }: WaitingFor & { onCancel: () => void }) {
  const paragraph = useRef<HTMLParagraphElement>(null);
  useEffect(() => paragraph.current?.focus(), [text]);
  return (
    <>
      <p ref={paragraph} tabIndex={-1}>
        {text}
      </p>
      {uri !== undefined && (
        <>
          <QrCode text={uri} label="QR code for your signer" />
          <CopyableText text={uri} label="Copy address" />
        </>
      )}
      <p class="row">
        {uri !== undefined && (
          <a class="button" href={uri}>
            Open in signer app
          </a>
        )}
        <button type="button" class="secondary" onClick={onCancel}>
          Cancel
        </button>
      </p>
    </>
  );
}
