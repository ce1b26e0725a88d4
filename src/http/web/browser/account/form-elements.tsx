import type { ComponentChildren } from 'preact';

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
