import { containsSecretKey, removeSecretKeys, SECRET_KEY_WARNING } from '../secret-key.ts';

/** What all pages share: amounts in the user's language, copy buttons, and the refusal of secret keys. */

export function find<Type extends Element>(id: string, type: new () => Type): Type {
  const element = document.getElementById(id);
  if (!(element instanceof type)) {
    throw new Error(`the page has no ${type.name} with the id ${id}`);
  }
  return element;
}

export function formatNumber(value: number): string {
  return value.toLocaleString();
}

/** Browsers offer no clipboard to pages without TLS. */
export const CAN_COPY = 'clipboard' in navigator;

export async function copyText(text: string, button: HTMLButtonElement): Promise<void> {
  const label = button.textContent;
  const wasCopied = await navigator.clipboard.writeText(text).then(
    () => true,
    () => false,
  );
  button.textContent = wasCopied ? 'Copied' : 'Copying failed';
  setTimeout(() => {
    button.textContent = label;
  }, 1_500);
}

function formatAmounts(): void {
  for (const element of document.querySelectorAll<HTMLDataElement>('data[data-sats]')) {
    element.textContent = formatNumber(Number(element.value));
  }
}

function showCopyButtons(): void {
  for (const button of document.querySelectorAll<HTMLButtonElement>('button[data-copy]')) {
    const source = document.getElementById(button.dataset['copy'] ?? '');
    button.hidden = !CAN_COPY;
    button.addEventListener('click', () => {
      void copyText(source?.textContent ?? '', button);
    });
  }
}

/** Removes a secret key from any field as soon as it is pasted or typed, and says why. Keeps the rest, which may be ecash. */
function refuseSecretKeys(): void {
  document.addEventListener('input', ({ target }) => {
    const isField = target instanceof HTMLInputElement || target instanceof HTMLTextAreaElement;
    if (!isField || !containsSecretKey(target.value)) {
      return;
    }
    target.value = removeSecretKeys(target.value);
    target.dispatchEvent(new Event('input', { bubbles: true }));
    showSecretKeyWarning();
  });
}

function showSecretKeyWarning(): void {
  const button = document.createElement('button');
  button.textContent = 'I understand';
  showDialog(SECRET_KEY_WARNING, [button]).setAttribute('role', 'alertdialog');
}

/** Shows a text in a modal dialog. Each of the controls closes it. */
export function showDialog(text: string, controls: readonly HTMLElement[]): HTMLDialogElement {
  const dialog = document.createElement('dialog');
  const paragraph = document.createElement('p');
  const row = document.createElement('p');
  paragraph.textContent = text;
  row.className = 'row';
  for (const control of controls) {
    control.addEventListener('click', () => dialog.close());
  }
  row.append(...controls);
  dialog.append(paragraph, row);
  dialog.setAttribute('aria-label', text);
  dialog.addEventListener('close', () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

formatAmounts();
showCopyButtons();
refuseSecretKeys();
