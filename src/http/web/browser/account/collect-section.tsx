import { Section } from './elements.tsx';
import type { User } from './user.ts';

export function CollectSection(_props: { user: User }) {
  return <Section title="How to collect">{null}</Section>;
}
