import { useEffect, useState } from 'preact/hooks';
import { CopyableText, QrCode, Sats, Section } from '../../elements.ts';
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
  const nameTitle = user.name === undefined ? 'Get a username' : 'Change your username';
  return (
    <Section title="Username">
      {user.name !== undefined && (
        <CopyableText text={`${user.name}@${location.host}`} label="Copy address" />
      )}
      <Status text={success} />
      <Problem text={info.problem && `${info.problem} Then reload the page.`} />
      {info.data !== null && terms === undefined && <p>Usernames are not sold on this server.</p>}
      {terms !== undefined && (
        <>
          <h3 ref={heading} tabIndex={-1} class="breakable">
            {order === null ? nameTitle : `Pay for ${order.name}@${location.host}`}
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
        {terms.amount === 0 ? (
          'Usernames are free here.'
        ) : (
          <>
            A username costs <Sats amount={terms.amount} />, which you pay with ecash.
          </>
        )}
        {ownName !== undefined && (
          <>
            {' '}
            A new name replaces <strong class="breakable">{ownName}</strong>: payers cannot pay to
            the old name any more.{' '}
            {graceDays === 0
              ? 'Then others can take it.'
              : `For ${graceDays} ${graceDays === 1 ? 'day' : 'days'}, only you can take it back, free of charge.`}
          </>
        )}
      </p>
      <FieldForm
        id="username"
        label="Username"
        value={name}
        onText={(text) => changeDraft({ name: text.trim() })}
        attributes={{
          maxLength: 64,
          'aria-invalid': availability?.state === 'unavailable',
          'aria-describedby': 'username-availability username-problem',
        }}
        problem={problem}
        button={terms.amount === 0 ? 'Get this name' : 'Buy this name'}
        busyButton={isRunning && 'Checking the name…'}
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
          <p class="hint">
            This token is kept. It appears again in the next step. Or copy it, and take it back into
            your wallet if it is unspent.
          </p>
          <CopyableText text={token} label="Copy token" />
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
  const { isRunning, problem, run } = useAction(buy, describePaymentProblem);
  const submit = () => {
    // Some programs break long lines.
    const text = draft.token.replace(/\s+/g, '');
    const newTokenProblem = findTokenProblem(text);
    setTokenProblem(newTokenProblem);
    return newTokenProblem ?? run(order.name, text);
  };
  return (
    <div class="columns">
      <div>
        <h4>1. Pay the request</h4>
        <p>
          Scan or copy this request with a Cashu wallet that pays requests. Or create a token over{' '}
          <strong>
            <Sats amount={terms.amount} />
          </strong>{' '}
          in your wallet. The ecash must be from this mint:{' '}
          <code class="breakable">{terms.mints[0]}</code>
        </p>
        <QrCode text={order.request} label="QR code of the payment request" />
        <CopyableText text={order.request} label="Copy request" />
      </div>
      <div>
        <h4>2. Paste the token</h4>
        <FieldForm
          id="token"
          label="Token from your wallet"
          value={draft.token}
          onText={(token) => changeDraft({ token })}
          attributes={{ rows: 5, readOnly: isRunning, placeholder: 'cashuB…' }}
          hint={
            'The token stays in this field until the name is yours. If something fails, you can use it again: the ' +
            'server never spends a token twice.'
          }
          problem={tokenProblem ?? problem}
          button="Buy"
          busyButton={isRunning && 'Buying…'}
          onSubmit={submit}
        >
          <Button aria-disabled={isRunning} onClick={() => isRunning || cancelOrder()}>
            Choose another name
          </Button>
        </FieldForm>
      </div>
    </div>
  );
}

const UNAVAILABLE_TEXTS = {
  invalid: 'A username has 3 to 64 letters (a to z) and digits, and does not begin with npub1.',
  reserved: 'This name is reserved. Choose another name.',
  taken:
    'This name is taken. If you gave it up a short time ago, you can still take it back free of charge.',
  not_for_sale: 'Usernames are not sold here any more.',
};

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
    return { state: 'unavailable', text: 'This is your username already.' };
  }
  // While the user types, each further character aborts the signal.
  await new Promise((resolve) => setTimeout(resolve, 300));
  signal.throwIfAborted();
  const { data } = await api.request<{ name?: string; reason?: keyof typeof UNAVAILABLE_TEXTS }>(
    `/api/v2/names/${encodeURIComponent(name)}`,
  );
  return data.reason === undefined
    ? { state: 'available', text: `${data.name}@${location.host} is available.` }
    : { state: 'unavailable', text: UNAVAILABLE_TEXTS[data.reason] };
}
