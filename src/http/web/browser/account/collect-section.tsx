import { npubEncode } from 'nostr-tools/nip19';
import { CopyableText, Section } from '../../elements.ts';
import type { User } from './api-client.ts';

/** Wallets that use the API of this server, and the setting that each of them needs. */
const WALLETS = [
  { name: 'cashu.me', href: 'https://wallet.cashu.me', lock: 'off' },
  { name: 'Nutshell', href: 'https://github.com/cashubtc/nutshell', lock: 'off' },
  { name: 'Wallets built with coco', href: 'https://github.com/cashubtc/coco', lock: 'off' },
  { name: 'Wallets built with cdk', href: 'https://github.com/cashubtc/cdk', lock: 'on' },
];

export function CollectSection({ user }: { user: User }) {
  return (
    <Section id="how-to-collect" title="How to collect">
      <p>
        A wallet collects your payments from your mint, as ecash. Any wallet that supports npub.cash
        addresses (version 2) and lets you enter another server can do that. Collect soon: some
        mints refuse after the invoice of a payment has expired.
      </p>
      <h3>Enter this in the wallet</h3>
      <dl class="facts">
        <div>
          <dt>Server</dt>
          <dd>
            <CopyableText text={location.origin} label="Copy server" />
          </dd>
        </div>
        <div>
          <dt>Nostr key</dt>
          <dd>
            The key with which you signed in here:{' '}
            <code class="breakable">{npubEncode(user.pubkey)}</code>
          </dd>
        </div>
      </dl>
      <h3>Set “Lock payments” for your wallet</h3>
      <p>
        It is {user.lockQuote ? 'on' : 'off'} now; change it under “Your mint”. Payments that
        already exist stay as they are.
      </p>
      <dl class="facts wide">
        {WALLETS.map(({ name, href, lock }) => (
          <div key={name}>
            <dt>
              <a href={href}>{name}</a>
            </dt>
            <dd>{lock}</dd>
          </div>
        ))}
      </dl>
    </Section>
  );
}
