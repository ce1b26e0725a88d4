import { html } from 'htm/preact';
import { Sats, Section } from './elements.ts';
import type { Page } from './layout.ts';

interface HomePageData {
  siteName: string;
  origin: string;
  host: string;
  /** 0: usernames are free; null: usernames are not for sale. */
  usernamePriceSat: number | null;
  hasZaps: boolean;
  /** What the payer entered. */
  recipient: string;
  problem: string | null;
}

export function homePage(data: HomePageData): Page {
  const { siteName, origin, host, recipient, problem } = data;
  return {
    title: `${problem === null ? '' : 'Error: '}Lightning addresses for Nostr`,
    description: `Every Nostr key has a Lightning address at ${host}.`,
    url: `${origin}/`,
    script: 'common',
    content: html`
      <h1>Every Nostr key has a Lightning address</h1>
      <p class="lead">
        Pay <span class="breakable">npub1…@${host}</span> from any Lightning wallet. The recipient
        collects the payment as ecash in their own wallet; ${siteName} never holds the money.
      </p>
      <${Section} title="Pay someone">
        <form method="post" action="/">
          <label for="recipient">Name, npub or address</label>
          <div class="row">
            <input
              id="recipient"
              name="recipient"
              required
              value=${recipient}
              autocomplete="off"
              autocapitalize="none"
              spellcheck="false"
              placeholder=${`alice@${host}`}
              aria-describedby="recipient-problem"
              aria-invalid=${problem !== null}
              autofocus=${problem !== null}
            />
            <button type="submit">Continue</button>
          </div>
          ${problem !== null && html`<p id="recipient-problem" class="problem" role="alert">${problem}</p>`}
        </form>
      <//>
      <div class="columns">
        <${Section} title="Receive payments">
          <p>
            You need no registration: your key already has an address. Sign in to see your payments,
            choose your mint and get a username.
          </p>
          <p><a class="button" href="/account">Your account</a></p>
        <//>
        <${Section} title="What this server offers">
          <dl class="facts">
            <div>
              <dt>Addresses</dt>
              <dd class="breakable">npub1…@${host}</dd>
            </div>
            <div>
              <dt>Usernames</dt>
              <dd>${describeUsernames(data)}</dd>
            </div>
            <div>
              <dt>Zaps</dt>
              <dd>${data.hasZaps ? 'Yes, with receipts on Nostr' : 'Not available'}</dd>
            </div>
          </dl>
        <//>
      </div>
    `,
  };
}

function describeUsernames({ usernamePriceSat: price, host }: HomePageData) {
  if (price === null) {
    return 'Not for sale';
  }
  const cost = price === 0 ? 'free of charge' : html`for <${Sats} amount=${price} />`;
  return html`<span class="breakable">alice@${host}</span>, ${cost}`;
}
