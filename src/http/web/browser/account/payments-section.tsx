import type { ApiClient } from './api-client.ts';
import { Section } from './elements.tsx';
import type { User } from './user.ts';

export function PaymentsSection(_props: { api: ApiClient }) {
  return <Section title="Received payments">{null}</Section>;
}
