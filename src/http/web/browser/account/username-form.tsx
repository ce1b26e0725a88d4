import type { ApiClient } from './api-client.ts';
import {
  CopyableText,
  Form,
  Problem,
  Sats,
  SubmitButton,
  useAction,
  useLoaded,
} from './elements.tsx';

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
  const availability = useLoaded(
    (signal) => checkName(api, name, ownName, signal),
    [api, name, ownName],
  );
  const { isRunning, problem, run } = useAction(onSubmit);
  return (
    <Form onSubmit={() => run()}>
      <p>
        {priceSat === 0 ? 'Usernames are free here.' : <Price priceSat={priceSat} />}
        {ownName !== undefined && (
          <>
            {' '}
            A new name replaces <strong class="breakable">{ownName}</strong>: payers cannot pay to
            the old name any more. It stays reserved for you for a grace period that the operator of
            this server sets. Until it ends, you can take it back free of charge.
          </>
        )}
      </p>
      <label for="username">Username</label>
      <div class="row">
        <input
          id="username"
          value={name}
          maxLength={64}
          autocomplete="off"
          autocapitalize="none"
          spellcheck={false}
          aria-invalid={availability.data?.state === 'unavailable'}
          aria-describedby="username-availability"
          onInput={({ currentTarget }) => onName(currentTarget.value.trim())}
        />
        <SubmitButton isBusy={isRunning} busyLabel="Checking the name…">
          {priceSat === 0 ? 'Get this name' : 'Buy this name'}
        </SubmitButton>
      </div>
      <p
        id="username-availability"
        class="availability"
        role="status"
        data-state={availability.data?.state}
      >
        {availability.data?.text ?? availability.problem}
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
      {problem !== null && <Problem>{problem}</Problem>}
    </Form>
  );
}

function Price({ priceSat }: { priceSat: number }) {
  return (
    <>
      A username costs <Sats amount={priceSat} />, which you pay with ecash.
    </>
  );
}

/** After the last key, so that a fast typist causes one request per name. */
const DEBOUNCE_MS = 300;

const INVALID_NAME =
  'A username has 3 to 64 letters (a to z) and digits, and does not begin with npub1.';

const UNAVAILABLE_TEXTS = {
  invalid: INVALID_NAME,
  reserved: 'This name is reserved. Choose another name.',
  taken:
    'This name is taken. If you gave it up a short time ago, you can still take it back free of charge.',
  not_for_sale: 'Usernames are not sold here any more.',
};

interface NameResponse {
  data: {
    name?: string;
    reason?: keyof typeof UNAVAILABLE_TEXTS;
  };
}

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
  await new Promise((resolve) => setTimeout(resolve, DEBOUNCE_MS));
  signal.throwIfAborted();
  // The server would reject any other name anyway.
  if (!/^[a-z0-9]{3,64}$/i.test(name)) {
    return { state: 'unavailable', text: INVALID_NAME };
  }
  if (name.toLowerCase() === ownName) {
    return { state: 'unavailable', text: 'This is your username already.' };
  }
  const { data } = await api.request<NameResponse>(`/api/v2/names/${name}`);
  return data.reason === undefined
    ? { state: 'available', text: `${data.name}@${location.host} is available.` }
    : { state: 'unavailable', text: UNAVAILABLE_TEXTS[data.reason] };
}
