import { useState } from 'preact/hooks';
import { Sats, Section } from '../../elements.ts';
import type { Session, User } from './api-client.ts';
import { FieldForm, Problem, Status, useAction, useLoaded } from './elements.tsx';
import { findMintUrlProblem } from './problem-text.ts';

/** The mint chooses its name and description. Missing fields are unknown. */
interface Mint {
  url: string;
  name?: string;
  description?: string;
  supportsLocking?: boolean;
  minAmount?: number;
  maxAmount?: number;
}

export function MintSection(session: Session) {
  return (
    <Section title="Your mint">
      <CurrentMint {...session} />
      <MintForm {...session} />
      <LockSetting {...session} />
    </Section>
  );
}

function CurrentMint({ api, user: { mintUrl } }: Session) {
  const { data, problem } = useLoaded(
    () => api.request<{ mint: Mint }>('/api/v2/user/mint'),
    [api, mintUrl],
  );
  const mint = data?.data.mint ?? { url: mintUrl };
  const name = mint.name ?? new URL(mint.url).host;
  return (
    <>
      <div class="mint">
        <span class="mint-badge" aria-hidden="true">
          {/[\p{L}\p{N}]/u.exec(name)?.[0].toUpperCase() ?? '?'}
        </span>
        <div>
          <bdi class="mint-name">{name}</bdi>
          <code class="breakable">{mint.url}</code>
        </div>
      </div>
      {data !== null && <MintFacts {...mint} />}
      <Problem text={problem} />
    </>
  );
}

function MintFacts({ name, description, supportsLocking, minAmount, maxAmount }: Mint) {
  if (name === undefined && supportsLocking === undefined) {
    return <p class="hint">The mint has not responded yet, so nothing is known about it.</p>;
  }
  return (
    <p class="hint breakable">
      <bdi>{description}</bdi> {description !== undefined && <br />}
      {minAmount !== undefined && (
        <>
          Smallest payment: <Sats amount={minAmount} />.{' '}
        </>
      )}
      {maxAmount !== undefined && (
        <>
          Largest payment: <Sats amount={maxAmount} />.{' '}
        </>
      )}
      {supportsLocking === true && 'It can lock payments.'}
      {supportsLocking === false && 'It cannot lock payments.'}
    </p>
  );
}

async function patch({ api, onUserChange }: Session, path: string, body: object): Promise<User> {
  const { data } = await api.request<{ user: User }>(path, { method: 'PATCH', body });
  onUserChange(data.user);
  return data.user;
}

function MintForm(session: Session) {
  const [url, setUrl] = useState('');
  const { isRunning, problem, success, run } = useAction(async () => {
    const text = url.trim();
    const mint_url = text === '' || text.includes('://') ? text : `https://${text}`;
    const urlProblem = findMintUrlProblem(mint_url);
    if (urlProblem !== null) {
      throw new Error(urlProblem);
    }
    const { mintUrl } = await patch(session, '/api/v2/user/mint', { mint_url });
    setUrl('');
    return `Saved. Future payments go to ${mintUrl}.`;
  });
  return (
    <>
      <FieldForm
        id="mint-url"
        label="Choose another mint"
        value={url}
        onText={setUrl}
        attributes={{ type: 'url', placeholder: 'https://mint.example' }}
        hint={
          'The server checks the mint before it saves it. The mint holds the money until you collect it, so choose ' +
          'one that you trust. Payments that you already have stay at their mint.'
        }
        problem={problem}
        button="Use this mint"
        busyButton={isRunning && 'Checking the mint…'}
        onSubmit={run}
      />
      <Status text={success} />
    </>
  );
}

function LockSetting(session: Session) {
  const [chosen, setChosen] = useState(session.user.lockQuote);
  const { isRunning, problem, success, run } = useAction(async (lockQuotes: boolean) => {
    setChosen(lockQuotes);
    const { lockQuote } = await patch(session, '/api/v2/user/lock', { lockQuotes });
    return `Saved. New payments are ${lockQuote ? 'locked' : 'not locked'}.`;
  });
  return (
    <>
      <label class="switch">
        <input
          type="checkbox"
          checked={isRunning ? chosen : session.user.lockQuote}
          aria-disabled={isRunning}
          aria-describedby="lock-hint"
          onClick={(event) => isRunning && event.preventDefault()}
          onChange={({ currentTarget }) => void run(currentTarget.checked)}
        />
        Lock payments
      </label>
      <p class="hint" id="lock-hint">
        Only a wallet that signs with your Nostr key can collect a locked payment: wallets built
        with cdk need this on, while cashu.me, Nutshell and wallets built with coco need it off.
      </p>
      <Problem text={problem} />
      <Status text={isRunning ? 'Saving…' : success} />
    </>
  );
}
