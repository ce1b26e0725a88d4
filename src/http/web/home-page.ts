import { html } from 'htm/preact';
import { Section } from './elements.ts';
import type { Page } from './layout.ts';
import type { PageLanguage } from './page-language.ts';
import type { Message } from './translation.ts';

interface HomePageData {
  siteName: string;
  origin: string;
  host: string;
  /** 0: usernames are free; null: usernames are not for sale. */
  usernamePriceSat: number | null;
  hasZaps: boolean;
  membersOnly: boolean;
  /** What the payer entered. */
  recipient: string;
  problem: Message | null;
}

export function homePage(language: PageLanguage, data: HomePageData): Page {
  const { t, rich, link } = language;
  const { siteName, origin, host, recipient, problem } = data;
  const npubAddress = html`<span class="breakable">npub1…@${host}</span>`;
  const title = t('home.title');
  return {
    title: problem === null ? title : t('site.errorTitle', { title }),
    description: t('home.description', { host }),
    url: `${origin}/`,
    script: 'common',
    content: html`
      <h1>${t('home.heading')}</h1>
      <p class="lead">${rich('home.lead', { address: npubAddress, site: siteName })}</p>
      <${Section} title=${t('home.pay')}>
        <form method="post" action=${link('/')}>
          <label for="recipient">${t('home.recipient')}</label>
          <div class="row">
            <input
              id="recipient"
              name="recipient"
              required
              maxlength="3000"
              value=${recipient}
              autocomplete="off"
              autocapitalize="none"
              spellcheck="false"
              placeholder=${`alice@${host}`}
              aria-describedby="recipient-problem"
              aria-invalid=${problem !== null}
              autofocus=${problem !== null}
            />
            <button type="submit">${t('home.continue')}</button>
          </div>
          ${
            problem !== null &&
            html`<p id="recipient-problem" class="problem" role="alert">${t(problem.key, problem.values)}</p>`
          }
        </form>
      <//>
      <div class="columns">
        <${Section} title=${t('home.receive')}>
          <p>${t(data.membersOnly ? 'home.membersOnly' : 'home.receiveText')}</p>
          <p><a class="button" href=${link('/account')}>${t('site.account')}</a></p>
        <//>
        <${Section} title=${t('home.offers')}>
          <dl class="facts">
            <div>
              <dt>${t('home.addresses')}</dt>
              <dd>${npubAddress}</dd>
            </div>
            <div>
              <dt>${t('home.usernames')}</dt>
              <dd>${describeUsernames(language, data)}</dd>
            </div>
            <div>
              <dt>${t('home.zaps')}</dt>
              <dd>${t(data.hasZaps ? 'home.hasZaps' : 'home.noZaps')}</dd>
            </div>
          </dl>
        <//>
      </div>
    `,
  };
}

function describeUsernames(
  { t, rich }: PageLanguage,
  { usernamePriceSat: price, host }: HomePageData,
) {
  if (price === null) {
    return t('home.usernamesNotForSale');
  }
  const address = html`<span class="breakable">alice@${host}</span>`;
  return rich(price === 0 ? 'home.usernameFree' : 'home.usernamePrice', { address, price });
}
