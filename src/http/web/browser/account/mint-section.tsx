import { useState } from 'preact/hooks';
import type { ApiClient, User, UserResponse } from './api-client.ts';
import {
  Form,
  Problem,
  Sats,
  Section,
  Status,
  SubmitButton,
  useAction,
  useLoaded,
} from './elements.tsx';

/** The mint chooses its name and description. Missing fields are unknown. */
interface Mint {
  url: string;
  name?: string;
  description?: string;
  supportsLocking?: boolean;
  minAmount?: number;
  maxAmount?: number;
}

interface SettingsProps {
  api: ApiClient;
  user: User;
  onUserChange: (user: User) => void;
}

export function MintSection(props: SettingsProps) {
  return (
    <Section title="Your mint">
      <CurrentMint api={props.api} mintUrl={props.user.mintUrl} />
      <MintForm {...props} />
      <LockSetting {...props} />
    </Section>
  );
}

function CurrentMint({ api, mintUrl }: { api: ApiClient; mintUrl: string }) {
  const { data, problem } = useLoaded(
    () => api.request<{ data: { mint: Mint } }>('/api/v2/user/mint'),
    [api, mintUrl],
  );
  const mint = data?.data.mint ?? { url: mintUrl };
  const name = mint.name ?? new URL(mint.url).host;
  return (
    <>
      <div class="mint">
        <span class="mint-badge" aria-hidden="true">
          {chooseBadgeText(name)}
        </span>
        <div>
          <bdi class="mint-name">{name}</bdi>
          <code class="breakable">{mint.url}</code>
        </div>
      </div>
      {data !== null && <MintFacts mint={mint} />}
      {problem !== null && <Problem>{problem}</Problem>}
    </>
  );
}

function MintFacts({ mint }: { mint: Mint }) {
  const { name, description, supportsLocking, minAmount, maxAmount } = mint;
  if (name === undefined && supportsLocking === undefined) {
    return <p class="hint">The mint has not responded yet, so nothing is known about it.</p>;
  }
  return (
    <p class="hint breakable">
      {description !== undefined && (
        <>
          <bdi>{description}</bdi>
          <br />
        </>
      )}
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
      {supportsLocking === true && 'It can lock quotes.'}
      {supportsLocking === false && 'It cannot lock quotes.'}
    </p>
  );
}

function chooseBadgeText(name: string): string {
  return /[\p{L}\p{N}]/u.exec(name)?.[0].toUpperCase() ?? '?';
}

function MintForm({ api, onUserChange }: Omit<SettingsProps, 'user'>) {
  const [url, setUrl] = useState('');
  const [status, setStatus] = useState<string | null>(null);
  const { isRunning, problem, run } = useAction(async () => {
    setStatus(null);
    const text = url.trim();
    const body = { mint_url: text.includes('://') ? text : `https://${text}` };
    const { data } = await api.request<UserResponse>('/api/v2/user/mint', {
      method: 'PATCH',
      body,
    });
    onUserChange(data.user);
    setUrl('');
    setStatus(`Saved. Future payments go to ${data.user.mintUrl}.`);
  });
  return (
    <Form onSubmit={() => run()}>
      <label for="mint-url">Choose another mint</label>
      <div class="row">
        <input
          id="mint-url"
          type="url"
          value={url}
          placeholder="https://mint.example"
          autocomplete="off"
          spellcheck={false}
          aria-invalid={problem !== null}
          aria-describedby="mint-url-hint mint-url-problem"
          onInput={({ currentTarget }) => setUrl(currentTarget.value)}
        />
        <SubmitButton isBusy={isRunning} busyLabel="Checking the mint…">
          Use this mint
        </SubmitButton>
      </div>
      <p class="hint" id="mint-url-hint">
        The server checks the mint before it saves it. The mint holds the money until you collect
        it, so choose one that you trust. Payments that you already have stay at their mint.
      </p>
      <div id="mint-url-problem">{problem !== null && <Problem>{problem}</Problem>}</div>
      <Status text={status} />
    </Form>
  );
}

function LockSetting({ api, user, onUserChange }: SettingsProps) {
  const [status, setStatus] = useState<string | null>(null);
  const { isRunning, problem, run } = useAction(async (lockQuotes: boolean) => {
    setStatus(null);
    const { data } = await api.request<UserResponse>('/api/v2/user/lock', {
      method: 'PATCH',
      body: { lockQuotes },
    });
    onUserChange(data.user);
    setStatus(`Saved. New quotes are ${data.user.lockQuote ? 'locked' : 'not locked'}.`);
  });
  return (
    <>
      <label class="switch">
        <input
          type="checkbox"
          checked={user.lockQuote}
          aria-disabled={isRunning}
          aria-describedby="lock-hint"
          onChange={({ currentTarget }) => void run(currentTarget.checked)}
        />
        Lock quotes
      </label>
      <p class="hint" id="lock-hint">
        Only a wallet that signs with your Nostr key can collect a locked quote: wallets built with
        cdk need this on, while cashu.me, Nutshell and wallets built with coco need it off.
      </p>
      {problem !== null && <Problem>{problem}</Problem>}
      <Status text={status} />
    </>
  );
}
