import { type ComponentChildren, type ComponentProps, h } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { t } from '../translator.ts';
import { type CodeTexts, describeProblem } from './problem-text.ts';

export function Button(props: ComponentProps<'button'>) {
  return <button type="button" class="secondary" {...props} />;
}

export function Problem({ text, onRetry }: { text: ComponentChildren; onRetry?: () => void }) {
  return text === null ? null : (
    <>
      <p class="problem" role="alert">
        {text}
      </p>
      {onRetry !== undefined && (
        <p>
          <Button onClick={onRetry}>{t('account.tryAgain')}</Button>
        </p>
      )}
    </>
  );
}

/** A problem with what the user has just entered or pressed. A small screen may end there, so this scrolls. */
export function FormProblem({ id, text }: { id?: string; text: string | null }) {
  const element = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (text !== null) {
      element.current?.scrollIntoView({ block: 'nearest' });
    }
  }, [text]);
  return (
    <div id={id} ref={element}>
      <Problem text={text} />
    </div>
  );
}

export function Status({ text }: { text: string | null }) {
  return <div role="status">{text !== null && <p class="notice">{text}</p>}</div>;
}

interface DialogProps {
  label: string;
  onCancel: () => void;
  children: ComponentChildren;
}

/** A modal dialog. */
export function Dialog({ label, onCancel, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  // `showModal` moves the focus into the dialog, and `close` moves it back to the button that was used.
  useLayoutEffect(() => {
    const element = dialog.current;
    element?.showModal();
    return () => element?.close();
  }, []);
  return (
    <dialog ref={dialog} aria-label={label} onCancel={onCancel}>
      {children}
    </dialog>
  );
}

interface FieldFormProps {
  id: string;
  label: string;
  value: string;
  onText: (text: string) => void;
  /** Further attributes of the field. With `rows`, it is a `textarea`. */
  attributes: Record<string, unknown>;
  hint?: string;
  problem: string | null;
  button: string;
  /** Replaces the text of the button while the form is busy; false while it is not. */
  busyButton?: string | false;
  isSecondary?: boolean;
  onSubmit: () => unknown;
}

/** A form with one field, which the browser neither validates nor sends. */
export function FieldForm(props: FieldFormProps) {
  const { id, label, value, attributes, hint, problem, button, busyButton = false } = props;
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    props.onSubmit();
  };
  return (
    <form noValidate onSubmit={submit}>
      <label for={id}>{label}</label>
      <div class="row">
        {h('rows' in attributes ? 'textarea' : 'input', {
          id,
          value,
          autocomplete: 'off',
          autocapitalize: 'none',
          spellcheck: false,
          'aria-invalid': problem !== null,
          'aria-describedby': `${id}-hint ${id}-problem`,
          onInput: ({ currentTarget }: { currentTarget: HTMLInputElement }) =>
            props.onText(currentTarget.value),
          ...attributes,
        })}
        {/* A disabled button would lose the focus. */}
        <button
          type="submit"
          class={props.isSecondary === true ? 'secondary' : ''}
          aria-disabled={busyButton !== false}
        >
          {busyButton === false ? button : busyButton}
        </button>
      </div>
      {hint !== undefined && (
        <p class="hint" id={`${id}-hint`}>
          {hint}
        </p>
      )}
      <FormProblem id={`${id}-problem`} text={problem} />
    </form>
  );
}

/** Runs an action of the user, unless it is running already. If the action returns a text, `success` contains it. */
export function useAction<Arguments extends unknown[]>(
  action: (...args: Arguments) => Promise<unknown>,
  texts?: CodeTexts,
) {
  const [outcome, setOutcome] = useState<{ problem: string | null; success: string | null }>(IDLE);
  const [isRunning, setIsRunning] = useState(false);
  /** The state changes only with the next rendering. */
  const hasStarted = useRef(false);
  const run = async (...args: Arguments) => {
    if (hasStarted.current) {
      return;
    }
    hasStarted.current = true;
    setIsRunning(true);
    setOutcome(IDLE);
    try {
      const result = await action(...args);
      setOutcome({ problem: null, success: typeof result === 'string' ? result : null });
    } catch (error) {
      setOutcome({ problem: describeProblem(error, texts), success: null });
    } finally {
      hasStarted.current = false;
      setIsRunning(false);
    }
  };
  return { ...outcome, isRunning, run, clear: () => setOutcome(IDLE) };
}

const IDLE = { problem: null, success: null };

/** Loads data when the component appears, when a dependency changes, and when `reload` is called. */
export function useLoaded<Data>(
  load: (signal: AbortSignal) => Promise<Data>,
  dependencies: readonly unknown[],
) {
  const [state, setState] = useState<{ data: Data | null; problem: string | null }>(NOT_LOADED);
  const [attempt, setAttempt] = useState(0);
  useEffect(() => {
    const controller = new AbortController();
    const show = (newState: typeof state) => controller.signal.aborted || setState(newState);
    setState(NOT_LOADED);
    load(controller.signal).then(
      (data) => show({ data, problem: null }),
      (error: unknown) => show({ data: null, problem: describeProblem(error) }),
    );
    return () => controller.abort();
  }, [...dependencies, attempt]);
  return { ...state, reload: () => setAttempt(attempt + 1) };
}

const NOT_LOADED = { data: null, problem: null };
