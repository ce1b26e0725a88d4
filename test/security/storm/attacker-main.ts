import { ATTACKS, type AttackName, type Victim } from './attacks.ts';

/** An attacker in a process of its own, so that its work does not delay those who measure. */
process.once('message', ({ attack, victim }: { attack: AttackName; victim: Victim }) => {
  void ATTACKS[attack](victim).then((npubs) => process.send?.(npubs));
});
process.once('disconnect', () => process.exit());
