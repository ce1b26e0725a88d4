import { useEffect, useRef, useState } from 'preact/hooks';
import { Problem, Section, useAction } from './elements.tsx';
import { connectToExtension } from './extension-signer.ts';
import { RemoteSignIn } from './remote-sign-in.tsx';
import { type Signer, SignerError } from './signer.ts';
import { type Connect, Waiting, type WaitingFor } from './waiting.tsx';

interface SignInProps {
  signerRelay: string;
  /** Signs the user in. Fails if the signer refuses, the server rejects the signature, or the signal aborts. */
  onSigner: (signer: Signer, signal: AbortSignal) => Promise<void>;
}

const EXTENSION_TEXT = 'Waiting for your extension.';

/** Offers the ways to sign in. Never asks for a secret key. */
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
