import { useState } from 'preact/hooks';
import { Sats, Section } from '../../elements.ts';
import type { ApiClient, Session, User } from './api-client.ts';
import { Button, Dialog, FieldForm, Problem, Status, useAction, useLoaded } from './elements.tsx';
import { describeMintProblem, findMintUrlProblem } from './problem-text.ts';

/** The mint chooses its name and description. Missing fields are unknown. */
interface Mint {
  url: string;
  name?: string;
  description?: string;
  supportsLocking?: boolean;
  minAmount?: number;
  maxAmount?: number;
}

type MintSectionProps = Session & { mints: readonly string[] };

export function MintSection(session: MintSectionProps) {
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
  return (
    <>
      <MintTitle {...(data?.data.mint ?? { url: mintUrl })} />
      {data !== null && <MintFacts {...data.data.mint} />}
      <Problem text={problem} />
    </>
  );
}

function MintTitle({ url, name = new URL(url).host }: Mint) {
  return (
    <div class="mint">
      <span class="mint-badge" aria-hidden="true">
        {/[\p{L}\p{N}]/u.exec(name)?.[0].toUpperCase() ?? '?'}
      </span>
      <div>
        <bdi class="mint-name">{name}</bdi>
        <code class="breakable">{url}</code>
      </div>
    </div>
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

function MintForm(session: MintSectionProps) {
  const { api, user, mints } = session;
  const [url, setUrl] = useState('');
  const [preview, setPreview] = useState<Mint | null>(null);
  const [savedMintUrl, setSavedMintUrl] = useState<string | null>(null);
  const lookUp = useAction(async (text: string) => {
    setSavedMintUrl(null);
    setPreview(await fetchPreview(api, text));
  });
  const finish = (mint: Mint) => {
    setPreview(null);
    setUrl('');
    setSavedMintUrl(mint.url);
  };
  const recommendedMints = mints.filter((mint) => mint !== user.mintUrl);
  return (
    <>
      <FieldForm
        id="mint-url"
        label="Choose another mint"
        value={url}
        onText={setUrl}
        attributes={{ type: 'url', placeholder: 'https://mint.example' }}
        hint={
          'The mint holds the money until you collect it, so choose one that you trust. Payments that you already have ' +
          'stay at their mint.'
        }
        problem={lookUp.problem}
        button="Check this mint"
        busyButton={lookUp.isRunning && 'Checking the mint…'}
        isSecondary
        onSubmit={() => lookUp.run(url)}
      />
      {recommendedMints.length > 0 && (
        <>
          <p>The operator of this server recommends:</p>
          <p class="row">
            {recommendedMints.map((mint) => (
              <Button key={mint} class="secondary breakable" onClick={() => void lookUp.run(mint)}>
                {mint.replace(/^https?:\/\//, '')}
              </Button>
            ))}
          </p>
        </>
      )}
      {preview !== null && (
        <MintChoice
          {...session}
          mint={preview}
          onSaved={() => finish(preview)}
          onCancel={() => setPreview(null)}
        />
      )}
      <Status text={savedMintUrl && `Saved. Future payments go to ${savedMintUrl}.`} />
    </>
  );
}

type MintChoiceProps = Session & { mint: Mint; onSaved: () => void; onCancel: () => void };

function MintChoice({ mint, onSaved, onCancel, ...session }: MintChoiceProps) {
  const { isRunning, problem, run } = useAction(async () => {
    await patch(session, '/api/v2/user/mint', { mint_url: mint.url });
    onSaved();
  });
  return (
    <Dialog label="Use this mint for future payments?" onCancel={onCancel}>
      <h3>Use this mint for future payments?</h3>
      <MintTitle {...mint} />
      <MintFacts {...mint} />
      <Problem text={problem} />
      <p class="row">
        <button type="button" aria-disabled={isRunning} onClick={() => void run()}>
          {isRunning ? 'Saving…' : 'Use this mint'}
        </button>
        <Button onClick={onCancel}>Cancel</Button>
      </p>
    </Dialog>
  );
}

/** Throws an error with a sentence for the user if the mint cannot be used. */
async function fetchPreview(api: ApiClient, enteredUrl: string): Promise<Mint> {
  const text = enteredUrl.trim();
  const url = text === '' || text.includes('://') ? text : `https://${text}`;
  const urlProblem = findMintUrlProblem(url);
  if (urlProblem !== null) {
    throw new Error(urlProblem);
  }
  const { data } = await api.request<{ mint?: Mint; reason?: string }>(
    `/api/v2/user/mint/preview?${new URLSearchParams({ url })}`,
  );
  if (data.mint === undefined) {
    throw new Error(describeMintProblem(data.reason ?? ''));
  }
  return data.mint;
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
