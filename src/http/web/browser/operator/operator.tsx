import { render } from 'preact';
import { useState } from 'preact/hooks';
import type { OperatorOverview } from '../../../operator-context.ts';
import { Section } from '../../elements.ts';
import { type ApiClient, ApiError } from '../account/api-client.ts';
import { Button, Problem, useAction, useLoaded } from '../account/elements.tsx';
import { SignIn } from '../account/sign-in.tsx';
import { useSession } from '../account/use-session.ts';
import { getElement } from '../common.ts';

// The operator page. Its texts are in English only, like the commands whose output it shows.

const COMMANDS_PATH = '/api/v2/operator/commands';

function Page({ signerRelay }: { signerRelay: string }) {
  const { session, setSession, isLoading, problem, reload } = useSession();
  return (
    <>
      <h1>Operator</h1>
      <Problem text={problem} onRetry={reload} />
      {session !== null && <Overview api={session.api} />}
      {session === null && !isLoading && (
        <SignIn signerRelay={signerRelay} onSession={setSession} />
      )}
    </>
  );
}

function Overview({ api }: { api: ApiClient }) {
  const { data, problem, reload } = useLoaded(async () => {
    try {
      return (await api.request<OperatorOverview>('/api/v2/operator/overview')).data;
    } catch (error) {
      // The server does not say whether the page exists to keys that are not in OPERATOR_KEYS.
      return error instanceof ApiError && error.status === 404
        ? 'not found'
        : Promise.reject(error);
    }
  }, [api]);
  if (data === null) {
    return problem === null ? (
      <p class="loading">Loading…</p>
    ) : (
      <Problem text={problem} onRetry={reload} />
    );
  }
  if (data === 'not found') {
    return <p>There is nothing here for this key.</p>;
  }
  const { health, version, alerts, errors, mints, days } = data;
  const checks = Object.entries(health.checks).map(([name, result]) => `${name}: ${result}`);
  return (
    <>
      <Section title="Health">
        <p>
          <strong>{health.status}</strong> ({checks.join(', ')}), nutpost {version}
        </p>
        {alerts.map(({ sinceMs, text }) => (
          <p class="problem">
            {text} Since {formatTime(sinceMs)}.
          </p>
        ))}
        <p>
          <Button onClick={reload}>Reload</Button>
        </p>
      </Section>
      <CommandSection api={api} title="Doctor">
        {[['Run the doctor, which takes up to 20 s', () => ['doctor']]]}
      </CommandSection>
      <CommandSection
        api={api}
        title="Find a payment"
        label="Hash, invoice, npub, name or quote id"
      >
        {[['Trace', (text) => ['trace', text]]]}
      </CommandSection>
      <Section title="Errors">
        <p class="hint">Of the process that answered, since its start. The log has all.</p>
        {errors.length === 0 && <p>None.</p>}
        <ul>
          {errors.map(({ time, event, message }) => (
            <li>
              {formatTime(time)} <code>{event}</code> {message}
            </li>
          ))}
        </ul>
      </Section>
      <Section title="Mints">
        <p class="hint">Failed requests are those of the process that answered, since its start.</p>
        <ul>
          {mints.map(({ url, answeredAtMs, failingSinceMs, failure, requests, failures }) => (
            <li class={failingSinceMs === null ? '' : 'problem'}>
              {url}: last answer {answeredAtMs === null ? 'unknown' : formatTime(answeredAtMs)}
              {failingSinceMs !== null &&
                `, ${failure ?? 'failing'} since ${formatTime(failingSinceMs)}`}
              , {failures} of {requests} requests failed
            </li>
          ))}
        </ul>
      </Section>
      <Section title="Statistics of 30 days">
        <BarChart title="Payments per day" days={days} unit="payments" />
        <BarChart title="Sats per day" days={days} unit="sat" />
      </Section>
      <CommandSection
        api={api}
        title="Users"
        label="npub, key or name"
        second="Reason of the block"
      >
        {[
          ['Show', (text) => ['user', 'show', text]],
          ['Block', (text, reason) => ['user', 'block', text, ...option('reason', reason)]],
          ['Unblock', (text) => ['user', 'unblock', text]],
          ['List', () => ['user', 'list']],
        ]}
      </CommandSection>
      <CommandSection api={api} title="Names" label="Name" second="npub, to assign it">
        {[
          ['Show', (name) => ['name', 'show', name]],
          ['Assign', (name, npub) => ['name', 'assign', name, npub]],
          ['Reserve', (name) => ['name', 'reserve', name]],
          ['Release', (name) => ['name', 'release', name]],
        ]}
      </CommandSection>
      <CommandSection api={api} title="Members" label="npub or key" second="Name, if any">
        {[
          ['Add', (npub, name) => ['member', 'add', npub, ...option('name', name)]],
          ['Remove', (npub) => ['member', 'remove', npub]],
          ['List', () => ['member', 'list']],
        ]}
      </CommandSection>
      <CommandSection api={api} title="Who changed what" label="npub or name; empty for all">
        {[['List', (text) => ['audit', ...(text === '' ? [] : [text])]]]}
      </CommandSection>
    </>
  );
}

