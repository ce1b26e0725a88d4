import type { ApiClient } from './api-client.ts';
import { Section } from './elements.tsx';
import type { User } from './user.ts';

/** The Lightning addresses of the user, with QR codes. */
export function AddressesSection(_props: { api: ApiClient; user: User }) {
  return <Section title="Your addresses">{null}</Section>;
}
