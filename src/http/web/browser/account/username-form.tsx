import { CopyableText, Sats } from '../../elements.ts';
import type { ApiClient } from './api-client.ts';
import { FieldForm, useAction, useLoaded } from './elements.tsx';

interface UsernameFormProps {
  api: ApiClient;
  ownName: string | undefined;
  /** 0: usernames are free. */
  priceSat: number;
  name: string;
  /** A token that the user has pasted, and that was not needed yet; empty if there is none. */
  token: string;
  onName: (name: string) => void;
  onSubmit: () => Promise<void>;
}

export function UsernameForm(props: UsernameFormProps) {
  const { api, ownName, priceSat, name, token, onName, onSubmit } = props;
  const { data: availability, problem: checkProblem } = useLoaded(
    (signal) => checkName(api, name, ownName, signal),
    [api, name, ownName],
  );
  const { isRunning, problem, run } = useAction(onSubmit);
  return (
    <>
      <p>
        {priceSat === 0 ? (
          'Usernames are free here.'
        ) : (
          <>
            A username costs <Sats amount={priceSat} />, which you pay with ecash.
          </>
        )}
        {ownName !== undefined && (
          <>
            {' '}
            A new name replaces <strong class="breakable">{ownName}</strong>: payers cannot pay to
            the old name any more. It stays reserved for you for a grace period that the operator of
            this server sets. Until it ends, you can take it back free of charge.
          </>
        )}
      </p>
      <FieldForm
        id="username"
        label="Username"
        value={name}
        onText={(text) => onName(text.trim())}
        attributes={{
          maxLength: 64,
          'aria-invalid': availability?.state === 'unavailable',
          'aria-describedby': 'username-availability username-problem',
        }}
        problem={problem}
        button={priceSat === 0 ? 'Get this name' : 'Buy this name'}
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

/** After the last key, so that a fast typist causes one request per name. */
const DEBOUNCE_MS = 300;

const UNAVAILABLE_TEXTS = {
  invalid: 'A username has 3 to 64 letters (a to z) and digits, and does not begin with npub1.',
  reserved: 'This name is reserved. Choose another name.',
  taken:
    'This name is taken. If you gave it up a short time ago, you can still take it back free of charge.',
  not_for_sale: 'Usernames are not sold here any more.',
};

/** Checks a name while the user types. Returns null if there is none. */
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
  await new Promise((resolve) => setTimeout(resolve, DEBOUNCE_MS));
  signal.throwIfAborted();
  const { data } = await api.request<{ name?: string; reason?: keyof typeof UNAVAILABLE_TEXTS }>(
    `/api/v2/names/${encodeURIComponent(name)}`,
  );
  return data.reason === undefined
    ? { state: 'available', text: `${data.name}@${location.host} is available.` }
    : { state: 'unavailable', text: UNAVAILABLE_TEXTS[data.reason] };
}
