import type { ApiClient } from './api-client.ts';
import { Section } from './elements.tsx';

export function PaymentsSection(_props: { api: ApiClient }) {
  return <Section title="Received payments">{null}</Section>;
}
