import { npubEncode } from 'nostr-tools/nip19';
import { useState } from 'preact/hooks';
import { CopyableText, Section } from '../../elements.ts';
import { language, rich, t } from '../translator.ts';
import { type ApiClient, ApiError, type Session } from './api-client.ts';
import {
  AddButton,
  CHANNELS_PATH,
  type Channel,
  ChannelState,
  type ChannelsProps,
} from './channel-state.tsx';
import { DevicePart } from './device-part.tsx';
import { FieldForm, Problem, useAction, useLoaded } from './elements.tsx';

interface Notifications {
  channels: Channel[];
  /** The key with which the server writes to users. Absent if it does not. */
  nostrPubkey?: string;
  /** The `applicationServerKey` with which browsers subscribe. */
  webPushKey: string;
}

/** How the server notifies the user of payments. Nothing if the operator has switched this off. */
export function NotificationsSection({ api, user }: Session) {
  const loaded = useLoaded(() => readNotifications(api), [api]);
  const [changed, setChanged] = useState<Channel[] | null>(null);
  const channels = changed ?? loaded.data?.channels ?? [];
  const { nostrPubkey } = loaded.data ?? {};
  if (loaded.data === null && loaded.problem === null) {
    return null;
  }
  const change = async (compute: (current: readonly Channel[]) => readonly object[]) => {
    // The user may have changed the list on another device since this page has read it.
    const current = await api.request<Notifications>(CHANNELS_PATH);
    const { data } = await api.request<Notifications>(CHANNELS_PATH, {
      method: 'PUT',
      body: { channels: compute(current.data.channels) },
    });
    setChanged(data.channels);
  };
  const props: ChannelsProps = {
    api,
    channels,
    onAdd: (channel) => change((current) => [...current, channel]),
    onRemove: ({ id }) => change((current) => current.filter((other) => other.id !== id)),
  };
  return (
    <Section title={t('account.notificationsTitle')}>
      <Problem text={loaded.problem} onRetry={loaded.reload} />
      {loaded.data !== null && (
        <>
          <DevicePart {...props} user={user} webPushKey={loaded.data.webPushKey} />
          {nostrPubkey !== undefined && <NostrPart {...props} nostrPubkey={nostrPubkey} />}
          <WebhookPart {...props} />
        </>
      )}
    </Section>
  );
}

/** @param props.nostrPubkey the key of the server */
function NostrPart({
  nostrPubkey,
  channels,
  onAdd,
  ...props
}: ChannelsProps & { nostrPubkey: string }) {
  const [isNew, setIsNew] = useState(false);
  const channel = channels.find(({ kind }) => kind === 'nostr');
  const add = async () => {
    setIsNew(true);
    const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
    await onAdd({ kind: 'nostr', language, timeZone });
  };
  return (
    <>
      <h3>{t('account.nostrTitle')}</h3>
      <p>
        {rich('account.nostrText', {
          npub: <code class="breakable">{npubEncode(nostrPubkey)}</code>,
        })}
      </p>
      {channel === undefined ? (
        <AddButton label={t('account.nostrAdd')} onAdd={add} />
      ) : (
        <ChannelState {...props} channel={channel} isNew={isNew} />
      )}
    </>
  );
}

/** A program of the user, to which the server reports each payment. */
function WebhookPart({ channels, onAdd, ...props }: ChannelsProps) {
  const [url, setUrl] = useState('');
  const { isRunning, problem, run } = useAction(
    async () => {
      await onAdd({ kind: 'webhook', url });
      setUrl('');
    },
    { invalid: 'account.webhookUrlInvalid' },
  );
  const webhook = channels.find(({ kind }) => kind === 'webhook');
  return (
    <>
      <h3>{t('account.webhookTitle')}</h3>
      <p>{t('account.webhookText')}</p>
      {webhook === undefined ? (
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

/** Returns null if the operator has switched notifications off. */
async function readNotifications(api: ApiClient): Promise<Notifications | null> {
  try {
    return (await api.request<Notifications>(CHANNELS_PATH)).data;
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) {
      return null;
    }
    throw error;
  }
}
