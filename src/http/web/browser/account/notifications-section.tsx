import { useState } from 'preact/hooks';
import { Section } from '../../elements.ts';
import { t } from '../translator.ts';
import { type ApiClient, ApiError } from './api-client.ts';
import { CHANNELS_PATH, type Channel, type ChannelsProps } from './channel-state.tsx';
import { Problem, useLoaded } from './elements.tsx';
import { WebhookPart } from './webhook-part.tsx';

/** How the server notifies the user of payments. Nothing if the operator has switched this off. */
export function NotificationsSection({ api }: { api: ApiClient }) {
  const loaded = useLoaded(() => listChannels(api), [api]);
  const [changed, setChanged] = useState<Channel[] | null>(null);
  const channels = changed ?? loaded.data ?? [];
  if (loaded.data === null && loaded.problem === null) {
    return null;
  }
  const replace = async (wanted: readonly object[]) => {
    const body = { channels: wanted };
    const { data } = await api.request<{ channels: Channel[] }>(CHANNELS_PATH, {
      method: 'PUT',
      body,
    });
    setChanged(data.channels);
  };
  const props: ChannelsProps = {
    api,
    channels,
    onAdd: (channel) => replace([...channels, channel]),
    onRemove: (channel) => replace(channels.filter((other) => other !== channel)),
  };
  return (
    <Section title={t('account.notificationsTitle')}>
      <Problem text={loaded.problem} onRetry={loaded.reload} />
      {loaded.data !== null && <WebhookPart {...props} />}
    </Section>
  );
}

/** Returns null if the operator has switched notifications off. */
async function listChannels(api: ApiClient): Promise<Channel[] | null> {
  try {
    return (await api.request<{ channels: Channel[] }>(CHANNELS_PATH)).data.channels;
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) {
      return null;
    }
    throw error;
  }
}
