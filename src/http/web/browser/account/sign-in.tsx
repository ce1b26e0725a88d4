import { useEffect, useRef, useState } from 'preact/hooks';
import { parseBunkerUri } from './bunker-uri.ts';
import { CopyableText, Problem, QrCode, Section, useAction } from './elements.tsx';
import { connectToBunker, inviteSigner } from './remote-signer.ts';
import { connectToExtension, type Signer, SignerError } from './signer.ts';

interface SignInProps {
  signerRelay: string;
  /** Signs the user in. Fails if the signer refuses, the server rejects the signature, or the signal aborts. */
  onSigner: (signer: Signer, signal: AbortSignal) => Promise<void>;
}

const EXTENSION_TEXT = 'Waiting for your extension.';

export function SignIn({ signerRelay, onSigner }: SignInProps) {
  const [waitingFor, setWaitingFor] = useState<WaitingFor | null>(null);
  const controller = useRef(new AbortController());
  const usedButton = useRef<HTMLButtonElement | null>(null);

  const { problem, run } = useAction(async (connect: Connect) => {
    const { signal } = controller.current;
    try {
      const signEvent = await connect(signal, setWaitingFor);
      await onSigner({ signEvent, close: () => abort('You signed out.') }, signal);
    } catch (error) {
      abort('Signing in failed.');
      throw error;
    } finally {
      setWaitingFor(null);
    }
  });

  const abort = (reason: string) => controller.current.abort(new SignerError(reason));
  const start = (connect: Connect, button: HTMLButtonElement | null) => {
    usedButton.current = button;
    controller.current = new AbortController();
    void run(connect);
  };

  // The button was hidden and has lost the focus.
  useEffect(() => {
    if (waitingFor === null) {
      usedButton.current?.focus();
    }
  }, [waitingFor]);

  const useExtension: Connect = (signal, show) => {
    show({ text: EXTENSION_TEXT });
    return connectToExtension(signal);
  };

  return (
    <Section title="Sign in">
      <p>
        Your signature proves that you own a Nostr key. This page never asks for your secret key
        (nsec), and forgets the session when you close it.
      </p>
      {problem !== null && <Problem>{problem}</Problem>}
      {waitingFor !== null && (
        <Waiting {...waitingFor} onCancel={() => abort('Signing in was cancelled.')} />
      )}
      <div hidden={waitingFor !== null}>
        <h3>Browser extension</h3>
        <p>An extension such as Alby or nos2x keeps your key and signs for you in this browser.</p>
        <button type="button" onClick={(event) => start(useExtension, event.currentTarget)}>
          Sign in with a browser extension
        </button>
        <RemoteSignIn signerRelay={signerRelay} onConnect={start} />
      </div>
    </Section>
  );
}

interface RemoteSignInProps {
  signerRelay: string;
  onConnect: (connect: Connect, button: HTMLButtonElement | null) => void;
}

const APPROVE_TEXT = 'Connecting to your signer. Open it and approve the request.';

function RemoteSignIn({ signerRelay, onConnect }: RemoteSignInProps) {
  const [bunkerUri, setBunkerUri] = useState('');
  const [problem, setProblem] = useState<string | null>(null);

  const invite: Connect = async (signal, show) => {
    const { uri, connected } = inviteSigner(signerRelay, signal);
    show({ text: 'Scan this code with your signer app, or paste the address there.', uri });
    const signEvent = await connected;
    show({ text: APPROVE_TEXT });
    return signEvent;
  };

  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    setProblem(null);
    try {
      const pointer = parseBunkerUri(bunkerUri, { allowInsecure: location.protocol === 'http:' });
      const connect: Connect = async (signal, show) => {
        show({ text: APPROVE_TEXT });
        return connectToBunker(pointer, signal);
      };
      onConnect(connect, event.submitter as HTMLButtonElement | null);
    } catch (error) {
      setProblem((error as Error).message);
    }
  };

  return (
    <>
      <h3>Remote signer</h3>
      <p>
        An app on your phone or a service keeps your key and signs for you, over a Nostr relay.
        Start here with a QR code, or paste an address that your signer shows.
      </p>
      <p>
        <button
          type="button"
          class="secondary"
          onClick={(event) => onConnect(invite, event.currentTarget)}
        >
          Show QR code
        </button>
      </p>
      <form onSubmit={submit}>
        <label for="bunker">Bunker address</label>
        <div class="row">
          <input
            id="bunker"
            value={bunkerUri}
            onInput={({ currentTarget }) => setBunkerUri(currentTarget.value)}
            placeholder="bunker://…"
            autocomplete="off"
            autocapitalize="none"
            spellcheck={false}
            required
            aria-describedby={problem === null ? undefined : 'bunker-problem'}
            aria-invalid={problem !== null}
          />
          <button type="submit" class="secondary">
            Connect
          </button>
        </div>
        {problem !== null && (
          <div id="bunker-problem">
            <Problem>{problem}</Problem>
          </div>
        )}
      </form>
    </>
  );
}

interface WaitingFor {
  text: string;
  /** A `nostrconnect://` address that the user gives to the signer. */
  uri?: string;
}

/** Connects to a signer. Rejects if the signal aborts. Shows what the user has to do. */
type Connect = (
  signal: AbortSignal,
  show: (waitingFor: WaitingFor) => void,
) => Promise<Signer['signEvent']>;

function Waiting({ text, uri, onCancel }: WaitingFor & { onCancel: () => void }) {
  const paragraph = useRef<HTMLParagraphElement>(null);
  useEffect(() => paragraph.current?.focus(), [text]);
  return (
    <>
      <p ref={paragraph} tabIndex={-1}>
        {text}
      </p>
      {uri !== undefined && (
        <>
          <QrCode text={uri} label="QR code for your signer" />
          <CopyableText text={uri} label="Copy address" />
        </>
      )}
      <p class="row">
        {uri !== undefined && (
          <a class="button" href={uri}>
            Open in signer app
          </a>
        )}
        <button type="button" class="secondary" onClick={onCancel}>
          Cancel
        </button>
      </p>
    </>
  );
}
