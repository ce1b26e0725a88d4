import { useEffect, useState } from 'preact/hooks';
import { CopyableText, QrCode, Section } from '../../elements.ts';
import { link, rich, t } from '../translator.ts';
import type { ApiClient, Session } from './api-client.ts';
import {
  Button,
  FieldForm,
  Problem,
  Status,
  useAction,
  useFocusOnChange,
  useLoaded,
} from './elements.tsx';
import { describePaymentProblem, findTokenProblem } from './problem-text.ts';
import { type Purchase, readNameInLink, usePurchase } from './use-purchase.ts';

interface FormProps {
  purchase: Purchase;
  /** The price in sats (0: usernames are free), and the mints whose ecash pays it. */
  terms: { amount: number; mints: string[] };
}

type UsernameProps = Session & { graceDays: number };

export function UsernameSection(session: UsernameProps) {
  const { api, user } = session;
  const info = useLoaded(
    () => api.request<{ features: { username: { payment?: FormProps['terms'] } } }>('/api/v2/info'),
    [api],
  );
  const terms = info.data?.data.features.username.payment;
  const purchase = usePurchase(session);
  const { order, success } = purchase;
  const heading = useFocusOnChange<HTMLHeadingElement>(order?.name);
  const nameTitle = user.name === undefined ? 'account.getUsername' : 'account.changeUsername';
  return (
    <Section title={t('account.usernameTitle')}>
      {user.name !== undefined && (
        <CopyableText text={`${user.name}@${location.host}`} label={t('account.copyAddress')} />
      )}
      <Status text={success} />
      <Problem text={info.problem && t('account.thenReload', { problem: info.problem })} />
      {info.data !== null && terms === undefined && <p>{t('account.usernamesNotSold')}</p>}
      {terms !== undefined && (
        <>
          <h3 ref={heading} tabIndex={-1} class="breakable">
            {order === null
              ? t(nameTitle)
              : t('account.payForUsername', { address: `${order.name}@${location.host}` })}
          </h3>
          {order === null ? (
            <UsernameForm {...session} purchase={purchase} terms={terms} />
          ) : (
            <PaymentForm purchase={purchase} order={order} terms={terms} />
          )}
        </>
      )}
    </Section>
  );
}

function UsernameForm({ api, user, graceDays, purchase, terms }: UsernameProps & FormProps) {
  const { draft, changeDraft, buy } = purchase;
  const { name, token } = draft;
  const ownName = user.name;
  const { data: availability, problem: checkProblem } = useLoaded(
    (signal) => checkName(api, name, ownName, signal),
    [api, name, ownName],
  );
  const { isRunning, problem, run } = useAction(() => buy(name, null));
  useEffect(() => {
    if (readNameInLink() !== '') {
      // Also scrolls to the field.
      document.getElementById('username')?.focus();
    }
  }, []);
  return (
    <>
      <p>
        {terms.amount === 0
          ? t('account.usernamesFree')
          : t('account.usernamePrice', { price: terms.amount })}{' '}
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
        onText={(text) => changeDraft({ name: text.trim() })}
        attributes={{
          maxLength: 64,
          'aria-invalid': availability?.state === 'unavailable',
          'aria-describedby': 'username-availability username-problem',
        }}
        problem={problem}
        button={t(terms.amount === 0 ? 'account.getName' : 'account.buyName')}
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
      {token !== '' && (
        <>
          <p class="hint">{t('account.tokenKept')}</p>
          <CopyableText text={token} label={t('account.copyToken')} />
        </>
      )}
    </>
  );
}

function PaymentForm({
  purchase,
  order,
  terms,
}: FormProps & { order: NonNullable<Purchase['order']> }) {
  const { draft, changeDraft, cancelOrder, buy } = purchase;
  const [tokenProblem, setTokenProblem] = useState<string | null>(null);
  const [hasKeptToken] = useState(draft.token !== '');
  const { isRunning, problem, run } = useAction(buy, describePaymentProblem);
  const submit = () => {
    // Some programs break long lines.
    const text = draft.token.replace(/\s+/g, '');
    const newTokenProblem = findTokenProblem(text);
    setTokenProblem(newTokenProblem);
    return newTokenProblem ?? run(order.name, text);
  };
  return (
    <>
      <p class="row">
        <a class="button" href={link('/collect', order.name)}>
          {t('account.payHere')}
        </a>
        <Button aria-disabled={isRunning} onClick={() => isRunning || cancelOrder()}>
          {t('account.chooseName')}
        </Button>
      </p>
      <details class="address" open={hasKeptToken}>
        <summary>{t('account.otherWallet')}</summary>
        <div class="columns">
          <div>
            <h4>{t('account.payRequest')}</h4>
            <p>
              {rich('account.payRequestText', {
                price: <strong>{t('sats', { amount: terms.amount })}</strong>,
                mint: <code class="breakable">{terms.mints[0]}</code>,
              })}
            </p>
            <QrCode text={order.request} label={t('account.requestCode')} />
            <CopyableText text={order.request} label={t('account.copyRequest')} />
          </div>
          <div>
            <h4>{t('account.pasteToken')}</h4>
            <FieldForm
              id="token"
              label={t('account.tokenLabel')}
              value={draft.token}
              onText={(token) => changeDraft({ token })}
              attributes={{ rows: 5, readOnly: isRunning, placeholder: 'cashuB…' }}
              hint={t('account.tokenHint')}
              problem={tokenProblem ?? problem}
              button={t('account.buy')}
              busyButton={isRunning && t('account.buying')}
              onSubmit={submit}
            />
          </div>
        </div>
      </details>
    </>
  );
}

const UNAVAILABLE_TEXTS = {
  invalid: 'account.nameInvalid',
  reserved: 'account.nameReserved',
  taken: 'account.nameTaken',
  not_for_sale: 'account.namesNotForSale',
} as const;

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
  const { data } = await api.request<{ name?: string; reason?: keyof typeof UNAVAILABLE_TEXTS }>(
    `/api/v2/names/${encodeURIComponent(name)}`,
  );
  return data.reason === undefined
    ? {
        state: 'available',
        text: t('account.nameAvailable', { address: `${data.name}@${location.host}` }),
      }
    : { state: 'unavailable', text: t(UNAVAILABLE_TEXTS[data.reason]) };
}
