import type { ApiClient } from './api-client.ts';
import { explained } from './api-failure.ts';
import { CopyableText, Problem, Sats, SubmitButton, useAction } from './elements.tsx';
import { useNameAvailability } from './name-availability.ts';
import { describePurchaseProblem } from './problem-text.ts';

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

/** Asks for a name, and shows while the user types whether it is available. */
export function UsernameForm(props: UsernameFormProps) {
  const { api, ownName, priceSat, name, token, onName, onSubmit } = props;
  const availability = useNameAvailability(api, { name, ownName });
  const { isRunning, problem, run } = useAction(
    explained(onSubmit, (failure) => describePurchaseProblem(failure, false)),
  );
  return (
    <form
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        void run();
      }}
    >
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
          aria-invalid={availability?.state === 'unavailable'}
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
        data-state={availability?.state}
      >
        {availability?.text}
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
    </form>
  );
}

function Price({ priceSat }: { priceSat: number }) {
  return (
    <>
      A username costs <Sats amount={priceSat} />, which you pay with ecash.
    </>
  );
}
