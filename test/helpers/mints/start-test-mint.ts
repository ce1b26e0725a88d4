import { onTestFinished } from 'vitest';
import type { TestMintOptions } from '../../../demo/test-mint/state.ts';
import type { TestMintSwitches } from '../../../demo/test-mint/switches.ts';
import { TestMint } from '../../../demo/test-mint.ts';

export async function startTestMint(
  switches: Partial<TestMintSwitches> = {},
  options: Omit<TestMintOptions, 'switches'> = {},
): Promise<TestMint> {
  const mint = await TestMint.start({ ...options, switches });
  onTestFinished(() => mint.close());
  return mint;
}
