import type { ApiClient } from './api-client.ts';
import { explained } from './api-failure.ts';
import { Problem, Sats, useAction } from './elements.tsx';
import { SubmitButton } from './form-elements.tsx';
import { useNameAvailability } from './name-availability.ts';
import { describePurchaseProblem } from './problem-text.ts';

interface UsernameFormProps {
  api: ApiClient;
  ownName: string | undefined;
  /** 0: usernames are free. */
  priceSat: number;
  name: string;
  /** Whether the user has pasted a token, which the next step shows. */
  hasToken: boolean;
  onName: (name: string) => void;
  onSubmit: () => Promise<void>;
}

/** Asks for a name, and shows while the user types whether it is available. */
export function UsernameForm(props: UsernameFormProps) {
  const { api, ownName, priceSat, name, hasToken, onName, onSubmit } = props;
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
      {hasToken && <p class="hint">Your token is kept: it appears again in the next step.</p>}
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
