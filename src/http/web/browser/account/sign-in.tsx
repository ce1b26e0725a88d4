import { Problem, Section, useAction } from './elements.tsx';
import type { Signer } from './signer.ts';

interface SignInProps {
  signerRelay: string;
  /** Signs the user in. Fails if the signer refuses or the server rejects the signature. */
  onSigner: (signer: Signer) => Promise<void>;
}

/** Offers the ways to sign in. Never asks for a secret key. */
export function SignIn({ onSigner }: SignInProps) {
  const { nostr } = globalThis as { nostr?: Signer };
  const { isRunning, problem, run } = useAction(onSigner);
  return (
    <Section title="Sign in">
      {nostr !== undefined && (
        <button type="button" disabled={isRunning} onClick={() => void run(nostr)}>
          Sign in with a browser extension
        </button>
      )}
      {problem !== null && <Problem>{problem}</Problem>}
    </Section>
  );
}
