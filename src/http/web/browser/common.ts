import { containsSecretKey, removeSecretKeys } from '../secret-key.ts';
import { getText } from './texts.ts';

// What all pages share: copy buttons, and the refusal of secret keys.

export function getElement<Type extends Element>(id: string, type: new () => Type): Type {
  const element = document.getElementById(id);
  if (!(element instanceof type)) {
    throw new Error(`the page has no ${type.name} with the id ${id}`);
  }
  return element;
}

/** Shows a text in a modal dialog. A click on any of the controls closes it. */
export function showDialog(text: string, controls: readonly HTMLElement[]): HTMLDialogElement {
  const dialog = document.createElement('dialog');
  const paragraph = document.createElement('p');
  const row = document.createElement('p');
  paragraph.textContent = text;
  row.className = 'row';
  row.append(...controls);
  for (const control of controls) {
    control.addEventListener('click', () => dialog.close());
  }
  dialog.append(paragraph, row);
  dialog.setAttribute('aria-label', text);
  dialog.addEventListener('close', () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

// Browsers offer no clipboard to pages without TLS.
for (const button of document.querySelectorAll<HTMLElement>('[data-copy]')) {
  button.hidden = !('clipboard' in navigator);
}

document.addEventListener('click', ({ target }) => {
  const button = target instanceof Element ? target.closest<HTMLElement>('[data-copy]') : null;
  if (button === null) {
    return;
  }
  // A second click finds the outcome of the first one instead of the label.
  button.dataset['label'] ??= button.textContent;
  button.style.minWidth = `${button.getBoundingClientRect().width}px`;
  const status = button.parentElement?.querySelector('[role="status"]');
  const showBriefly = (outcome: string) => {
    button.textContent = outcome;
    status?.replaceChildren(outcome);
    setTimeout(() => {
      button.textContent = button.dataset['label'] ?? '';
      status?.replaceChildren();
    }, 1_500);
  };
  const text = button.parentElement?.querySelector('code')?.textContent ?? '';
  navigator.clipboard.writeText(text).then(
    () => showBriefly(getText('script.common.copied')),
    () => showBriefly(getText('script.common.copyFailed')),
  );
});

// Removes a secret key from any field as soon as it is pasted or typed. Keeps the other text, which may be ecash.
document.addEventListener('input', ({ target }) => {
  const isField = target instanceof HTMLInputElement || target instanceof HTMLTextAreaElement;
  if (!isField || !containsSecretKey(target.value)) {
    return;
  }
  target.value = removeSecretKeys(target.value);
  target.dispatchEvent(new Event('input', { bubbles: true }));
  const button = document.createElement('button');
  button.textContent = getText('script.common.understood');
  showDialog(getText('script.common.secretKey'), [button]).setAttribute('role', 'alertdialog');
});
