import { setupManifest } from '@start9labs/start-sdk';

export const manifest = setupManifest({
  id: 'nutpost',
  title: 'nutpost',
  license: 'MIT',
  packageRepo: 'https://github.com/OWNER/nutpost',
  upstreamRepo: 'https://github.com/OWNER/nutpost',
  marketingUrl: 'https://github.com/OWNER/nutpost',
  donationUrl: null,
  description: {
    short: 'Lightning addresses for Nostr keys, paid out as Cashu ecash',
    long:
      'Every Nostr key gets a Lightning address at your domain. Each payment waits as a quote at the Cashu mint of the' +
      ' recipient, whose wallet redeems it for ecash. The server never holds the money of its users.',
  },
  volumes: ['main'],
  images: {
    main: {
      source: { dockerTag: 'ghcr.io/OWNER/nutpost:0.2.0' },
      arch: ['x86_64', 'aarch64'],
    },
  },
  dependencies: {},
});
