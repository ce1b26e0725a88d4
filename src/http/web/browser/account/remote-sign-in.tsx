import { useState } from 'preact/hooks';
import { parseBunkerUri } from './bunker-uri.ts';
import { Problem } from './elements.tsx';
import { connectToBunker, inviteSigner } from './remote-signer.ts';
import type { Connect } from './waiting.tsx';

interface RemoteSignInProps {
  signerRelay: string;
  onConnect: (connect: Connect, button: HTMLButtonElement | null) => void;
}

const APPROVE_TEXT = 'Connecting to your signer. Open it and approve the request.';

/** Offers two ways to connect to a remote signer (NIP-46). */
export function RemoteSignIn({ signerRelay, onConnect }: RemoteSignInProps) {
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
