import { npubEncode } from 'nostr-tools/nip19';
import { useState } from 'preact/hooks';
import { language, rich, t } from '../translator.ts';
import { ChannelState, type ChannelsProps } from './channel-state.tsx';
import { Button, Problem, useAction } from './elements.tsx';

/** @param props.nostrPubkey the key of the server */
export function NostrPart({
  nostrPubkey,
  channels,
  onAdd,
  ...props
}: ChannelsProps & { nostrPubkey: string }) {
  const [isNew, setIsNew] = useState(false);
  const channel = channels.find(({ kind }) => kind === 'nostr');
  const add = useAction(async () => {
    setIsNew(true);
    const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
    await onAdd({ kind: 'nostr', language, timeZone });
  });
  return (
    <>
      <h3>{t('account.nostrTitle')}</h3>
      <p>
        {rich('account.nostrText', {
          npub: <code class="breakable">{npubEncode(nostrPubkey)}</code>,
        })}
      </p>
      {channel === undefined ? (
        <>
          <p class="row">
            <Button aria-disabled={add.isRunning} onClick={() => void add.run()}>
              {t(add.isRunning ? 'account.saving' : 'account.nostrAdd')}
            </Button>
          </p>
          <Problem text={add.problem} />
        </>
      ) : (
        <ChannelState {...props} channel={channel} isNew={isNew} />
      )}
    </>
  );
}
