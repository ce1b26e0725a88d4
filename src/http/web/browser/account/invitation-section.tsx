import { useState } from 'preact/hooks';
import { Section } from '../../elements.ts';
import { t } from '../translator.ts';
import type { Session, User } from './api-client.ts';
import { FieldForm, useAction } from './elements.tsx';

/** For users who are not members. The link of an invitation fills in its code. */
export function InvitationSection({ api, onUserChange }: Session) {
  const [text, setText] = useState(readCode(location.hash));
  const { isRunning, problem, run } = useAction(async () => {
    const body = { code: readCode(text) || text.trim() };
    const options = { method: 'POST', body } as const;
    const { data } = await api.request<{ user: User }>('/api/v2/user/membership', options);
    onUserChange(data.user);
  });
  return (
    <Section title={t('account.invitation')}>
      <FieldForm
        id="invitation"
        label={t('account.membersOnly')}
        value={text}
        onText={setText}
        attributes={{}}
        problem={problem}
        button={t('account.join')}
        busyButton={isRunning && t('account.saving')}
        onSubmit={run}
      />
    </Section>
  );
}

/** Reads the code after `#invitation=`, because browsers do not send that part of a link to servers. */
function readCode(text: string): string {
  return /#invitation=([\w-]+)/.exec(text)?.[1] ?? '';
}
