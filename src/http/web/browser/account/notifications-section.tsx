import { useState } from 'preact/hooks';
import { Section } from '../../elements.ts';
import { t } from '../translator.ts';
import { type ApiClient, ApiError, type Session } from './api-client.ts';
import { CHANNELS_PATH, type Channel, type ChannelsProps } from './channel-state.tsx';
import { DevicePart } from './device-part.tsx';
import { Problem, useLoaded } from './elements.tsx';
import { NostrPart } from './nostr-part.tsx';
import { WebhookPart } from './webhook-part.tsx';

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
