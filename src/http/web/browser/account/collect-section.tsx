import { npubEncode } from 'nostr-tools/nip19';
import { CopyableText, Section } from '../../elements.ts';
import { rich, t } from '../translator.ts';
import type { User } from './api-client.ts';

const WALLET_URLS = {
  cashuMe: 'https://wallet.cashu.me',
  nutshell: 'https://github.com/cashubtc/nutshell',
  cdk: 'https://github.com/cashubtc/cdk',
  coco: 'https://github.com/cashubtc/coco',
};

/** Names the wallets of {@link CollectSection} that can have the user's key, and the setting that they need. */
export function WalletsForSum() {
  return (
    <p class="hint">
      {rich('account.walletsForSum', {
        server: <code class="breakable">{location.origin}</code>,
        cashuMe: <a href={WALLET_URLS.cashuMe}>cashu.me</a>,
        coco: <a href={WALLET_URLS.coco}>coco</a>,
      })}
    </p>
  );
}

/** Wallets that use the API of this server, the setting that each of them needs, and where it asks for the server. */
function listWallets({ mintUrl }: User) {
  const [on, off] = [t('account.on'), t('account.off')];
  const { host, origin } = location;
  return [
    {
      name: 'cashu.me',
      href: WALLET_URLS.cashuMe,
      lock: off,
      setting: t('account.cashuMeSetting'),
    },
    {
      name: 'Nutshell',
      href: WALLET_URLS.nutshell,
      lock: off,
      setting: <Command text={`NPUB_CASH_HOSTNAME=${host} cashu lnurl mint`} />,
    },
    {
      name: 'cdk-cli',
      href: WALLET_URLS.cdk,
      lock: on,
      setting: (
        <Command text={`cdk-cli --npubcash-url ${origin} npub-cash --mint-url ${mintUrl} claim`} />
      ),
    },
    { name: t('account.cocoWallets'), href: WALLET_URLS.coco, lock: off },
  ];
}

function Command({ text }: { text: string }) {
  return <code class="breakable">{text}</code>;
}

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
      <dl class="facts">
        {listWallets(user).map(({ name, href, lock, setting }) => (
          <div key={name}>
            <dt>
              <a href={href}>{name}</a>
            </dt>
            <dd>
              {lock}
              <div class="hint">{setting}</div>
            </dd>
          </div>
        ))}
      </dl>
      <p class="hint">
        {rich('account.walletKeys', {
          nutshell: <code>cashu lnurl get</code>,
          cdk: <code>npub-cash show-keys</code>,
        })}
      </p>
    </Section>
  );
}
