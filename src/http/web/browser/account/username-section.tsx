import { useEffect, useState } from 'preact/hooks';
import { CopyableText, Section } from '../../elements.ts';
import { link, rich, t } from '../translator.ts';
import type { ApiClient, Session } from './api-client.ts';
import { FieldForm, Problem, Status, useAction, useLoaded } from './elements.tsx';
import { API_TEXTS } from './problem-text.ts';
import {
  describeSuccess,
  readNameInLink,
  readPaymentRequest,
  requestUsername,
} from './username-request.ts';

type UsernameProps = Session & { graceDays: number };

export function UsernameSection(session: UsernameProps) {
  const { api, user } = session;
  const info = useLoaded(
    () => api.request<{ features: { username: { payment?: { amount: number } } } }>('/api/v2/info'),
    [api],
  );
  const terms = info.data?.data.features.username.payment;
  return (
    <Section title={t('account.usernameTitle')}>
      {user.name !== undefined && (
        <CopyableText text={`${user.name}@${location.host}`} label={t('account.copyAddress')} />
      )}
      <Problem text={info.problem && t('account.thenReload', { problem: info.problem })} />
      {info.data !== null && terms === undefined && <p>{t('account.usernamesNotSold')}</p>}
      {terms !== undefined && <UsernameForm {...session} priceSat={terms.amount} />}
    </Section>
  );
}

/** Gets a name that is free of charge. The page for collecting sells the others. */
function UsernameForm(props: UsernameProps & { priceSat: number }) {
  const { api, user, graceDays, priceSat, onUserChange } = props;
  const [name, setName] = useState(readNameInLink);
  const ownName = user.name;
  const { data: availability, problem: checkProblem } = useLoaded(
    (signal) => checkName(api, name, ownName, signal),
    [api, name, ownName],
  );
  const { isRunning, problem, success, run } = useAction(async () => {
    const owner = await requestUsername(api, name, null).catch(readPaymentRequest);
    if (typeof owner === 'string') {
      location.assign(link('/collect', name));
      return null;
    }
    setName('');
    onUserChange(owner);
    return describeSuccess(name, owner);
  });
  useEffect(() => {
    if (readNameInLink() !== '') {
      // Also scrolls to the field.
      document.getElementById('username')?.focus();
    }
  }, []);
  return (
    <>
      <Status text={success} />
      <h3>{t(ownName === undefined ? 'account.getUsername' : 'account.changeUsername')}</h3>
      <p>
        {priceSat === 0
          ? t('account.usernamesFree')
          : t('account.usernamePrice', { price: priceSat })}{' '}
        {ownName !== undefined &&
          rich(graceDays === 0 ? 'account.replacesNow' : 'account.replacesLater', {
            name: <strong class="breakable">{ownName}</strong>,
            days: graceDays,
          })}
      </p>
      <FieldForm
        id="username"
        label={t('account.usernameTitle')}
        value={name}
        onText={(text) => setName(text.trim())}
        attributes={{
          maxLength: 64,
          'aria-invalid': availability?.state === 'unavailable',
          'aria-describedby': 'username-availability username-problem',
        }}
        problem={problem}
        button={t(priceSat === 0 ? 'account.getName' : 'account.buyName')}
        busyButton={isRunning && t('account.checkingName')}
        onSubmit={run}
      />
      <p
        id="username-availability"
        class="availability"
        role="status"
        data-state={availability?.state}
      >
        {availability?.text ?? checkProblem}
      </p>
    </>
  );
}

type UnavailableReason = 'invalid' | 'reserved' | 'taken' | 'not_for_sale';

async function checkName(
  api: ApiClient,
  name: string,
  ownName: string | undefined,
  signal: AbortSignal,
): Promise<{ state: 'available' | 'unavailable'; text: string } | null> {
  if (name === '') {
    return null;
  }
  if (name.toLowerCase() === ownName) {
    return { state: 'unavailable', text: t('account.nameIsYours') };
  }
  // While the user types, each further character aborts the signal.
  await new Promise((resolve) => setTimeout(resolve, 300));
  signal.throwIfAborted();
  const { data } = await api.request<{ name?: string; reason?: UnavailableReason }>(
    `/api/v2/names/${encodeURIComponent(name)}`,
  );
  return data.reason === undefined
    ? {
        state: 'available',
        text: t('account.nameAvailable', { address: `${data.name}@${location.host}` }),
      }
    : { state: 'unavailable', text: t(API_TEXTS[`name_${data.reason}`] ?? 'account.nameInvalid') };
}
