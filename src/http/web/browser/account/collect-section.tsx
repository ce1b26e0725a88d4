import { npubEncode } from 'nostr-tools/nip19';
import { CopyableText, Section } from '../../elements.ts';
import type { User } from './api-client.ts';

/** What the wallets that use the API of this server need. */
const LOCK_SETTINGS = {
  'cashu.me': 'off',
  Nutshell: 'off',
  'Wallets built with coco': 'off',
  'Wallets built with cdk': 'on',
};

export function CollectSection({ user }: { user: User }) {
  return (
    <Section title="How to collect">
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
        {Object.entries(LOCK_SETTINGS).map(([wallet, lock]) => (
          <div key={wallet}>
            <dt>{wallet}</dt>
            <dd>{lock}</dd>
          </div>
        ))}
      </dl>
    </Section>
  );
}