type BarChartProps = Pick<OperatorOverview, 'days'> & { title: string; unit: 'payments' | 'sat' };

/** A bar for each day, below a text with the sum and the maximum. */
function BarChart({ title, days, unit }: BarChartProps) {
  const values = days.map((day) => day[unit]);
  const max = Math.max(0, ...values);
  const total = values.reduce((sum, value) => sum + value, 0);
  const format = (value: number) => value.toLocaleString('en');
  const label = `${title}: ${format(total)} in ${days.length} days, at most ${format(max)} in one`;
  return (
    <>
      <p>{label}</p>
      <svg class="chart" role="img" aria-label={label} viewBox={`0 0 ${10 * days.length} 60`}>
        {values.map((value, index) => {
          const height = (60 * value) / Math.max(1, max);
          return (
            <rect x={10 * index} y={60 - height} width="8" height={height}>
              <title>{`${days[index]?.period}: ${format(value)}`}</title>
            </rect>
          );
        })}
      </svg>
    </>
  );
}

interface CommandSectionProps {
  api: ApiClient;
  title: string;
  /** The labels of the fields, if any. */
  label?: string;
  second?: string;
  /** The label of each button, and the arguments of its command. */
  children: [label: string, toArguments: (text: string, second: string) => string[]][];
}

/** Runs operator commands with what the operator enters, and shows their output. */
function CommandSection({ api, title, label, second, children }: CommandSectionProps) {
  const [text, setText] = useState('');
  const [secondText, setSecondText] = useState('');
  const [output, setOutput] = useState<string | null>(null);
  const run = useAction(async (argv: string[]) => {
    setOutput(null);
    const request = { method: 'POST', body: { argv } } as const;
    setOutput((await api.request<{ output: string }>(COMMANDS_PATH, request)).data.output);
  });
  const field = (name: string, value: string, onText: (entered: string) => void) => (
    <label>
      {name}
      <input
        value={value}
        autocomplete="off"
        autocapitalize="none"
        spellcheck={false}
        onInput={({ currentTarget }) => onText(currentTarget.value)}
      />
    </label>
  );
  return (
    <Section title={title}>
      {label !== undefined && field(label, text, setText)}
      {second !== undefined && field(second, secondText, setSecondText)}
      <p class="row">
        {children.map(([buttonLabel, toArguments]) => (
          <Button
            onClick={() => void run.run(toArguments(text.trim(), secondText.trim()))}
            aria-disabled={run.isRunning}
          >
            {buttonLabel}
          </Button>
        ))}
      </p>
      <Problem text={run.problem} />
      <output>{output !== null && <pre>{output}</pre>}</output>
    </Section>
  );
}

function option(name: string, value: string): string[] {
  return value === '' ? [] : [`--${name}=${value}`];
}

/** Without milliseconds, in UTC like the log. */
function formatTime(time: string | number): string {
  const iso = new Date(time).toISOString();
  return `${iso.slice(0, 10)} ${iso.slice(11, 19)} UTC`;
}

const root = getElement('operator', HTMLElement);
root.replaceChildren();
render(<Page signerRelay={root.dataset['signerRelay'] ?? ''} />, root);
