import { render } from 'preact';
import { useState } from 'preact/hooks';
import { Section } from '../../elements.ts';
import type { ApiClient } from '../account/api-client.ts';
import { Button, Problem, useAction } from '../account/elements.tsx';
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
      {session !== null && <Commands api={session.api} />}
      {session === null && !isLoading && (
        <SignIn signerRelay={signerRelay} onSession={setSession} />
      )}
    </>
  );
}

function Commands({ api }: { api: ApiClient }) {
  return (
    <>
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
      <CommandSection api={api} title="Statistics">
        {[['Count the payments of 30 days', () => ['stats']]]}
      </CommandSection>
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

const root = getElement('operator', HTMLElement);
root.replaceChildren();
render(<Page signerRelay={root.dataset['signerRelay'] ?? ''} />, root);
