import { html } from 'htm/preact';
import type { HttpContext } from '../context.ts';
import type { Page } from './layout.ts';
import type { PageLanguage } from './page-language.ts';

// The pages of recipients. Their scripts replace the content.

export interface AccountSettings {
  signerRelay: string;
  /** The account page offers these mints. */
  mints: readonly string[];
}

export function accountPage(
  { t }: PageLanguage,
  { signerRelay }: AccountSettings,
  mints: readonly { url: string; name: string | null }[],
  { allowPrivateNetworks, usernames, mintPolicy }: HttpContext,
): Page {
  const settings = {
    signerRelay,
    graceDays: usernames.policy.graceMs / 86_400_000,
    mints,
    allowsAnyMint: mintPolicy.allowedMints === null,
  };
  return {
    title: t('site.account'),
    script: 'account',
    scriptTexts: ['account.', 'amount.', 'pay.', 'sats', 'site.account'],
    // Any relay, because the user chooses those of a remote signer.
    connectSources: allowPrivateNetworks ? 'wss: ws:' : 'wss:',
    content: html`
      <div id="account" data-settings=${JSON.stringify(settings)}>
        <div class="row spread"><h1>${t('site.account')}</h1></div>
        <${StartNotices} t=${t}>${t('account.needsJavaScript')}<//>
      </div>
    `,
  };
}

/** @param username which the user wants to buy; usually empty */
export function collectPage(
  { t }: PageLanguage,
  username: string,
  { allowPrivateNetworks }: HttpContext,
): Page {
  const title = t(username === '' ? 'collect.title' : 'account.getUsername');
  return {
    title,
    script: 'collect',
    scriptTexts: ['account.', 'amount.', 'collect.', 'invoice.', 'sats'],
    // Any mint, because users choose theirs, and the hosts of Lightning addresses.
    connectSources: allowPrivateNetworks ? 'https: http:' : 'https:',
    content: html`
      <div id="collect">
        <h1>${title}</h1>
        <${StartNotices} t=${t}>${t('collect.needsJavaScript')}<//>
      </div>
    `,
  };
}

/** What is shown until the script of a page has started. */
function StartNotices({ t, children }: Pick<PageLanguage, 't'> & { children: string }) {
  return html`
    <p class="loading">${t('account.loading')}</p>
    <p class="problem late" role="alert">${t('account.notStarted')}</p>
    <noscript><p class="problem">${children}</p></noscript>
  `;
}
