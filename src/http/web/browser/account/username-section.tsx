import type { ApiClient } from './api-client.ts';
import { Section } from './elements.tsx';
import type { User } from './user.ts';

export function UsernameSection(_props: {
  api: ApiClient;
  user: User;
  onUserChange: (user: User) => void;
}) {
  return <Section title="Username">{null}</Section>;
}
