import { useRef, useState } from 'preact/hooks';
import { CopyableText, QrCode, Section } from '../../elements.ts';
import { rich, t } from '../translator.ts';
import { pairingStore } from './browser-storage.ts';
import { Button, Dialog, FieldForm, FormProblem, useAction } from './elements.tsx';
import { connectToBunker, inviteSigner, reconnect } from './remote-signer.ts';
import { connectToExtension, parseBunkerUri, type Signer, SignerError } from './signer.ts';
import { type AccountSession, openSession } from './use-session.ts';

type Connect = (signal: AbortSignal) => Promise<Signer['signEvent']> | Signer['signEvent'];

interface SignInProps {
  signerRelay: string;
  onSession: (session: AccountSession) => void;
}

type Method = 'extension' | 'qr_code' | 'bunker' | 'pairing';

/** Phones have signer apps, and hardly any browser extensions. */
const IS_PHONE = matchMedia('(pointer: coarse)').matches;

/** Extensions and a signer app that create a key. */
const KEY_APPS = {
  alby: <KeyApp name="Alby" href="https://getalby.com" />,
  nos2x: <KeyApp name="nos2x" href="https://github.com/fiatjaf/nos2x" />,
  amber: <KeyApp name="Amber" href="https://github.com/greenart7c3/Amber" />,
  nostash: <KeyApp name="Nostash" href="https://apps.apple.com/us/app/nostash/id6744309333" />,
};

const APPROVE_TEXT = t('account.approve');

export function SignIn({ signerRelay, onSession }: SignInProps) {
  const [waitingFor, setWaitingFor] = useState<WaitingFor | null>(null);
  const [bunkerUri, setBunkerUri] = useState('');
  const [isRemembered, setIsRemembered] = useState(false);
  const [method, setMethod] = useState<Method | null>(null);
  const [pairing, setPairing] = useState(pairingStore.read);
  const controller = useRef(new AbortController());
  const abort = (reason: string) => controller.current.abort(new SignerError(reason));

  const signIn = useAction(async (connect: Connect) => {
    controller.current = new AbortController();
    const { signal } = controller.current;
    try {
      const signEvent = await connect(signal);
      const signer = { signEvent, close: () => abort(t('account.signedOut')) };
      onSession(await openSession(signer, signal));
    } catch (error) {
      abort(t('account.signInFailed'));
      throw error;
    } finally {
      setWaitingFor(null);
    }
  });
  /** @param text what the user has to do meanwhile */
  const start = (newMethod: Method, text: string, connect: Connect) => {
    setMethod(newMethod);
    setWaitingFor({ text });
    void signIn.run(connect);
  };
  const getProblem = (button: Method) => (button === method ? signIn.problem : null);

  const withQrCode: Connect = async (signal) => {
    const { uri, connected } = inviteSigner(signerRelay, signal, isRemembered);
    setWaitingFor({ text: t('account.scanCode'), uri });
    const signEvent = await connected;
    setWaitingFor({ text: APPROVE_TEXT });
    return signEvent;
  };
  const withBunkerAddress: Connect = (signal) => {
    const pointer = parseBunkerUri(bunkerUri, location.protocol === 'http:');
    return connectToBunker(pointer, signal, isRemembered);
  };
  const forget = () => {
    pairingStore.save(null);
    setPairing(null);
  };
  const extension = (
    <>
      <h3>{t('account.extension')}</h3>
      <p>{t('account.extensionText')}</p>
      <p>
        <Button
          class={IS_PHONE || pairing !== null ? 'secondary' : ''}
          onClick={() => start('extension', t('account.waitingForExtension'), connectToExtension)}
        >
          {t('account.extensionButton')}
        </Button>
      </p>
      <FormProblem text={getProblem('extension')} />
    </>
  );
  const remoteSigner = (
    <>
      <h3>{t('account.signer')}</h3>
      <p>
        <Button
          class={IS_PHONE && pairing === null ? '' : 'secondary'}
          onClick={() => start('qr_code', t('account.scanCode'), withQrCode)}
        >
          {t(IS_PHONE ? 'account.signerAppButton' : 'account.showQrCode')}
        </Button>
      </p>
      <FormProblem text={getProblem('qr_code')} />
      <p>{t('account.signerText')}</p>
      <FieldForm
        id="bunker"
        label={t('account.signerAddress')}
        value={bunkerUri}
        onText={setBunkerUri}
        attributes={{ placeholder: 'bunker://…' }}
        problem={getProblem('bunker')}
        button={t('account.connect')}
        isSecondary
        onSubmit={() => start('bunker', APPROVE_TEXT, withBunkerAddress)}
      />
      <label class="switch">
        <input
          type="checkbox"
          checked={isRemembered}
          onChange={({ currentTarget }) => setIsRemembered(currentTarget.checked)}
        />
        {t('account.remember')}
      </label>
    </>
  );

  return (
    <Section title={t('account.signInTitle')}>
      <p>{t('account.signInText')}</p>
      <p>{rich('account.noKey', KEY_APPS)}</p>
      {waitingFor !== null && (
        <Waiting {...waitingFor} onCancel={() => abort(t('account.signInCancelled'))} />
      )}
      {pairing !== null && (
        <>
          <p class="row">
            <Button
              class=""
              onClick={() => start('pairing', APPROVE_TEXT, (signal) => reconnect(pairing, signal))}
            >
              {t('account.rememberedButton')}
            </Button>
            <Button onClick={forget}>{t('account.forget')}</Button>
          </p>
          <FormProblem text={getProblem('pairing')} />
        </>
      )}
      {IS_PHONE ? [remoteSigner, extension] : [extension, remoteSigner]}
      <p class="hint">{t('account.staySignedIn')}</p>
    </Section>
  );
}

function KeyApp({ name, href }: { name: string; href: string }) {
  return (
    <a href={href} rel="noopener noreferrer">
      {name}
    </a>
  );
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
            {t('account.openSigner')}
          </a>
        )}
        <Button onClick={onCancel}>{t('account.cancel')}</Button>
      </p>
      {uri !== undefined && (
        <>
          <QrCode text={uri} label={t('account.signerQrCode')} />
          <CopyableText text={uri} label={t('account.copyAddress')} />
        </>
      )}
    </Dialog>
  );
}
