import { useState } from 'preact/hooks';
import { CopyableText } from '../../elements.ts';
import { t } from '../translator.ts';
import { ChannelState, type ChannelsProps } from './channel-state.tsx';
import { FieldForm, useAction } from './elements.tsx';

/** A program of the user, to which the server reports each payment. */
export function WebhookPart({ channels, onAdd, ...props }: ChannelsProps) {
  const webhook = channels.find(({ kind }) => kind === 'webhook');
  return (
    <>
      <h3>{t('account.webhookTitle')}</h3>
      <p>{t('account.webhookText')}</p>
      {webhook === undefined ? (
        <NewWebhook onUrl={(url) => onAdd({ kind: 'webhook', url })} />
      ) : (
        <ChannelState {...props} channel={webhook}>
          <p class="breakable">{t('account.webhookSite', { site: webhook.site ?? '' })}</p>
          {webhook.secret !== undefined && (
            <>
              <p>{t('account.webhookSecret')}</p>
              <CopyableText text={webhook.secret} label={t('account.webhookCopySecret')} />
            </>
          )}
        </ChannelState>
      )}
    </>
  );
}

function NewWebhook({ onUrl }: { onUrl: (url: string) => Promise<void> }) {
  const [url, setUrl] = useState('');
  const { isRunning, problem, run } = useAction(() => onUrl(url), {
    invalid: 'account.webhookUrlInvalid',
  });
  return (
    <FieldForm
      id="webhook"
      label={t('account.webhookUrl')}
      value={url}
      onText={setUrl}
      attributes={{ type: 'url', placeholder: 'https://shop.example/paid' }}
      problem={problem}
      button={t('account.webhookAdd')}
      busyButton={isRunning && t('account.saving')}
      isSecondary
      onSubmit={run}
    />
  );
}
