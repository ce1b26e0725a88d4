import { showDialog } from '../common.ts';

/**
 * Shows the page on which a remote signer asks the user to approve a request (`auth_url` of NIP-46). May happen at any
 * time, because the session needs signatures later too.
 */
export function showApprovalLink(url: string): void {
  if (!URL.canParse(url) || new URL(url).protocol !== 'https:') {
    return;
  }
  const link = document.createElement('a');
  link.textContent = `Open ${new URL(url).host}`;
  link.className = 'button';
  link.href = url;
  link.target = '_blank';
  link.rel = 'noopener noreferrer';
  const button = document.createElement('button');
  button.textContent = 'Close';
  button.className = 'secondary';
  showDialog('Your signer asks you to approve the request on its own page.', [link, button]);
}
