import { useState } from 'preact/hooks';
import { ExplainedError } from '../explained-error.ts';
import { formatTime, language, t } from '../translator.ts';
import type { User } from './api-client.ts';
import { AddButton, type Channel, ChannelState, type ChannelsProps } from './channel-state.tsx';
import { Problem, useLoaded } from './elements.tsx';

type DevicePartProps = ChannelsProps & {
  user: User;
  /** The `applicationServerKey` of the server. */
  webPushKey: string;
};

/** The devices on which a browser shows payments (Web Push). */
export function DevicePart({ user, webPushKey, channels, onAdd, ...props }: DevicePartProps) {
  const { pubkey } = user;
  const loaded = useLoaded(() => findDeviceId(pubkey), [pubkey]);
  const [addedId, setAddedId] = useState<string | null>(null);
  const id = addedId ?? loaded.data;
  const add = async (showComment: boolean) => {
    const subscription = await subscribe(webPushKey);
    const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
    setAddedId(await toDeviceId(pubkey, subscription));
    await onAdd({ kind: 'web_push', subscription, language, timeZone, showComment });
  };
  const remove = async (channel: Channel) => {
    await props.onRemove(channel);
    if (channel.disabledAt !== undefined) {
      // Its endpoint is gone. Without this, the browser would return it again.
      await (await findSubscription())?.unsubscribe();
    }
  };
  const devices = channels.filter(({ kind }) => kind === 'web_push');
  const thisDevice = devices.find((device) => device.id === id);
  return (
    <>
      <h3>{t('account.deviceTitle')}</h3>
      <p>{t('account.deviceText')}</p>
      {!isSupported && <p class="hint">{t('account.deviceUnsupported')}</p>}
      {isSupported && isBlocked() && <Problem text={t('account.deviceBlocked')} />}
      {thisDevice !== undefined && (
        <ChannelState {...props} onRemove={remove} channel={thisDevice} isNew={addedId !== null}>
          <p>{t('account.deviceHere')}</p>
        </ChannelState>
      )}
      {isSupported && !isBlocked() && thisDevice === undefined && <NewDevice onAdd={add} />}
      {devices
        .filter((device) => device !== thisDevice)
        .map((device) => (
          <ChannelState key={device.id} {...props} channel={device}>
            <p class="breakable">
              {t('account.deviceOther', {
                time: formatTime(device.createdAt * 1_000),
                site: device.site ?? '',
              })}
            </p>
          </ChannelState>
        ))}
    </>
  );
}

function NewDevice({ onAdd }: { onAdd: (showComment: boolean) => Promise<void> }) {
  const [showComment, setShowComment] = useState(false);
  return (
    <>
      <label class="switch">
        <input
          type="checkbox"
          checked={showComment}
          onChange={({ currentTarget }) => setShowComment(currentTarget.checked)}
        />
        {t('account.deviceShowComment')}
      </label>
      <AddButton label={t('account.deviceAdd')} onAdd={() => onAdd(showComment)} />
    </>
  );
}

/** Browsers on iPhones and iPads support it only for pages that were opened from the home screen. */
const isSupported = 'serviceWorker' in navigator && 'PushManager' in window;

function isBlocked(): boolean {
  return Notification.permission === 'denied';
}

/** Returns the id of the channel that this browser has, or had; empty if it has no subscription. */
async function findDeviceId(pubkey: string): Promise<string> {
  const subscription = await findSubscription();
  return subscription ? await toDeviceId(pubkey, subscription) : '';
}

async function findSubscription() {
  const registration = isSupported ? await navigator.serviceWorker.getRegistration() : undefined;
  return await registration?.pushManager.getSubscription();
}

/** As `toDeviceId` of the server. */
async function toDeviceId(pubkey: string, { endpoint }: PushSubscription): Promise<string> {
  const text = new TextEncoder().encode(`${pubkey} ${endpoint}`);
  const hash = new Uint8Array(await crypto.subtle.digest('SHA-256', text));
  return [...hash].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

async function subscribe(webPushKey: string): Promise<PushSubscription> {
  if ((await Notification.requestPermission()) !== 'granted') {
    throw new ExplainedError(t('account.deviceBlocked'));
  }
  try {
    await navigator.serviceWorker.register('/service-worker.js');
    const { pushManager } = await navigator.serviceWorker.ready;
    const options = { userVisibleOnly: true, applicationServerKey: webPushKey };
    return await pushManager.subscribe(options).catch(async () => {
      // The key of the server may have changed.
      await (await pushManager.getSubscription())?.unsubscribe();
      return await pushManager.subscribe(options);
    });
  } catch {
    throw new ExplainedError(t('account.deviceFailed'));
  }
}
