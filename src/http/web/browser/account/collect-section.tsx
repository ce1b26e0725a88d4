import { npubEncode } from 'nostr-tools/nip19';
import { CopyableText, Section } from '../../elements.ts';
import { rich, t } from '../translator.ts';
import type { User } from './api-client.ts';

/** Wallets that use the API of this server, and the setting that each of them needs. */
const WALLETS = [
  { name: 'cashu.me', href: 'https://wallet.cashu.me', lock: t('account.off') },
  { name: 'Nutshell', href: 'https://github.com/cashubtc/nutshell', lock: t('account.off') },
  {
    name: t('account.cocoWallets'),
    href: 'https://github.com/cashubtc/coco',
    lock: t('account.off'),
  },
  { name: t('account.cdkWallets'), href: 'https://github.com/cashubtc/cdk', lock: t('account.on') },
];

export function CollectSection({ user }: { user: User }) {
  return (
    <Section id="how-to-collect" title={t('account.howToCollect')}>
      <p>{t('account.collectText')}</p>
      <h3>{t('account.enterInWallet')}</h3>
      <dl class="facts">
        <div>
          <dt>{t('account.server')}</dt>
          <dd>
            <CopyableText text={location.origin} label={t('account.copyServer')} />
          </dd>
        </div>
        <div>
          <dt>{t('account.nostrKey')}</dt>
          <dd>
            {rich('account.signedInKey', {
              npub: <code class="breakable">{npubEncode(user.pubkey)}</code>,
            })}
          </dd>
        </div>
      </dl>
      <h3>{t('account.setLock')}</h3>
      <p>{t(user.lockQuote ? 'account.lockIsOn' : 'account.lockIsOff')}</p>
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
