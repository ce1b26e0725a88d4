import { useRef, useState } from 'preact/hooks';
import { CopyableText, QrCode, Section } from '../../elements.ts';
import { Button, Dialog, FieldForm, Problem, useAction } from './elements.tsx';
import { connectToBunker, inviteSigner, reconnect } from './remote-signer.ts';
import { type Pairing, readPairing, savePairing } from './saved-pairing.ts';
import { connectToExtension, parseBunkerUri, type Signer, SignerError } from './signer.ts';

/** Connects to a signer. Calls `show` with what the user has to do meanwhile. */
type Connect = (
  signal: AbortSignal,
  show: (waitingFor: WaitingFor) => void,
) => Promise<Signer['signEvent']>;

interface SignInProps {
  signerRelay: string;
  onSigner: (signer: Signer, signal: AbortSignal) => Promise<void>;
}

/** Phones have signer apps, and hardly any browser extensions. */
const IS_PHONE = matchMedia('(pointer: coarse)').matches;

const APPROVE_TEXT = 'Connecting to your signer. Open it and approve the request.';

export function SignIn({ signerRelay, onSigner }: SignInProps) {
  const [waitingFor, setWaitingFor] = useState<WaitingFor | null>(null);
  const [bunkerUri, setBunkerUri] = useState('');
  const [isRemembered, setIsRemembered] = useState(false);
  const [pairing, setPairing] = useState(readPairing);
  const controller = useRef(new AbortController());
  const abort = (reason: string) => controller.current.abort(new SignerError(reason));

  const connectAndSignIn = async (connect: Connect) => {
    controller.current = new AbortController();
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
  };
  const signIn = useAction(connectAndSignIn);
  const bunkerSignIn = useAction(connectAndSignIn);

  const withExtension: Connect = (signal, show) => {
    show({ text: 'Waiting for your extension.' });
    return connectToExtension(signal);
  };
  const withQrCode: Connect = async (signal, show) => {
    const { uri, connected } = inviteSigner(signerRelay, signal, isRemembered);
    show({ text: 'Scan this code with your signer app, or paste the address there.', uri });
    const signEvent = await connected;
    show({ text: APPROVE_TEXT });
    return signEvent;
  };
  const withBunkerAddress: Connect = async (signal, show) => {
    const pointer = parseBunkerUri(bunkerUri, location.protocol === 'http:');
    show({ text: APPROVE_TEXT });
    return connectToBunker(pointer, signal, isRemembered);
  };
  const forget = () => {
    savePairing(null);
    setPairing(null);
  };
  const extension = (
    <>
      <h3>Browser extension</h3>
      <p>An extension such as Alby or nos2x keeps your key and signs for you in this browser.</p>
      <Button
        class={IS_PHONE || pairing !== null ? 'secondary' : ''}
        onClick={() => void signIn.run(withExtension)}
      >
        Sign in with a browser extension
      </Button>
    </>
  );
  const remoteSigner = (
    <>
      <h3>Remote signer</h3>
      <p>
        An app on your phone or a service keeps your key and signs for you, over a Nostr relay.
        Connect it here, or paste an address that it shows.
      </p>
      <p>
        <Button
          class={IS_PHONE && pairing === null ? '' : 'secondary'}
          onClick={() => void signIn.run(withQrCode)}
        >
          {IS_PHONE ? 'Sign in with a signer app' : 'Show QR code'}
        </Button>
      </p>
      <FieldForm
        id="bunker"
        label="Signer address"
        value={bunkerUri}
        onText={setBunkerUri}
        attributes={{ placeholder: 'bunker://…' }}
        problem={bunkerSignIn.problem}
        button="Connect"
        isSecondary
        onSubmit={() => bunkerSignIn.run(withBunkerAddress)}
      />
      <label class="switch">
        <input
          type="checkbox"
          checked={isRemembered}
          onChange={({ currentTarget }) => setIsRemembered(currentTarget.checked)}
        />
        Remember this signer in this browser
      </label>
    </>
  );

  return (
    <Section title="Sign in">
      <p>
        Prove with a signature that you own a Nostr key. This page never asks for your secret key
        (nsec).
      </p>
      <p>
        No key yet? A browser extension or a signer app creates one, without registration. Keep a
        copy in a safe place: nobody can replace it.
      </p>
      <Problem text={signIn.problem} />
      {waitingFor !== null && (
        <Waiting {...waitingFor} onCancel={() => abort('Signing in was cancelled.')} />
      )}
      {pairing !== null && (
        <p class="row">
          <Button class="" onClick={() => void signIn.run(withPairing(pairing))}>
            Sign in with the remembered signer
          </Button>
          <Button onClick={forget}>Forget this signer</Button>
        </p>
      )}
      {IS_PHONE ? [remoteSigner, extension] : [extension, remoteSigner]}
      <p class="hint">
        You stay signed in until you sign out or close the tab; after a reload, for up to 30
        minutes.
      </p>
    </Section>
  );
}

function withPairing(pairing: Pairing): Connect {
  return async (signal, show) => {
    show({ text: APPROVE_TEXT });
    return reconnect(pairing, signal);
  };
}

interface WaitingFor {
  text: string;
  /** A `nostrconnect://` address that the user gives to the signer. */
  uri?: string;
}

function Waiting({ text, uri, onCancel }: WaitingFor & { onCancel: () => void }) {
  return (
    <Dialog label={text} onCancel={onCancel}>
      <p role="status">{text}</p>
      <p class="row">
        {uri !== undefined && (
          <a class="button" href={uri}>
            Open in signer app
          </a>
        )}
        <Button onClick={onCancel}>Cancel</Button>
      </p>
      {uri !== undefined && (
        <>
          <QrCode text={uri} label="QR code for your signer" />
          <CopyableText text={uri} label="Copy address" />
        </>
      )}
    </Dialog>
  );
}
