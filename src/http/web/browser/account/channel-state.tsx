import type { ComponentChildren } from 'preact';
import { useEffect } from 'preact/hooks';
import { ExplainedError } from '../explained-error.ts';
import { formatTime, t } from '../translator.ts';
import type { ApiClient } from './api-client.ts';
import { Button, Problem, Status, useAction } from './elements.tsx';

export const CHANNELS_PATH = '/api/v2/user/notifications';

/** Times are Unix seconds. */
export interface Channel {
  id: string;
  kind: string;
  /** Of a webhook or a device. */
  site?: string;
  minAmount: number;
  createdAt: number;
  sentAt?: number;
  failingSince?: number;
  problem?: string;
  disabledAt?: number;
  /** Of a webhook that was just added. */
  secret?: string;
}

/** What each part of the section shows and changes. */
export interface ChannelsProps {
  api: ApiClient;
  channels: readonly Channel[];
  onAdd: (channel: object) => Promise<void>;
  onRemove: (channel: Channel) => Promise<void>;
}

/** Adds a channel. */
export function AddButton({ label, onAdd }: { label: string; onAdd: () => Promise<void> }) {
  const { isRunning, problem, run } = useAction(onAdd);
  return (
    <>
      <p>
        <Button aria-disabled={isRunning} onClick={() => void run()}>
          {isRunning ? t('account.saving') : label}
        </Button>
      </p>
      <Problem text={problem} />
    </>
  );
}

type ChannelStateProps = Omit<ChannelsProps, 'channels' | 'onAdd'> & {
  channel: Channel;
  /** Sends a test at once. */
  isNew?: boolean;
  /** What the channel is. */
  children?: ComponentChildren;
};

/** Says whether a channel works, and lets the user test and remove it. */
export function ChannelState({ api, channel, onRemove, isNew, children }: ChannelStateProps) {
  const { id, sentAt, failingSince, disabledAt, problem = '' } = channel;
  const test = useAction(async () => {
    const { data } = await api.request<{ problem?: string }>(`${CHANNELS_PATH}/test`, {
      method: 'POST',
      body: { id },
    });
    if (data.problem !== undefined) {
      throw new ExplainedError(t('account.channelRefused', { problem: data.problem }));
    }
    return t('account.channelAccepted');
  });
  const remove = useAction(() => onRemove(channel));
  useEffect(() => {
    if (isNew) {
      void test.run();
    }
  }, []);
  return (
    <>
      {children}
      {sentAt !== undefined && (
        <p class="hint">{t('account.channelSent', { time: formatTime(sentAt * 1_000) })}</p>
      )}
      {disabledAt !== undefined && <Problem text={t('account.channelDisabled', { problem })} />}
      {disabledAt === undefined && failingSince !== undefined && (
        <Problem
          text={t('account.channelFailing', { time: formatTime(failingSince * 1_000), problem })}
        />
      )}
      <p class="row">
        <Button aria-disabled={test.isRunning} onClick={() => void test.run()}>
          {t(test.isRunning ? 'account.channelTesting' : 'account.channelTest')}
        </Button>
        <Button aria-disabled={remove.isRunning} onClick={() => void remove.run()}>
          {t('account.channelRemove')}
        </Button>
      </p>
      <Status text={test.success} />
      <Problem text={test.problem ?? remove.problem} />
    </>
  );
}
