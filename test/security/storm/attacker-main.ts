import { ATTACKS, type AttackName, type Victim } from './attacks.ts';

/**
 * An attacker in a process of its own, so that its work delays the service alone and not those who
 * measure it. Told by the parent what to do; says when it is in full swing; ends when it is killed.
 */
process.once('message', ({ attack, victim }: { attack: AttackName; victim: Victim }) => {
  void ATTACKS[attack](victim).then((npubs) => process.send?.(npubs));
});
// An attacker without its parent has nobody left to be measured by.
process.once('disconnect', () => process.exit());
