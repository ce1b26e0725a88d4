import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { encodeQrCode } from '../../qr-code.ts';
import { CAN_COPY, copyText, formatNumber } from '../common.ts';
import { describeProblem } from './problem-text.ts';

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

/** A form that the browser neither validates nor sends. */
export function Form({
  onSubmit,
  children,
}: {
  onSubmit: (event: SubmitEvent) => unknown;
  children: ComponentChildren;
}) {
  return (
    <form
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        void onSubmit(event);
      }}
    >
      {children}
    </form>
  );
}

/**
 * Runs an action of the user, one at a time.
 *
 * @returns whether the action is running, why it failed last, and a function that starts it
 */
export function useAction<Arguments extends unknown[]>(
  action: (...args: Arguments) => Promise<void>,
  describe = describeProblem,
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
      setProblem(describe(error));
    } finally {
      setIsRunning(false);
    }
  };
  return { isRunning, problem, run };
}

/**
 * Requests something when the component appears, and again when a dependency changes.
 *
 * @returns the data (null until then), why the request failed, and a function that repeats it
 */
export function useLoaded<Data>(
  load: (signal: AbortSignal) => Promise<Data>,
  dependencies: readonly unknown[],
) {
  const [state, setState] = useState<{ data: Data | null; problem: string | null }>({
    data: null,
    problem: null,
  });
  const [attempt, setAttempt] = useState(0);
  useEffect(() => {
    const controller = new AbortController();
    const { signal } = controller;
    setState({ data: null, problem: null });
    load(signal).then(
      (data) => signal.aborted || setState({ data, problem: null }),
      (error: unknown) =>
        signal.aborted || setState({ data: null, problem: describeProblem(error) }),
    );
    return () => controller.abort();
  }, [...dependencies, attempt]);
  return { ...state, reload: () => setAttempt(attempt + 1) };
}
