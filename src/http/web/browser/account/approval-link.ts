/**
 * Shows the page on which a remote signer asks the user to approve a request (`auth_url` of NIP-46). May happen at any
 * time, because the session needs signatures later too.
 */
export function showApprovalLink(url: string): void {
  if (!URL.canParse(url) || new URL(url).protocol !== 'https:') {
    return;
  }
  const dialog = document.createElement('dialog');
  const text = document.createElement('p');
  const link = document.createElement('a');
  const button = document.createElement('button');
  text.textContent = 'Your signer asks you to approve the request on its own page.';
  text.id = 'approval-text';
  link.textContent = `Open ${new URL(url).host}`;
  link.className = 'button';
  link.href = url;
  link.target = '_blank';
  link.rel = 'noopener noreferrer';
  link.addEventListener('click', () => dialog.close());
  button.textContent = 'Close';
  button.className = 'secondary';
  button.addEventListener('click', () => dialog.close());
  dialog.setAttribute('aria-labelledby', text.id);
  const row = document.createElement('p');
  row.className = 'row';
  row.append(link, button);
  dialog.append(text, row);
  dialog.addEventListener('close', () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
