import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { encodeQrCode } from '../../qr-code.ts';
import { CAN_COPY, copyText, formatNumber } from '../common.ts';

/** A part of the account page with a heading. */
export function Section({ title, children }: { title: string; children: ComponentChildren }) {
  const id = `section-${title.toLowerCase().replaceAll(' ', '-')}`;
  return (
    <section class="card" aria-labelledby={id}>
      <h2 id={id}>{title}</h2>
      {children}
    </section>
  );
}

/** A QR code, always dark on white, as scanners expect. */
export function QrCode({ text, label }: { text: string; label: string }) {
  const { path, viewBox } = encodeQrCode(text);
  return (
    <svg class="qr" role="img" aria-label={label} viewBox={viewBox} shape-rendering="crispEdges">
      <path d={path} />
    </svg>
  );
}

/** A text with a button that copies it. */
export function CopyableText({ text, label }: { text: string; label: string }) {
  return (
    <div class="copyable">
      <code class="breakable">{text}</code>
      {CAN_COPY && (
        <button
          type="button"
          class="secondary"
          onClick={({ currentTarget }) => void copyText(text, currentTarget)}
        >
          {label}
        </button>
      )}
    </div>
  );
}

/** An amount in the user's language. */
export function Sats({ amount }: { amount: number }) {
  return (
    <>
      <data value={amount}>{formatNumber(amount)}</data> {amount === 1 ? 'sat' : 'sats'}
    </>
  );
}

/** An error, which screen readers announce. */
export function Problem({ children }: { children: ComponentChildren }) {
  return (
    <p class="problem" role="alert">
      {children}
    </p>
  );
}

/** An error, and a button with which the user can do something about it. */
export function ActionableProblem({
  children,
  action,
  onAction,
}: {
  children: ComponentChildren;
  action: string;
  onAction: () => void;
}) {
  return (
    <>
      <Problem>{children}</Problem>
      <p>
        <button type="button" class="secondary" onClick={onAction}>
          {action}
        </button>
      </p>
    </>
  );
}

/** A result, which screen readers announce when it changes. */
export function Status({ text }: { text: string | null }) {
  return <div role="status">{text !== null && <p class="notice">{text}</p>}</div>;
}

/** Submits its form. While the form is busy, the button keeps the focus, which a disabled button would lose. */
export function SubmitButton({
  isBusy,
  busyLabel,
  children,
}: {
  isBusy: boolean;
  busyLabel: string;
  children: ComponentChildren;
}) {
  return (
    <button type="submit" aria-disabled={isBusy}>
      {isBusy ? busyLabel : children}
    </button>
  );
}

/**
 * Runs an action of the user, one at a time.
 *
 * @returns whether the action is running, the message of its last error, and a function that starts it
 */
export function useAction<Arguments extends unknown[]>(
  action: (...args: Arguments) => Promise<void>,
) {
  const [isRunning, setIsRunning] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  const run = async (...args: Arguments) => {
    if (isRunning) {
      return;
    }
    setIsRunning(true);
    setProblem(null);
    try {
      await action(...args);
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
    } finally {
      setIsRunning(false);
    }
  };
  return { isRunning, problem, run };
}
