import { useState } from 'preact/hooks';
import { CopyableText, Section } from '../../elements.ts';
import { ExplainedError } from '../explained-error.ts';
import { formatTime, t } from '../translator.ts';
import { type ApiClient, ApiError } from './api-client.ts';
import { Button, FieldForm, Problem, Status, useAction, useLoaded } from './elements.tsx';
import { describeProblem } from './problem-text.ts';

const PATH = '/api/v2/user/notifications';

/** `failingSince` and `sentAt` are Unix seconds. */
interface Channel {
  id: string;
  kind: string;
  site?: string;
  minAmount: number;
  sentAt?: number;
  failingSince?: number;
  problem?: string;
  disabledAt?: number;
  /** Of a webhook that was just added. */
  secret?: string;
}

/** A program of the user, to which the server reports each payment. Nothing if the operator has switched this off. */
export function WebhookSection({ api }: { api: ApiClient }) {
  const loaded = useLoaded(() => listChannels(api), [api]);
  const [changed, setChanged] = useState<Channel[] | null>(null);
  const channels = changed ?? loaded.data ?? [];
  if (loaded.data === null && loaded.problem === null) {
    return null;
  }
  const webhook = channels.find(({ kind }) => kind === 'webhook');
  const others = channels.filter((channel) => channel !== webhook);
  const replace = async (wanted: readonly object[]) => {
    const body = { channels: [...others, ...wanted] };
    const { data } = await api.request<{ channels: Channel[] }>(PATH, { method: 'PUT', body });
    setChanged(data.channels);
  };
  return (
    <Section title={t('account.webhookTitle')}>
      <p>{t('account.webhookText')}</p>
      <Problem text={loaded.problem} onRetry={loaded.reload} />
      {loaded.data !== null && webhook === undefined && (
        <NewWebhook onUrl={(url) => replace([{ kind: 'webhook', url }])} />
      )}
      {webhook !== undefined && <Webhook {...webhook} api={api} onRemove={() => replace([])} />}
    </Section>
  );
}

function NewWebhook({ onUrl }: { onUrl: (url: string) => Promise<void> }) {
  const [url, setUrl] = useState('');
  const { isRunning, problem, run } = useAction(
    () => onUrl(url),
    (error) =>
      error instanceof ApiError && error.code === 'invalid'
        ? t('account.webhookUrlInvalid')
        : describeProblem(error),
  );
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

function Webhook(props: Channel & { api: ApiClient; onRemove: () => Promise<void> }) {
  const { api, onRemove, id, site = '', secret, sentAt, failingSince, disabledAt } = props;
  const test = useAction(async () => {
    const { data } = await api.request<{ problem?: string }>(`${PATH}/test`, {
      method: 'POST',
      body: { id },
    });
    if (data.problem !== undefined) {
      throw new ExplainedError(t('account.webhookRefused', { site, problem: data.problem }));
    }
    return t('account.webhookAccepted', { site });
  });
  const remove = useAction(onRemove);
  const problem = props.problem ?? '';
  return (
    <>
      <p class="breakable">{t('account.webhookSite', { site })}</p>
      {secret !== undefined && (
        <>
          <p>{t('account.webhookSecret')}</p>
          <CopyableText text={secret} label={t('account.webhookCopySecret')} />
        </>
      )}
      {sentAt !== undefined && (
        <p class="hint">{t('account.webhookSent', { time: formatTime(sentAt * 1_000) })}</p>
      )}
      {disabledAt !== undefined && <Problem text={t('account.webhookDisabled', { problem })} />}
      {disabledAt === undefined && failingSince !== undefined && (
        <Problem
          text={t('account.webhookFailing', { time: formatTime(failingSince * 1_000), problem })}
        />
      )}
      <p class="row">
        <Button aria-disabled={test.isRunning} onClick={() => void test.run()}>
          {t(test.isRunning ? 'account.webhookTesting' : 'account.webhookTest')}
        </Button>
        <Button aria-disabled={remove.isRunning} onClick={() => void remove.run()}>
          {t('account.webhookRemove')}
        </Button>
      </p>
      <Status text={test.success} />
      <Problem text={test.problem ?? remove.problem} />
    </>
  );
}

/** Returns null if the operator has switched notifications off. */
async function listChannels(api: ApiClient): Promise<Channel[] | null> {
  try {
    return (await api.request<{ channels: Channel[] }>(PATH)).data.channels;
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) {
      return null;
    }
    throw error;
  }
}
