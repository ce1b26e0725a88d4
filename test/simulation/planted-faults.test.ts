import { expect, it } from 'vitest';
import { editSources, readPlantedFaults } from './planted-faults.ts';

// `npm run test:planted`, which finds the faults, takes minutes.
it.each(readPlantedFaults())('can plant in the service: $name', (fault) => {
  expect(fault.edits).not.toHaveLength(0);
  expect(() => editSources(fault)).not.toThrow();
});
