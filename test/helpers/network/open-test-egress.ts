import { onTestFinished } from 'vitest';
import { createEgress, type Egress } from '../../../src/net/egress.ts';

/** Creates clients whose connections are all in the network thread, and closes them when the test ends. */
export function openTestEgress(): Egress {
  // With private networks, each port is a site.
  const egress = createEgress({ allowPrivateNetworks: true, operatorUrls: [] });
  onTestFinished(() => egress.close());
  return egress;
}
