import type { ApiClient } from './api-client.ts';
import { Section } from './elements.tsx';
import type { User } from './user.ts';

export function MintSection(_props: {
  api: ApiClient;
  user: User;
  onUserChange: (user: User) => void;
}) {
  return <Section title="Your mint">{null}</Section>;
}
