import { useState } from 'preact/hooks';
import { Section } from '../../elements.ts';
import type { TextKey } from '../../translation.ts';
import { ExplainedError } from '../explained-error.ts';
import { formatTime, t } from '../translator.ts';
import type { ApiClient, Session, User } from './api-client.ts';
import { Button, Dialog, FieldForm, Problem, Status, useAction, useLoaded } from './elements.tsx';

/** The mint chooses its name and description. Missing fields are unknown. Times are Unix seconds. */
interface Mint {
  url: string;
  name?: string;
  description?: string;
  supportsLocking?: boolean;
  minAmount?: number;
  maxAmount?: number;
  answeredAt?: number;
  failingSince?: number;
}

/** The name is null if the mint has not sent it. */
export interface OfferedMint {
  url: string;
  name: string | null;
}

type MintSectionProps = Session & { mints: readonly OfferedMint[]; allowsAnyMint: boolean };

interface SavedMintProps {
  /** The mint that the last change has saved; null after other changes. */
  savedMintUrl: string | null;
  onMintSaved: (url: string | null) => void;
}

export function MintSection(session: MintSectionProps) {
  const [savedMintUrl, setSavedMintUrl] = useState<string | null>(null);
  return (
    <Section title={t('account.mintTitle')}>
      <CurrentMint {...session} />
      <MintForm {...session} savedMintUrl={savedMintUrl} onMintSaved={setSavedMintUrl} />
      {/* What it says is about one mint. */}
      <LockSetting key={session.user.mintUrl} {...session} onStart={() => setSavedMintUrl(null)} />
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

function MintFacts({ name, description, supportsLocking, minAmount, maxAmount, ...mint }: Mint) {
  const { answeredAt, failingSince } = mint;
  if (name === undefined && supportsLocking === undefined) {
    return <p class="hint">{t('account.mintUnknown')}</p>;
  }
  return (
    <p class="hint breakable">
      <bdi>{description}</bdi> {description !== undefined && <br />}
      {[
        minAmount !== undefined && t('account.smallestPayment', { amount: minAmount }),
        maxAmount !== undefined && t('account.largestPayment', { amount: maxAmount }),
        supportsLocking !== undefined &&
          t(supportsLocking ? 'account.canLock' : 'account.cannotLock'),
        failingSince !== undefined
          ? t('account.mintFails', { time: formatTime(failingSince * 1_000) })
          : answeredAt !== undefined &&
            t('account.mintAnswers', { time: formatTime(answeredAt * 1_000) }),
      ]
        .filter((text) => text !== false)
        .join(' ')}
    </p>
  );
}

async function patch({ api, onUserChange }: Session, path: string, body: object): Promise<User> {
  const { data } = await api.request<{ user: User }>(path, { method: 'PATCH', body });
  onUserChange(data.user);
  return data.user;
}

function MintForm({ savedMintUrl, onMintSaved, ...session }: MintSectionProps & SavedMintProps) {
  const { api, user, mints, allowsAnyMint } = session;
  const [url, setUrl] = useState('');
  const [preview, setPreview] = useState<Mint | null>(null);
  const lookUp = useAction(async (text: string) => {
    onMintSaved(null);
    setPreview(await fetchPreview(api, text));
  });
  const finish = (mint: Mint) => {
    setPreview(null);
    setUrl('');
    onMintSaved(mint.url);
  };
  const otherMints = mints.filter((mint) => mint.url !== user.mintUrl);
  return (
    <>
      {allowsAnyMint ? (
        <FieldForm
          id="mint-url"
          label={t('account.chooseMint')}
          value={url}
          onText={setUrl}
          attributes={{ type: 'url', placeholder: 'https://mint.example' }}
          hint={t('account.chooseMintHint')}
          problem={lookUp.problem}
          button={t('account.checkMint')}
          busyButton={lookUp.isRunning && t('account.checkingMint')}
          isSecondary
          onSubmit={() => lookUp.run(url)}
        />
      ) : (
        <Problem text={lookUp.problem} />
      )}
      {otherMints.length > 0 && (
        <>
          <p>{t(allowsAnyMint ? 'account.recommendedMints' : 'account.allowedMints')}</p>
          <p class="row">
            {otherMints.map((mint) => (
              <Button
                key={mint.url}
                class="secondary breakable"
                onClick={() => void lookUp.run(mint.url)}
              >
                {mint.name !== null && <bdi>{mint.name} · </bdi>}
                {mint.url.replace(/^https?:\/\//, '')}
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
      <Status text={savedMintUrl && t('account.mintSaved', { mint: savedMintUrl })} />
    </>
  );
}

type MintChoiceProps = Session & { mint: Mint; onSaved: () => void; onCancel: () => void };

function MintChoice({ mint, onSaved, onCancel, ...session }: MintChoiceProps) {
  const isCurrent = mint.url === session.user.mintUrl;
  const title = t(isCurrent ? 'account.mintIsYours' : 'account.useMintQuestion');
  const { isRunning, problem, run } = useAction(async () => {
    await patch(session, '/api/v2/user/mint', { mint_url: mint.url });
    onSaved();
  });
  return (
    <Dialog label={title} onCancel={onCancel}>
      <h3>{title}</h3>
      <MintTitle {...mint} />
      <MintFacts {...mint} />
      <Problem text={problem} />
      <p class="row">
        {!isCurrent && (
          <button type="button" aria-disabled={isRunning} onClick={() => void run()}>
            {t(isRunning ? 'account.saving' : 'account.useMint')}
          </button>
        )}
        <Button onClick={onCancel}>{t(isCurrent ? 'account.close' : 'account.cancel')}</Button>
      </p>
    </Dialog>
  );
}

/** Throws an error with a sentence for the user if the mint cannot be used. */
async function fetchPreview(api: ApiClient, enteredUrl: string): Promise<Mint> {
  const text = enteredUrl.trim();
  const url = text.includes('://') ? text : `https://${text}`;
  // Chromium accepts spaces in host names.
  if (/\s/.test(url) || !URL.canParse(url)) {
    throw new ExplainedError(t('account.mintInvalidUrl'));
  }
  const { data } = await api.request<{ mint?: Mint; reason?: string }>(
    `/api/v2/user/mint/preview?${new URLSearchParams({ url })}`,
  );
  if (data.mint === undefined) {
    throw new ExplainedError(t(MINT_PROBLEMS[data.reason ?? ''] ?? 'account.mintUnavailable'));
  }
  return data.mint;
}

/** By the reason from the API, whose later versions may add reasons. */
const MINT_PROBLEMS: { readonly [reason: string]: TextKey } = {
  invalid_url: 'account.mintInvalidUrl',
  not_found: 'account.mintNotFound',
  refused: 'account.mintRefused',
  timeout: 'account.mintTimeout',
  redirect: 'account.mintRedirect',
  not_a_mint: 'account.notAMint',
  no_sats: 'account.mintNoSats',
  not_allowed: 'account.mintNotAllowed',
};

const LOCK_TEXTS = { locking_unsupported: 'account.mintCannotLock' } as const;

function LockSetting({ onStart, ...session }: Session & { onStart: () => void }) {
  const [chosen, setChosen] = useState(session.user.lockQuote);
  const { isRunning, problem, success, run } = useAction(async (lockQuotes: boolean) => {
    onStart();
    setChosen(lockQuotes);
    const { lockQuote } = await patch(session, '/api/v2/user/lock', { lockQuotes });
    return t(lockQuote ? 'account.lockSaved' : 'account.unlockSaved');
  }, LOCK_TEXTS);
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
        {t('account.lock')}
      </label>
      <p class="hint" id="lock-hint">
        {t('account.lockHint')}
      </p>
      <Problem text={problem} />
      <Status text={isRunning ? t('account.saving') : success} />
    </>
  );
}
