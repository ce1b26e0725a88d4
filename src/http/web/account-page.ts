import { html } from 'htm/preact';
import type { Page } from './layout.ts';

/** @param signerRelay the relay through which remote signers connect (NIP-46) */
export function accountPage(signerRelay: string): Page {
  return {
    title: 'Your account',
    script: 'account',
    content: html`
      <div id="account" data-signer-relay=${signerRelay}>
        <h1>Your account</h1>
        <noscript>
          <p class="problem">
            Signing in with your Nostr key needs JavaScript. Payment pages work without it.
          </p>
        </noscript>
      </div>
    `,
  };
}
